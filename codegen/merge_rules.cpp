#include "codegen/merge_rules.h"

#include <algorithm>

#include "base/text.h"
#include "codegen/element_reads.h"
#include "codegen/emit/scalar_ops.h"
#include "codegen/plan_common.h"
#include "codegen/representative_values.h"
#include "codegen/row_shape.h"

namespace rtx::codegen {
namespace {

// Above this, more registers would be needed than what is saved.
constexpr size_t most_operations = 48;
constexpr size_t most_operands = 16;
// Neighbours do not share registers, only the text of a kernel.
constexpr size_t most_neighbour_operations = 96;
constexpr size_t most_neighbour_operands = 24;

// Elementwise operations and loads from a near cache, with the arithmetic on their indices, of the reference GPU.
constexpr double operations_a_ns = 10000;

double bytes_a_ns() { return package::reference_gpu().reached_bytes_per_second() / 1e9; }

size_t operation_count(const Block& body) { return body.size() - 1; }

double at(const Dim& dim, const SymbolValues& sizes) {
  const Result<int64_t> value = dim.evaluate(sizes);
  return value ? static_cast<double>(*value) : 0;
}

double cost_of_element(const Block& body) {
  double operations = 0;
  for (const auto& operation : body.operations()) {
    if (operation->is(Op::yield) || operation->is(Op::constant)) continue;
    operations += std::max(1, flops_per_element(operation->op));
  }
  return operations / operations_a_ns;
}

const Operation* row_operation(const Operation& fusion) { return find_only(*fusion.body(), is_row_op); }

bool row_is_kept(const Operation& operation, const SymbolRanges& symbols) {
  const std::optional<RowShape> rows = row_shape_of(operation, symbols);
  return rows && rows->kept > 0;
}

// Whether two fusions together stay within these limits.
Verdict fit(const Operation& a, const Operation& b, size_t operations, size_t operands) {
  if (operation_count(*a.body()) + operation_count(*b.body()) > operations)
    return may_not("together they have too many operations");
  if (a.operand_count() + b.operand_count() > operands) return may_not("together they have too many operands");
  return may();
}

// Only elementwise operations and constants.
bool is_elementwise(const Block& body) {
  for (const auto& operation : body.operations()) {
    if (!is_scalar_op(operation->op) && !operation->is(Op::constant) && !operation->is(Op::yield)) return false;
  }
  return true;
}

// Whether element i of `value`, a value of the body of a fusion, is read for element i of what depends on it and for
// nothing else: only elementwise operations of its shape stand between it and the results, or the row operation's row.
bool is_read_in_place(const Value* value) {
  const Shape& shape = value->type.shape;
  for (const Use& use : value->uses()) {
    const Operation& user = *use.user;
    if (user.is(Op::yield)) continue;
    if (is_scalar_op(user.op)) {
      if (user.result()->type.shape != shape || !is_read_in_place(user.result())) return false;
    } else if (!is_row_op(user.op) || use.index != 0) {
      return false;
    }
  }
  return true;
}

bool has_one_result(const Operation& fusion) { return fusion.result_count() == 1; }

}  // namespace

bool is_kind(const Operation* operation, std::string_view kind) {
  return operation && operation->is(Op::fusion) && operation->attributes.string("kind") == kind;
}

Verdict can_move_into(const Operation& producer, const std::vector<Reader>& readers, const SymbolRanges& symbols) {
  if (!is_kind(&producer, "pointwise")) return may_not("it is no pointwise work");
  if (!has_one_result(producer)) return may_not("it has several results");
  const SymbolValues sizes = representative_values(symbols);
  const Value* value = producer.result();
  const double count = at(value->type.element_count(), sizes), each = cost_of_element(*producer.body());
  const double result_ns = at(byte_count(value->type), sizes) / bytes_a_ns();
  const double operands_ns = at(traffic_bytes(*producer.body()), sizes) / bytes_a_ns() - result_ns;
  double apart = package::launch_ns + operands_ns + result_ns + count * each, together = 0;
  for (const Reader& reader : readers) {
    const Block& body = *reader.fusion->body();
    if (!is_kind(reader.fusion, "pointwise") && !is_kind(reader.fusion, "row"))
      return may_not("a reader takes no such work");
    if (Verdict verdict = fit(*reader.fusion, producer, most_operations, most_operands); !verdict) return verdict;
    const std::optional<Dim> reads = ElementReads(body, symbols).of(body.argument(reader.operand));
    if (!reads) return may_not("it is not known how often a reader computes an element");
    const double elements = at(*reads, sizes);
    apart += result_ns;
    together += elements * each + operands_ns * std::min(1.0, count > 0 ? elements / count : 0);
  }
  if (together > apart) {
    return may_not(concat("estimated at ", static_cast<int64_t>(together), " ns where it is read, at ",
                          static_cast<int64_t>(apart), " ns apart"));
  }
  return may();
}

Verdict can_follow_row(const Operation& row, const Operation& pointwise, size_t operand, const SymbolRanges& symbols) {
  const Operation* operation = row_operation(row);
  if (!operation || !has_one_result(row)) return may_not("the row kernel has several results");
  if (!is_kind(&pointwise, "pointwise")) return may_not("its reader is no pointwise work");
  if (!row.result()->has_one_use()) return may_not("it is read elsewhere too");
  const std::optional<RowShape> rows = row_shape_of(*operation, symbols);
  if (!rows || !stays_in_row(*pointwise.body()->argument(operand), rows->along(operation->operand(0)->type.shape)))
    return may_not("its elements are read out of their order");
  for (const Value* result : pointwise.body()->terminator()->operands()) {
    if (result->type.shape != row.result()->type.shape) return may_not("the results have another shape");
  }
  return fit(row, pointwise, most_operations, most_operands);
}

Verdict can_be_second_result(const Operation& row, size_t operand, const SymbolRanges& symbols) {
  const Operation* operation = row_operation(row);
  const Value* value = row.operand(operand);
  const Operation* producer = value->def();
  if (!operation || !is_kind(producer, "pointwise") || !has_one_result(*producer))
    return may_not("it is no pointwise work");
  if (!is_elementwise(*producer->body()) && !row_is_kept(*operation, symbols))
    return may_not("the row is read several times");
  if (value->type.shape != operation->result()->type.shape)
    return may_not("the row kernel's results have another shape");
  if (!is_read_in_place(row.body()->argument(operand)))
    return may_not("the row kernel reads its elements out of their order");
  return fit(row, *producer, most_operations, most_operands);
}

Verdict can_be_neighbours(const Operation& a, const Operation& b, const SymbolRanges& symbols) {
  const std::string& kind = a.attributes.string("kind");
  if (kind != b.attributes.string("kind")) return may_not("they are of different kinds");
  if (kind != "pointwise" && kind != "row") return may_not("such work is not done side by side");
  std::optional<bool> by_warp;
  for (const Operation* fusion : {&a, &b}) {
    for (size_t i = 0; i < fusion->result_count(); ++i) {
      if (bit_width(fusion->result(i)->type.dtype) < 8) return may_not("elements share bytes");
    }
    for (const auto& operation : fusion->body()->operations()) {
      if (!is_row_op(operation->op)) continue;
      const std::optional<RowShape> rows = row_shape_of(*operation, symbols);
      if (!rows || by_warp.value_or(rows->by_warp()) != rows->by_warp())
        return may_not("rows of warps and rows of blocks do not go side by side");
      by_warp = rows->by_warp();
    }
  }
  return fit(a, b, most_neighbour_operations, most_neighbour_operands);
}

}  // namespace rtx::codegen
