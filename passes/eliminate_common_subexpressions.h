// One operation for all that compute the same: equal op, operands and attributes (operands of commutative ops in any
// order). The first in program order stays. Keeps the stage.
#pragma once

#include "passes/pass.h"

namespace rtx {

Result<bool> eliminate_common_subexpressions(Module& module, PassContext& context);

}  // namespace rtx
