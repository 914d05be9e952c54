// Infers every result type again from the operands and stores it, then runs the verifier. Used after import and after
// symbols were replaced, where types may have become sharper.
#pragma once

#include "passes/pass.h"

namespace rtx {

Result<bool> infer_and_check(Module& module, PassContext& context);

}  // namespace rtx
