// Moves of elements go where they cost nothing: transposes stand before norms of the axes that they keep, next to the
// product whose result they turn, where a kernel that reads it follows them as strides or index maps; and products over
// an axis of length 1, which only spread elements over an outer product, become multiplications. Results are equal bit
// by bit under the evaluator, but that a zero may change its sign.
#pragma once

#include "passes/pass.h"

namespace rtx {

Result<bool> normalize_layouts(Module& module, PassContext& context);

}  // namespace rtx
