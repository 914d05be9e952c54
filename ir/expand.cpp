#include "ir/expand.h"

namespace rtx {

Result<void> expand(Operation& operation) {
  Builder builder(*operation.block(), &operation);
  builder.origins = operation.origins;
  RTX_ASSIGN(Value * value, operation.spec().expand(operation, builder));
  if (value->def()) value->name = operation.result()->name;
  operation.result()->replace_all_uses_with(value);
  operation.block()->erase(&operation);
  return Ok{};
}

}  // namespace rtx
