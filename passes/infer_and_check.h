// Infers every type again from the inputs on, so that what an earlier pass learned reaches all users, then verifies.
// Keeps the stage.
#pragma once

#include "passes/pass.h"

namespace rtx {

Result<bool> infer_and_check(Module& module, PassContext& context);

}  // namespace rtx
