// Rewrites operations into simpler equal ones until no rule applies, and erases what dies on the way. Needs nothing;
// results are equal bit by bit under the evaluator (the payload of NaN aside). The rules stand in
// canonicalize_arithmetic.cpp and canonicalize_movement.cpp.
#pragma once

#include "passes/pass.h"

namespace rtx {

Result<bool> canonicalize(Module& module, PassContext& context);

}  // namespace rtx
