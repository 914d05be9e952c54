// Replaces the composite operations that have an expansion (OpSpec::expand) by it. What the expansions compute from
// scales and zero points only is folded where it is small; what is quantised stays as it is.
#pragma once

#include "ir/module.h"

namespace rtx::codegen {

Result<void> expand_composites(Module& module);

}  // namespace rtx::codegen
