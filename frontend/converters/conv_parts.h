// Convolution for several operators.
#pragma once

#include "frontend/conversion.h"

namespace rtx::onnx {

// x [batch, channels, spatial...] convolved with w [outputs, channels / group, window...] as the node's attributes
// auto_pad, dilations, group, kernel_shape, pads and strides say. `bias` [outputs] may be null.
Result<Value*> convolved(Conversion& c, Value* x, Value* w, Value* bias);

}  // namespace rtx::onnx
