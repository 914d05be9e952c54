// Writes rope and attention as core operations, for devices that have no kernel for them. Results stay within rounding.
#pragma once

#include "passes/pass.h"

namespace rtx {

Result<bool> expand_composites(Module& module, PassContext& context);

}  // namespace rtx
