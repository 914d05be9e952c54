// Erases operations whose results have no use. Inputs of functions stay, used or not. Weights that no operation names
// any more stay in the store, but are not written.
#pragma once

#include "passes/pass.h"

namespace rtx {

Result<bool> eliminate_dead_values(Module& module, PassContext& context);

}  // namespace rtx
