// onnxruntime's operators on quantised tensors (com.microsoft.QLinear*): dequantize, compute in f32, quantize.

#include <algorithm>

#include "frontend/converters/pooling_parts.h"
#include "frontend/converters/quantization_parts.h"
#include "frontend/converters/tables.h"

namespace rtx::onnx {
namespace {

// Inputs `first` (the tensor), `first` + 1 (its scale) and `first` + 2 (its zero point, may be absent) as f32.
Result<Value*> real_input(Conversion& c, size_t first) {
  RTX_ASSIGN(Value * x, c.input(first));
  RTX_ASSIGN(Value * scale, c.input(first + 1));
  RTX_ASSIGN(Value * zero, optional_input(c, first + 2));
  return dequantized(c, x, {.scale = scale, .zero = zero}, DType::f32);
}

// y quantised by inputs `scale_index` and the next, as output 0. The dtype is that of the first operand.
Result<void> set_quantized(Conversion& c, Value* y, size_t scale_index, DType to) {
  RTX_ASSIGN(Value * scale, c.input(scale_index));
  RTX_ASSIGN(Value * zero, optional_input(c, scale_index + 1));
  RTX_ASSIGN(y, quantized(c, y, {.scale = scale, .zero = zero}, to));
  c.set(0, y);
  return Ok{};
}

// A, its scale and zero point, B's, Y's.
template <Op op>
Result<void> qlinear_binary(Conversion& c) {
  RTX_ASSIGN(Value * a, real_input(c, 0));
  RTX_ASSIGN(Value * b, real_input(c, 3));
  RTX_ASSIGN(Value * y, c.emit(op, {a, b}));
  return set_quantized(c, y, 6, c.type(0).dtype);
}

// X, its scale and zero point, Y's.
Result<void> qlinear_sigmoid(Conversion& c) {
  RTX_ASSIGN(Value * x, real_input(c, 0));
  RTX_ASSIGN(Value * y, c.emit(Op::sigmoid, {x}));
  return set_quantized(c, y, 3, c.type(0).dtype);
}

Result<void> qlinear_leaky_relu(Conversion& c) {
  RTX_ASSIGN(Value * x, real_input(c, 0));
  RTX_ASSIGN(Value * nothing, c.scalar(DType::f32, 0));
  RTX_ASSIGN(Value * alpha, c.scalar(DType::f32, c.real("alpha", 0.01f)));
  RTX_ASSIGN(Value * below, c.emit(Op::mul, {x, alpha}));
  RTX_ASSIGN(Value * negative, c.emit(Op::less, {x, nothing}));
  RTX_ASSIGN(Value * y, c.emit(Op::select, {negative, below, x}));
  return set_quantized(c, y, 3, c.type(0).dtype);
}

// Along one axis from opset 13 on, before that over all axes from it on.
Result<void> qlinear_softmax(Conversion& c) {
  const bool flattens = c.integer("opset", 0) < 13;
  RTX_ASSIGN(int axis, c.axis(c.integer("axis", flattens ? 1 : -1), c.rank(0)));
  RTX_ASSIGN(Value * x, real_input(c, 0));
  const Shape shape = x->type.shape;
  if (flattens) {
    Dim rows = 1, columns = 1;
    for (int i = 0; i < c.rank(0); ++i) (i < axis ? rows : columns) = (i < axis ? rows : columns) * shape[i];
    RTX_ASSIGN(x, c.reshape(x, {rows, columns}));
    axis = 1;
  }
  RTX_ASSIGN(Value * y, c.emit(Op::softmax, {x}, {{"axis", static_cast<int64_t>(axis)}}));
  RTX_ASSIGN(y, c.reshape(y, shape));
  return set_quantized(c, y, 3, c.type(0).dtype);
}

Result<void> qlinear_reduce_mean(Conversion& c) {
  RTX_ASSIGN(Value * x, real_input(c, 0));
  const int rank = x->type.rank();
  std::vector<int64_t> axes = c.integer_list("axes").value_or(std::vector<int64_t>{});
  if (axes.empty())
    for (int i = 0; i < rank; ++i) axes.push_back(i);
  RTX_ASSIGN(axes, c.axes(std::move(axes), rank));
  RTX_ASSIGN(Value * y, c.reduce(Op::reduce_mean, x, std::move(axes), c.integer("keepdims", 1) != 0));
  return set_quantized(c, y, 3, c.type(0).dtype);
}

Result<void> qlinear_global_average_pool(Conversion& c) {
  RTX_ASSIGN(Value * x, real_input(c, 0));
  const int rank = x->type.rank();
  if (rank < 3) return c.invalid("E327", "the input needs rank 3 or more").with_got(x->type.str());
  const int first = c.integer("channels_last", 0) != 0 ? 1 : 2;
  std::vector<int64_t> axes;
  for (int i = 0; i < rank - 2; ++i) axes.push_back(first + i);
  RTX_ASSIGN(Value * y, c.reduce(Op::reduce_mean, x, std::move(axes), true));
  return set_quantized(c, y, 3, c.type(0).dtype);
}

Result<void> qlinear_average_pool(Conversion& c) {
  const bool channels_last = c.integer("channels_last", 0) != 0;
  if (c.rank(0) < 3) return c.invalid("E327", "the input needs rank 3 or more").with_got(c.type(0).str());
  RTX_ASSIGN(Value * x, real_input(c, 0));
  if (channels_last) {
    RTX_ASSIGN(x, channels_first(c, x));
  }
  RTX_ASSIGN(Value * y, average_pooled(c, x));
  if (channels_last) {
    RTX_ASSIGN(y, channels_back(c, y));
  }
  return set_quantized(c, y, 3, c.type(0).dtype);
}

// y_scale, y_zero, then each tensor with its scale and zero point.
Result<void> qlinear_concat(Conversion& c) {
  if (c.input_count() < 5 || (c.input_count() - 2) % 3 != 0)
    return c.invalid("E221", "tensors, scales and zero points come in threes");
  RTX_ASSIGN(Value * y_scale, c.input(0));
  RTX_ASSIGN(Value * y_zero, c.input(1));
  std::vector<Value*> parts;
  for (size_t i = 2; i < c.input_count(); i += 3) {
    RTX_ASSIGN(Value * part, real_input(c, i));
    RTX_ASSIGN(part, quantized(c, part, {.scale = y_scale, .zero = y_zero}, y_zero->type.dtype));
    parts.push_back(part);
  }
  RTX_ASSIGN(int axis, c.axis(c.integer("axis", 0), parts[0]->type.rank()));
  RTX_ASSIGN(Value * y, c.emit(Op::concat, std::move(parts), {{"axis", static_cast<int64_t>(axis)}}));
  c.set(0, y);
  return Ok{};
}

// condition, X, x_scale, x_zero, Y, y_scale, y_zero, z_scale, z_zero
Result<void> qlinear_where(Conversion& c) {
  RTX_ASSIGN(Value * condition, c.input(0));
  RTX_ASSIGN(Value * x, real_input(c, 1));
  RTX_ASSIGN(Value * y, real_input(c, 4));
  RTX_ASSIGN(Value * z, c.emit(Op::select, {condition, x, y}));
  return set_quantized(c, z, 7, c.type(1).dtype);
}

// com.microsoft.ReduceSumInteger: the sum of the integers themselves, in i32.
Result<void> reduce_sum_integer(Conversion& c) {
  RTX_ASSIGN(Value * x, c.input(0));
  std::vector<int64_t> axes = c.integer_list("axes").value_or(std::vector<int64_t>{});
  if (axes.empty())
    for (int i = 0; i < x->type.rank(); ++i) axes.push_back(i);
  RTX_ASSIGN(axes, c.axes(std::move(axes), x->type.rank()));
  RTX_ASSIGN(x, c.cast(x, DType::i32));
  RTX_ASSIGN(Value * y, c.reduce(Op::reduce_sum, x, std::move(axes), c.integer("keepdims", 1) != 0));
  c.set(0, y);
  return Ok{};
}

constexpr std::string_view microsoft = "com.microsoft";
// Zero points that may be left out.
constexpr uint32_t x_zero = 1u << 2, b_zero = 1u << 5;

}  // namespace

constinit const Converter qlinear_converters[] = {
    {"QLinearAdd", 1, qlinear_binary<Op::add>, never, "", 7, 8, microsoft, 1, x_zero | b_zero},
    {"QLinearMul", 1, qlinear_binary<Op::mul>, never, "", 7, 8, microsoft, 1, x_zero | b_zero},
    {"QLinearSigmoid", 1, qlinear_sigmoid, never, "", 4, 5, microsoft, 1, x_zero},
    {"QLinearLeakyRelu", 1, qlinear_leaky_relu, never, "alpha", 4, 5, microsoft, 1, x_zero},
    {"QLinearSoftmax", 1, qlinear_softmax, never, "axis opset", 5, 5, microsoft, 1, x_zero},
    {"QLinearReduceMean", 1, qlinear_reduce_mean, never, "axes keepdims", 4, 5, microsoft, 1, x_zero},
    {"QLinearGlobalAveragePool", 1, qlinear_global_average_pool, never, "channels_last", 5, 5, microsoft},
    {"QLinearAveragePool", 1, qlinear_average_pool, never,
     "auto_pad ceil_mode channels_last count_include_pad kernel_shape pads strides", 4, 5, microsoft, 1, x_zero},
    {"QLinearConcat", 1, qlinear_concat, never, "axis", 5, any_number, microsoft},
    {"QLinearWhere", 1, qlinear_where, never, "", 9, 9, microsoft},
    {"ReduceSumInteger", 1, reduce_sum_integer, never, "axes keepdims", 1, 1, microsoft},
};
std::span<const Converter> qlinear_table() { return qlinear_converters; }

}  // namespace rtx::onnx
