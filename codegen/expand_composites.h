// Replaces the composite operations that have an expansion (OpSpec::expand) by it. What the expansions compute from
// constants only (a zero point in another dtype, say) is folded where it is small.
#pragma once

#include "ir/module.h"

namespace rtx::codegen {

Result<void> expand_composites(Module& module);

}  // namespace rtx::codegen
