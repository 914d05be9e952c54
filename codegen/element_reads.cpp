#include "codegen/element_reads.h"

#include "base/text.h"
#include "codegen/emit/scalar_ops.h"
#include "codegen/row_shape.h"

namespace rtx::codegen {
namespace {

constexpr size_t most_places = 64;  // of one value

}  // namespace

ElementReads::ElementReads(const Block& body, const SymbolRanges& symbols) : symbols_(symbols) {
  for (const Value* result : body.terminator()->operands()) add(result, "", result->type.element_count());
  const auto& operations = body.operations();
  for (auto operation = operations.rbegin(); operation != operations.rend(); ++operation) {
    if (!(*operation)->is(Op::yield)) visit(**operation);
  }
}

std::optional<Dim> ElementReads::of(const Value* value) const {
  auto found = places_.find(value);
  if (found == places_.end()) return Dim(0);
  if (found->second.size() > most_places) return std::nullopt;
  Dim sum(0);
  for (const auto& [place, count] : found->second) sum = sum + count;
  return sum;
}

void ElementReads::add(const Value* value, const std::string& place, const Dim& count) {
  Places& places = places_[value];
  if (places.size() <= most_places) places.try_emplace(place, count);
}

void ElementReads::visit(const Operation& operation) {
  const Places results = places_[operation.result()];
  const Dim all = operation.result()->type.element_count();
  if (is_row_op(operation.op)) {
    const std::optional<RowShape> rows = row_shape_of(operation, symbols_);
    const Dim count = operation.operand(0)->type.element_count();
    add(operation.operand(0), "", count * Dim(rows ? row_passes(operation, *rows) : 1));
    for (size_t i = 1; i < operation.operand_count(); ++i) add(operation.operand(i), concat("row", i), count);
    return;
  }
  for (const auto& [place, count] : results) {
    auto elsewhere = [&, &place = place] { return concat(place, "/", next_++); };
    for (size_t i = 0; i < operation.operand_count(); ++i) {
      const Value* operand = operation.operand(i);
      const Dim own = operand->type.element_count();
      const bool in_place = (is_scalar_op(operation.op) && operand->type.shape == operation.result()->type.shape) ||
                            operation.is(Op::reshape);
      if (in_place) {
        add(operand, place, count);
      } else if (operation.is(Op::rope) && i == 0) {
        add(operand, place, count);
        add(operand, elsewhere(), count);  // the other one of the pair
      } else if ((operation.is(Op::concat) || operation.is(Op::pad)) && count == all) {
        add(operand, elsewhere(), own);
      } else {
        add(operand, elsewhere(), count);
      }
    }
  }
}

}  // namespace rtx::codegen
