#include "codegen/expand_composites.h"

#include "passes/eliminate_dead_values.h"
#include "passes/fold_constants.h"

namespace rtx::codegen {
namespace {

// Bytes of a folded value: parameters such as scales and zero points, no weights.
constexpr int64_t most_folded_bytes = 4096;

Result<bool> expand_in(Block& block) {
  bool changed = false;
  for (Operation* operation = block.operations().front().get(); operation;) {
    Operation* next = block.next(operation);
    if (operation->spec().expand) {
      Builder builder(block, operation);
      builder.origins = operation->origins;
      RTX_ASSIGN(Value * value, operation->spec().expand(*operation, builder));
      if (value->def()) value->name = operation->result()->name;
      operation->result()->replace_all_uses_with(value);
      block.erase(operation);
      changed = true;
    }
    operation = next;
  }
  return changed;
}

}  // namespace

Result<void> expand_composites(Module& module) {
  bool changed = false;
  for (const auto& function : module.functions) {
    RTX_ASSIGN(bool function_changed, expand_in(function->block));
    changed = changed || function_changed;
  }
  if (!changed) return Ok{};
  PassContext context;
  context.small_bytes = most_folded_bytes;
  context.max_folded_value_bytes = most_folded_bytes;
  RTX_TRY(fold_constants(module, context));
  RTX_TRY(eliminate_dead_values(module, context));
  return Ok{};
}

}  // namespace rtx::codegen
