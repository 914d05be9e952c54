// Writes composite operations that have an expansion (OpSpec::expand) as the core operations that they stand for, and
// folds what this makes of weights, such as scales.
#pragma once

#include "passes/pass.h"

namespace rtx {

// All of them.
Result<bool> expand_composites(Module& module, PassContext& context);
// All but those that code generation takes whole: what is left are the quantised forms.
Result<bool> expand_simple_composites(Module& module, PassContext& context);
// Those that `wanted` says.
Result<bool> expand_composites_where(Module& module, bool (*wanted)(const Operation&));

}  // namespace rtx
