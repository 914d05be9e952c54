// Pooling for several operators.
#pragma once

#include "frontend/conversion.h"

namespace rtx::onnx {

// The mean of each window of x [batch, channels, spatial...] as the node's attributes say, computed in f32 (f64 for
// f64).
Result<Value*> average_pooled(Conversion& c, Value* x);

}  // namespace rtx::onnx
