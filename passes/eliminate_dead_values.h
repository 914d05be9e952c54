// Drops operations that nothing uses (every operation is pure) and symbols that no type mentions. Keeps inputs, used
// or not: they are the program's interface. Keeps the stage.
#pragma once

#include "passes/pass.h"

namespace rtx {

Result<bool> eliminate_dead_values(Module& module, PassContext& context);

}  // namespace rtx
