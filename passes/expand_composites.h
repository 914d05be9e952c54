// Replaces the composite operations that have an expansion (OpSpec::expand) by it. What the expansions compute from
// scales and zero points only is folded where it is small; what is quantised stays as it is.
#pragma once

#include "passes/pass.h"

namespace rtx {

Result<bool> expand_composites(Module& module, PassContext& context);

}  // namespace rtx
