#include "passes/infer_and_check.h"

#include "base/text.h"
#include "ir/verify.h"

namespace rtx {

namespace {

Result<bool> infer_block(Block& block) {
  bool changed = false;
  for (const auto& operation : block.operations()) {
    if (!operation->spec().infer) continue;  // fusion and yield have no types of their own
    std::vector<Type> operands = operation->operand_types();
    Result<std::vector<Type>> types = infer_types(operation->op, operands, operation->attributes);
    if (!types) {
      std::string place =
          operation->origins.empty() ? std::string(to_string(operation->op)) : join(operation->origins, ", ");
      return std::move(types).error().within(place);
    }
    for (size_t i = 0; i < types->size() && i < operation->result_count(); ++i) {
      Type& old = operation->result(i)->type;
      if (old == (*types)[i]) continue;
      old = (*types)[i];
      changed = true;
    }
  }
  return changed;
}

}  // namespace

Result<bool> infer_and_check(Module& module, PassContext&) {
  bool changed = false;
  for (auto& function : module.functions) {
    RTX_ASSIGN(bool function_changed, infer_block(function->block));
    changed = changed || function_changed;
  }
  RTX_TRY(verify(module));
  return changed;
}

}  // namespace rtx
