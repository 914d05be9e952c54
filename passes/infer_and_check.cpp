#include "passes/infer_and_check.h"

#include "base/text.h"
#include "ir/verify.h"

namespace rtx {

Result<bool> infer_and_check(Module& module, PassContext&) {
  bool changed = false;
  for (const auto& function : module.functions) {
    for (const auto& op : function->block.operations()) {
      if (op->result_count() == 0 || op->body()) continue;
      const std::vector<Type> operands = op->operand_types();
      Result<std::vector<Type>> inferred = infer_types(op->op, operands, op->attributes);
      if (!inferred) return std::move(inferred).error().within(join(op->origins, ", "));
      for (size_t i = 0; i < op->result_count(); ++i) {
        if (op->result(i)->type == (*inferred)[i]) continue;
        op->result(i)->type = (*inferred)[i];
        changed = true;
      }
    }
  }
  RTX_TRY(verify(module));
  return changed;
}

}  // namespace rtx
