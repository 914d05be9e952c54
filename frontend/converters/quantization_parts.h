// Pieces that the quantized operators share.
#pragma once

#include "frontend/conversion.h"

namespace rtx::onnx {

// How integers stand for reals. A null zero point is 0.
struct Quantization {
  Value* scale = nullptr;
  Value* zero = nullptr;
  // ONNX's attributes of the same meaning: which axis a scale of rank 1 runs along, or the blocks of one of rank x.
  int64_t axis = 0;
  int64_t block_size = 0;
  bool saturate = true;  // f8 only
};

// x / scale + zero point as `to`, divided in the dtype of the scale.
Result<Value*> quantized(Conversion& c, Value* x, Quantization by, DType to);

// (x - zero point) * scale as `to`.
Result<Value*> dequantized(Conversion& c, Value* x, Quantization by, DType to);

// The input, or null where it is absent.
Result<Value*> optional_input(Conversion& c, size_t index);

// x - zero, exactly, as i32; `zero` may be null.
Result<Value*> without_zero(Conversion& c, Value* x, Value* zero);

// [batch, spatial..., channels] as [batch, channels, spatial...], and back.
Result<Value*> channels_first(Conversion& c, Value* x);
Result<Value*> channels_back(Conversion& c, Value* x);

// DynamicQuantizeLinear: x (f32) as u8, over a range that holds 0.
struct DynamicallyQuantized {
  Value *value, *scale, *zero;
};
Result<DynamicallyQuantized> quantized_dynamically(Conversion& c, Value* x);

}  // namespace rtx::onnx
