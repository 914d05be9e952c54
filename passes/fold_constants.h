// Evaluates operations whose operands are all constants or weights. A small result becomes a `constant`, a large one a
// new `weight`. Folding never enlarges the program much: a result that is larger than its operands and than 4 KiB is
// left alone, as is what would pass the budgets of the context. Keeps the stage.
#pragma once

#include "passes/pass.h"

namespace rtx {

Result<bool> fold_constants(Module& module, PassContext& context);

}  // namespace rtx
