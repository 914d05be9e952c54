// Algebraic canonicalisation: every operation takes its shortest form. Rules are local, and exact: the evaluator gives
// the same bits before and after, NaN and signed zero included. Needs nothing; keeps the stage.
#pragma once

#include "passes/pass.h"

namespace rtx {

Result<bool> canonicalize(Module& module, PassContext& context);

}  // namespace rtx
