#include "frontend/converters/quantization_parts.h"

#include "base/text.h"

namespace rtx::onnx {
namespace {

bool is_float8(DType dtype) { return dtype == DType::f8e4m3 || dtype == DType::f8e5m2; }

// A parameter for the whole tensor becomes a scalar.
Result<Value*> without_ones(Conversion& c, Value* parameter, int64_t block_size) {
  const Shape& shape = parameter->type.shape;
  if (shape.size() == 1 && shape[0].is(1) && block_size == 0) return c.reshape(parameter, {});
  return parameter;
}

// Scale and zero point in the shapes that quantize and dequantize take, the axis from the start.
Result<void> lay_over(Conversion& c, const Value* x, Quantization& by) {
  const int rank = x->type.rank();
  if (by.block_size < 0) return c.invalid("E321", concat("block_size ", by.block_size));
  RTX_ASSIGN(by.scale, without_ones(c, by.scale, by.block_size));
  if (by.zero) {
    RTX_ASSIGN(by.zero, without_ones(c, by.zero, by.block_size));
  }
  const Type& scale = by.scale->type;
  if (scale.rank() == 0) {
    by.axis = by.block_size = 0;
    return Ok{};
  }
  RTX_ASSIGN(by.axis, c.axis(by.axis, rank));
  if (by.block_size > 0 && scale.rank() != rank) {
    return c.invalid("E327", "a blocked scale has the rank of its tensor").with_got(scale.str());
  }
  if (by.block_size == 0 && scale.rank() != 1 && scale.rank() != rank) {
    return c.invalid("E327", "a scale for each axis entry must have rank 1").with_got(scale.str());
  }
  return Ok{};
}

}  // namespace

Result<Value*> quantized(Conversion& c, Value* x, Quantization by, DType to) {
  RTX_ASSIGN(x, c.cast(x, by.scale->type.dtype));
  if (is_float8(to)) by.zero = nullptr;
  RTX_TRY(lay_over(c, x, by));
  std::vector<Value*> operands = {x, by.scale};
  if (by.zero) operands.push_back(by.zero);
  return c.emit(Op::quantize, std::move(operands),
                {{"to", to}, {"axis", by.axis}, {"block", by.block_size}, {"saturate", by.saturate}});
}

Result<Value*> dequantized(Conversion& c, Value* x, Quantization by, DType to) {
  if (is_float8(x->type.dtype)) by.zero = nullptr;
  RTX_TRY(lay_over(c, x, by));
  std::vector<Value*> operands = {x, by.scale};
  if (by.zero) operands.push_back(by.zero);
  return c.emit(Op::dequantize, std::move(operands), {{"to", to}, {"axis", by.axis}, {"block", by.block_size}});
}

Result<Value*> optional_input(Conversion& c, size_t index) {
  if (!c.has(index)) return static_cast<Value*>(nullptr);
  return c.input(index);
}

Result<Value*> without_zero(Conversion& c, Value* x, Value* zero) {
  RTX_ASSIGN(x, c.cast(x, DType::i32));
  if (!zero) return x;
  RTX_ASSIGN(zero, c.cast(zero, DType::i32));
  return c.emit(Op::sub, {x, zero});
}

Result<Value*> channels_first(Conversion& c, Value* x) {
  std::vector<int64_t> perm = {0, x->type.rank() - 1};
  for (int i = 1; i + 1 < x->type.rank(); ++i) perm.push_back(i);
  return c.transpose(x, std::move(perm));
}

Result<Value*> channels_back(Conversion& c, Value* x) {
  std::vector<int64_t> perm = {0};
  for (int i = 2; i < x->type.rank(); ++i) perm.push_back(i);
  perm.push_back(1);
  return c.transpose(x, std::move(perm));
}

// scale = (max - min) / 255, zero = -min / scale. A range of nothing has the scale 1, as in onnxruntime: the formula's
// 0 would divide 0 by 0.
Result<DynamicallyQuantized> quantized_dynamically(Conversion& c, Value* x) {
  RTX_ASSIGN(Value * nothing, c.scalar(DType::f32, 0));
  std::vector<int64_t> axes;
  for (int i = 0; i < x->type.rank(); ++i) axes.push_back(i);
  RTX_ASSIGN(Value * low, axes.empty() ? Result<Value*>(x) : c.reduce(Op::reduce_min, x, axes, false));
  RTX_ASSIGN(Value * high, axes.empty() ? Result<Value*>(x) : c.reduce(Op::reduce_max, x, axes, false));
  RTX_ASSIGN(low, c.emit(Op::minimum, {low, nothing}));
  RTX_ASSIGN(high, c.emit(Op::maximum, {high, nothing}));
  RTX_ASSIGN(Value * range, c.emit(Op::sub, {high, low}));
  RTX_ASSIGN(Value * levels, c.scalar(DType::f32, 255));
  RTX_ASSIGN(Value * scale, c.emit(Op::div, {range, levels}));
  RTX_ASSIGN(Value * flat, c.emit(Op::equal, {range, nothing}));
  RTX_ASSIGN(Value * one, c.scalar(DType::f32, 1));
  RTX_ASSIGN(scale, c.emit(Op::select, {flat, one, scale}));
  RTX_ASSIGN(Value * below, c.emit(Op::sub, {nothing, low}));
  RTX_ASSIGN(Value * zero, quantized(c, below, {.scale = scale}, DType::u8));
  RTX_ASSIGN(Value * value, quantized(c, x, {.scale = scale, .zero = zero}, DType::u8));
  return DynamicallyQuantized{value, scale, zero};
}

}  // namespace rtx::onnx
