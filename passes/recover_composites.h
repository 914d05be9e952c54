// Recognises composite operations in what exporters decomposed: softmax, layer_norm, rms_norm, gelu, silu, rope and
// attention with its masks. A match is decided by what the operations compute (roles, dtypes, axes, constants), never
// by names. Results stay within rounding: a composite rounds once where its pieces rounded each time. Needs canonical
// form; what does not match stays as it is.
#pragma once

#include "passes/pass.h"

namespace rtx {

Result<bool> recover_composites(Module& module, PassContext& context);

}  // namespace rtx
