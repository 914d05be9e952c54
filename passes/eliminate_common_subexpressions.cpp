#include "passes/eliminate_common_subexpressions.h"

#include <algorithm>
#include <unordered_map>

namespace rtx {

namespace {

std::vector<Value*> ordered_operands(const Operation& op) {
  std::vector<Value*> operands = op.operands();
  if (op.spec().has(trait_commutative) && operands.size() >= 2 && std::less<>()(operands[1], operands[0]))
    std::swap(operands[0], operands[1]);
  return operands;
}

size_t hash(const Operation& op) {
  auto mix = [seed = static_cast<size_t>(op.op)](size_t value) mutable {
    return seed = (seed ^ value) * 0x9e3779b97f4a7c15u;
  };
  for (const Value* operand : ordered_operands(op)) mix(std::hash<const Value*>()(operand));
  size_t result = mix(0);
  for (const auto& [name, value] : op.attributes.entries()) {
    if (auto* text = std::get_if<std::string>(&value)) result = mix(std::hash<std::string>()(*text));
    if (auto* integer = std::get_if<int64_t>(&value)) result = mix(static_cast<size_t>(*integer));
    if (auto* integers = std::get_if<std::vector<int64_t>>(&value))
      for (int64_t i : *integers) result = mix(static_cast<size_t>(i));
    if (auto* dims = std::get_if<std::vector<Dim>>(&value))
      for (const Dim& d : *dims) result = mix(d.is_constant() ? static_cast<size_t>(d.constant()) : 1);
    if (auto* tensor = std::get_if<Tensor>(&value))
      for (std::byte b : tensor->bytes) result = mix(static_cast<size_t>(b));
  }
  return result;
}

// A NaN constant equals itself here: attributes compare by bits.
bool same(const Operation& a, const Operation& b) {
  return a.op == b.op && ordered_operands(a) == ordered_operands(b) && a.attributes == b.attributes &&
         a.result_types() == b.result_types();
}

bool merge_equal(Block& block) {
  bool changed = false;
  std::unordered_multimap<size_t, Operation*> seen;
  const auto& operations = block.operations();
  for (auto it = operations.begin(); it != operations.end();) {
    Operation* op = (it++)->get();
    if (op->result_count() == 0 || op->body()) continue;
    const size_t key = hash(*op);
    auto [first, last] = seen.equal_range(key);
    auto found = std::find_if(first, last, [&](const auto& entry) { return same(*entry.second, *op); });
    if (found == last) {
      seen.emplace(key, op);
      continue;
    }
    for (size_t i = 0; i < op->result_count(); ++i) op->result(i)->replace_all_uses_with(found->second->result(i));
    block.erase(op);
    changed = true;
  }
  return changed;
}

}  // namespace

Result<bool> eliminate_common_subexpressions(Module& module, PassContext&) {
  bool changed = false;
  for (const auto& function : module.functions) changed = merge_equal(function->block) || changed;
  return changed;
}

}  // namespace rtx
