#include "passes/expand_composites.h"

#include <algorithm>
#include <iterator>

#include "ir/expand.h"
#include "passes/eliminate_dead_values.h"
#include "passes/fold_constants.h"

namespace rtx {
namespace {

// Bytes of a folded value: parameters such as scales and zero points.
constexpr int64_t most_folded_bytes = int64_t{64} << 10;

// Composites that code generation takes whole.
bool has_kernel(Op op) {
  constexpr Op whole[] = {Op::attention,  Op::rope,     Op::softmax, Op::log_softmax,
                          Op::layer_norm, Op::rms_norm, Op::gelu,    Op::silu};
  return std::find(std::begin(whole), std::end(whole), op) != std::end(whole);
}

// Where the first operands lead to.
const Value* root_of(const Value* value) {
  while (value->def() && value->def()->operand_count() > 0) value = value->def()->operand(0);
  return value;
}

Result<bool> expand_in(Block& block, bool (*wanted)(const Operation&), PassContext& context) {
  bool changed = false;
  for (Operation* operation = block.operations().front().get(); operation;) {
    Operation* next = block.next(operation);
    if (operation->spec().expand && wanted(*operation)) {
      context.kept.insert(root_of(operation->operand(0)));
      RTX_TRY(expand(*operation));
      changed = true;
    }
    operation = next;
  }
  return changed;
}

}  // namespace

Result<bool> expand_composites_where(Module& module, bool (*wanted)(const Operation&)) {
  PassContext context;  // of the folding here
  context.small_bytes = most_folded_bytes;
  context.max_folded_value_bytes = most_folded_bytes;
  bool changed = false;
  for (const auto& function : module.functions) {
    RTX_ASSIGN(bool function_changed, expand_in(function->block, wanted, context));
    changed = changed || function_changed;
  }
  if (!changed) return false;
  RTX_TRY(fold_constants(module, context));
  RTX_TRY(eliminate_dead_values(module, context));
  return true;
}

Result<bool> expand_composites(Module& module, PassContext&) {
  return expand_composites_where(module, [](const Operation&) { return true; });
}

Result<bool> expand_simple_composites(Module& module, PassContext&) {
  return expand_composites_where(module, [](const Operation& operation) { return !has_kernel(operation.op); });
}

}  // namespace rtx
