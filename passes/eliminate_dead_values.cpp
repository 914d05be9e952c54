#include "passes/eliminate_dead_values.h"

#include <set>

namespace rtx {

namespace {

bool drop_unused(Block& block) {
  bool changed = false;
  // Last to first, so that a chain of dead operations goes in one walk.
  const auto& operations = block.operations();
  for (auto it = operations.end(); it != operations.begin();) {
    --it;
    Operation* op = it->get();
    if (op->result_count() == 0 || !op->unused()) continue;
    ++it;
    block.erase(op);
    changed = true;
  }
  return changed;
}

void collect(const Block& block, std::vector<std::string>& names) {
  auto in_shape = [&](const Shape& shape) {
    for (const Dim& d : shape)
      if (!d.is_constant()) d.collect_symbols(names);
  };
  for (size_t i = 0; i < block.argument_count(); ++i) in_shape(block.argument(i)->type.shape);
  for (const auto& op : block.operations()) {
    for (size_t i = 0; i < op->result_count(); ++i) in_shape(op->result(i)->type.shape);
    for (const auto& [name, value] : op->attributes.entries()) {
      if (auto* dims = std::get_if<std::vector<Dim>>(&value)) in_shape(*dims);
      if (auto* dim = std::get_if<Dim>(&value)) in_shape({*dim});
    }
    if (op->body()) collect(*op->body(), names);
  }
}

}  // namespace

Result<bool> eliminate_dead_values(Module& module, PassContext&) {
  bool changed = false;
  std::vector<std::string> used;
  for (const auto& function : module.functions) {
    changed = drop_unused(function->block) || changed;
    collect(function->block, used);
  }
  const std::set<std::string, std::less<>> names(used.begin(), used.end());
  const size_t dropped = std::erase_if(module.symbols, [&](const auto& entry) { return !names.contains(entry.first); });
  return changed || dropped > 0;
}

}  // namespace rtx
