// Evaluates operations whose operands are constants or weights. Small results become `constant`, larger ones new
// weights of the module's store, named after the weight they come from.
//
// What limits it: the budgets of PassContext; a result above small_bytes must not be larger than its operands; and a
// weight with other uses is only read where the result is small, since its data would then be stored twice (tied
// weights stay tied).
#pragma once

#include "passes/pass.h"

namespace rtx {

Result<bool> fold_constants(Module& module, PassContext& context);

}  // namespace rtx
