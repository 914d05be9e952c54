// Pieces that the quantized operators share.
#pragma once

#include "frontend/conversion.h"

namespace rtx::onnx {

// A scale or zero point that stands for one tensor, one entry of an axis, or blocks of `block` elements of an axis
// (0: none), as a value that broadcasts to `shape`.
Result<Value*> spread(Conversion& c, Value* parameter, const Shape& shape, int64_t axis, int64_t block);

// x - zero, exactly, as i32; `zero` may be null.
Result<Value*> without_zero(Conversion& c, Value* x, Value* zero);

}  // namespace rtx::onnx
