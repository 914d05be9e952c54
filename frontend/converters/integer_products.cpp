// Matrix products and convolutions of quantised operands: (A - a_zero)(B - b_zero) in i32, and what follows.

#include "frontend/converters/attention_parts.h"
#include "frontend/converters/conv_parts.h"
#include "frontend/converters/matmul_parts.h"
#include "frontend/converters/quantization_parts.h"
#include "frontend/converters/tables.h"

namespace rtx::onnx {
namespace {

bool is_float8(DType dtype) { return dtype == DType::f8e4m3 || dtype == DType::f8e5m2; }

// [M] stands for rows of A; [N] for columns of B broadcasts as it is (H48).
Result<Value*> of_rows(Conversion& c, Value* parameter, int rank) {
  if (!parameter || parameter->type.rank() != 1) return parameter;
  if (parameter->type.shape[0].is(1)) return c.reshape(parameter, {});
  return rank >= 2 ? c.reshape(parameter, {parameter->type.shape[0], 1}) : Result<Value*>(parameter);
}

// numpy.matmul of a - a_zero and b - b_zero, both in i32.
Result<Value*> integer_product(Conversion& c, Value* a, Value* b, Value* a_zero, Value* b_zero) {
  RTX_ASSIGN(a_zero, of_rows(c, a_zero, a->type.rank()));
  RTX_ASSIGN(a, without_zero(c, a, a_zero));
  RTX_ASSIGN(b, without_zero(c, b, b_zero));
  return matrix_product(c, a, b);
}

Result<void> matmul_integer(Conversion& c) {
  RTX_ASSIGN(Value * a, c.input(0));
  RTX_ASSIGN(Value * b, c.input(1));
  RTX_ASSIGN(Value * a_zero, optional_input(c, 2));
  RTX_ASSIGN(Value * b_zero, optional_input(c, 3));
  RTX_ASSIGN(Value * y, integer_product(c, a, b, a_zero, b_zero));
  c.set(0, y);
  return Ok{};
}

// com.microsoft.MulInteger: A, a_zero, B, b_zero, elementwise.
Result<void> mul_integer(Conversion& c) {
  Value* operands[2];
  for (size_t i = 0; i < 2; ++i) {
    RTX_ASSIGN(Value * x, c.input(2 * i));
    RTX_ASSIGN(Value * zero, optional_input(c, 2 * i + 1));
    RTX_ASSIGN(operands[i], without_zero(c, x, zero));
  }
  RTX_ASSIGN(Value * y, c.emit(Op::mul, {operands[0], operands[1]}));
  c.set(0, y);
  return Ok{};
}

// product * a_scale * b_scale (+ bias), in the type of the scales.
Result<Value*> to_float(Conversion& c, Value* product, Value* a_scale, Value* b_scale, size_t bias_index) {
  RTX_ASSIGN(a_scale, of_rows(c, a_scale, product->type.rank()));
  RTX_ASSIGN(Value * scale, c.emit(Op::mul, {a_scale, b_scale}));
  RTX_ASSIGN(Value * y, c.cast(product, DType::f32));
  RTX_ASSIGN(Value * wide, c.cast(scale, DType::f32));
  RTX_ASSIGN(y, c.emit(Op::mul, {y, wide}));
  RTX_ASSIGN(y, c.cast(y, scale->type.dtype));
  if (c.has(bias_index)) {
    RTX_ASSIGN(Value * bias, c.input(bias_index));
    RTX_ASSIGN(y, c.emit(Op::add, {y, bias}));
  }
  return y;
}

// An i32 sum in units of a_scale * b_scale, in units of y_scale: rounded after one factor, as ONNX's reference does.
// Each scale may be a value that broadcasts to the sum.
Result<Value*> requantized(Conversion& c, Value* sum, Value* a_scale, Value* b_scale, Value* y_scale, Value* y_zero,
                           DType to) {
  for (Value** scale : {&a_scale, &b_scale, &y_scale}) {
    RTX_ASSIGN(*scale, c.cast(*scale, DType::f32));
  }
  RTX_ASSIGN(Value * factor, c.emit(Op::mul, {a_scale, b_scale}));
  RTX_ASSIGN(factor, c.emit(Op::div, {factor, y_scale}));
  RTX_ASSIGN(Value * y, c.cast(sum, DType::f32));
  RTX_ASSIGN(y, c.emit(Op::mul, {y, factor}));
  RTX_ASSIGN(Value * one, c.scalar(DType::f32, 1));
  return quantized(c, y, {.scale = one, .zero = y_zero}, to);
}

// a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero
Result<void> qlinear_matmul(Conversion& c) {
  Value* in[8];
  for (size_t i = 0; i < 8; ++i) {
    RTX_ASSIGN(in[i], c.input(i));
  }
  auto [a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero] = in;
  if (is_float8(a->type.dtype) || is_float8(b->type.dtype)) return c.unsupported("float8");
  RTX_ASSIGN(Value * product, integer_product(c, a, b, a_zero, b_zero));
  RTX_ASSIGN(a_scale, of_rows(c, a_scale, a->type.rank()));
  RTX_ASSIGN(Value * y, requantized(c, product, a_scale, b_scale, y_scale, y_zero, y_zero->type.dtype));
  c.set(0, y);
  return Ok{};
}

// com.microsoft: A, B, a_scale, b_scale, a_zero, b_zero, bias
Result<void> matmul_integer_to_float(Conversion& c) {
  RTX_ASSIGN(Value * a, c.input(0));
  RTX_ASSIGN(Value * b, c.input(1));
  RTX_ASSIGN(Value * a_scale, c.input(2));
  RTX_ASSIGN(Value * b_scale, c.input(3));
  RTX_ASSIGN(Value * a_zero, optional_input(c, 4));
  RTX_ASSIGN(Value * b_zero, optional_input(c, 5));
  RTX_ASSIGN(Value * product, integer_product(c, a, b, a_zero, b_zero));
  RTX_ASSIGN(Value * y, to_float(c, product, a_scale, b_scale, 6));
  c.set(0, y);
  return Ok{};
}

// com.microsoft: A (f32), B, b_scale, b_zero, bias
Result<void> dynamic_quantize_matmul(Conversion& c) {
  RTX_ASSIGN(Value * x, c.input(0));
  RTX_ASSIGN(Value * b, c.input(1));
  RTX_ASSIGN(Value * b_scale, c.input(2));
  RTX_ASSIGN(Value * b_zero, optional_input(c, 3));
  RTX_ASSIGN(DynamicallyQuantized a, quantized_dynamically(c, x));
  RTX_ASSIGN(Value * product, integer_product(c, a.value, b, a.zero, b_zero));
  RTX_ASSIGN(Value * y, to_float(c, product, a.scale, b_scale, 4));
  c.set(0, y);
  return Ok{};
}

// com.microsoft: A, a_scale, a_zero, B, b_scale, b_zero, C (i32), y_scale, y_zero. Without y_scale the result is f32.
Result<void> qgemm(Conversion& c) {
  Value* in[6];
  for (size_t i = 0; i < 6; ++i) {
    RTX_ASSIGN(in[i], c.input(i));
  }
  auto [a, a_scale, a_zero, b, b_scale, b_zero] = in;
  RTX_TRY(c.need_rank(size_t{0}, 2));
  RTX_TRY(c.need_rank(size_t{3}, 2));
  const bool transpose_a = c.integer("transA", 0) != 0, transpose_b = c.integer("transB", 0) != 0;
  // A zero point of B is one for each column, which are rows where B is stored transposed.
  if (transpose_b) {
    RTX_ASSIGN(b_zero, of_rows(c, b_zero, 2));
  }
  RTX_ASSIGN(a, without_zero(c, a, a_zero));
  RTX_ASSIGN(b, without_zero(c, b, b_zero));
  RTX_ASSIGN(Value * sum, c.emit(Op::matmul, {a, b}, {{"transpose_lhs", transpose_a}, {"transpose_rhs", transpose_b}}));
  if (c.has(6)) {
    RTX_ASSIGN(Value * bias, c.input(6));
    RTX_ASSIGN(sum, c.emit(Op::add, {sum, bias}));
  }
  RTX_ASSIGN(Value * alpha, c.scalar(DType::f32, c.real("alpha", 1)));
  RTX_ASSIGN(a_scale, c.emit(Op::mul, {a_scale, alpha}));
  RTX_ASSIGN(Value * y_scale, optional_input(c, 7));
  RTX_ASSIGN(Value * y_zero, optional_input(c, 8));
  Value* y = nullptr;
  if (y_scale) {
    RTX_ASSIGN(y,
               requantized(c, sum, a_scale, b_scale, y_scale, y_zero, y_zero ? y_zero->type.dtype : c.type(0).dtype));
  } else {
    RTX_ASSIGN(y, to_float(c, sum, a_scale, b_scale, c.input_count()));
  }
  c.set(0, y);
  return Ok{};
}

// com.microsoft.QAttention: input, weight, bias, input_scale, weight_scale, mask_index, input_zero, weight_zero, past.
Result<void> qattention(Conversion& c) {
  if (c.integer("num_heads", 0) < 1) return c.invalid("E324", "attribute 'num_heads' is missing");
  if (c.integer("do_rotary", 0) != 0) return c.unsupported("do_rotary");
  if (c.integer("past_present_share_buffer", 0) != 0) return c.unsupported("past_present_share_buffer");
  RTX_TRY(c.need_rank(size_t{0}, 3));
  RTX_TRY(c.need_rank(size_t{1}, 2));
  RTX_ASSIGN(Value * x, c.input(0));
  RTX_ASSIGN(Value * weight, c.input(1));
  RTX_ASSIGN(Value * x_scale, c.input(3));
  RTX_ASSIGN(Value * weight_scale, c.input(4));
  RTX_ASSIGN(Value * x_zero, optional_input(c, 6));
  RTX_ASSIGN(Value * weight_zero, optional_input(c, 7));
  RTX_ASSIGN(Value * product, integer_product(c, x, weight, x_zero, weight_zero));
  RTX_ASSIGN(Value * qkv, to_float(c, product, x_scale, weight_scale, 2));
  return attend_projection(c, qkv, {}, 5, 8, c.input_count());
}

// ---- Convolutions

// One parameter for each output, as [outputs, 1, ...] of this rank; a scalar stays, and rank 0 allows nothing else.
Result<Value*> of_outputs(Conversion& c, Value* parameter, int rank) {
  if (!parameter || parameter->type.rank() == 0) return parameter;
  if (parameter->type.element_count().is(1)) return c.reshape(parameter, {});
  if (rank == 0) return c.invalid("E327", "the parameter must have one element").with_got(parameter->type.str());
  RTX_TRY(c.need_rank(parameter, 1));
  Shape shape(rank, 1);
  shape[0] = parameter->type.shape[0];
  return c.reshape(parameter, std::move(shape));
}

// The sums of products as i32. They are exact in the float they are computed in; padding adds zeros, which is what a
// padded zero point stands for.
Result<Value*> integer_convolution(Conversion& c, Value* x, Value* w, Value* x_zero, Value* w_zero) {
  if (w->type.rank() < 3) return c.invalid("E327", "the weight needs rank 3 or more").with_got(w->type.str());
  RTX_ASSIGN(w_zero, of_outputs(c, w_zero, w->type.rank()));
  if (x_zero) {
    RTX_ASSIGN(x_zero, of_outputs(c, x_zero, 0));
  }
  RTX_ASSIGN(x, without_zero(c, x, x_zero));
  RTX_ASSIGN(w, without_zero(c, w, w_zero));
  const Dim terms = Type{DType::i8, Shape(w->type.shape.begin() + 1, w->type.shape.end())}.element_count();
  constexpr int64_t exact_in_f32 = (int64_t{1} << 24) / (255 * 255);
  const DType wide = terms.is_constant() && terms.constant() <= exact_in_f32 ? DType::f32 : DType::f64;
  RTX_ASSIGN(x, c.cast(x, wide));
  RTX_ASSIGN(w, c.cast(w, wide));
  RTX_ASSIGN(Value * y, convolved(c, x, w, nullptr));
  return c.cast(y, DType::i32);
}

// x, w, x_zero, w_zero
Result<void> conv_integer(Conversion& c) {
  RTX_ASSIGN(Value * x, c.input(0));
  RTX_ASSIGN(Value * w, c.input(1));
  RTX_ASSIGN(Value * x_zero, optional_input(c, 2));
  RTX_ASSIGN(Value * w_zero, optional_input(c, 3));
  RTX_ASSIGN(Value * y, integer_convolution(c, x, w, x_zero, w_zero));
  c.set(0, y);
  return Ok{};
}

// x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, bias (i32, in units of x_scale * w_scale)
Result<void> qlinear_conv(Conversion& c) {
  Value* in[8];
  for (size_t i = 0; i < 8; ++i) {
    RTX_ASSIGN(in[i], c.input(i));
  }
  auto [x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero] = in;
  const bool channels_last = c.integer("channels_last", 0) != 0;
  const int rank = x->type.rank();
  if (rank < 3) return c.invalid("E327", "the input needs rank 3 or more").with_got(x->type.str());
  if (channels_last) {
    RTX_ASSIGN(x, channels_first(c, x));
  }
  RTX_ASSIGN(Value * sum, integer_convolution(c, x, w, x_zero, w_zero));
  // [outputs, 1, ...]: aligned from the right with [batch, outputs, spatial...].
  RTX_ASSIGN(w_scale, of_outputs(c, w_scale, rank - 1));
  if (c.has(8)) {
    RTX_ASSIGN(Value * bias, c.input(8));
    RTX_ASSIGN(bias, of_outputs(c, bias, rank - 1));
    RTX_ASSIGN(sum, c.emit(Op::add, {sum, bias}));
  }
  for (Value** scalar : {&x_scale, &y_scale, &y_zero}) {
    RTX_ASSIGN(*scalar, of_outputs(c, *scalar, 0));
  }
  RTX_ASSIGN(Value * y, requantized(c, sum, x_scale, w_scale, y_scale, y_zero, y_zero->type.dtype));
  if (channels_last) {
    RTX_ASSIGN(y, channels_back(c, y));
  }
  c.set(0, y);
  return Ok{};
}

constexpr std::string_view microsoft = "com.microsoft";
constexpr std::string_view conv_attributes = "auto_pad dilations group kernel_shape pads strides";

}  // namespace

constinit const Converter integer_products_converters[] = {
    {"MatMulInteger", 10, matmul_integer, never, "", 2, 4},
    {"QLinearMatMul", 10, qlinear_matmul, never, "", 8, 8},
    {"ConvInteger", 10, conv_integer, never, conv_attributes, 2, 4},
    {"QLinearConv", 10, qlinear_conv, never, conv_attributes, 8, 9},
    {"MatMulIntegerToFloat", 1, matmul_integer_to_float, never, "", 4, 7, microsoft},
    {"DynamicQuantizeMatMul", 1, dynamic_quantize_matmul, never, "", 3, 5, microsoft},
    {"MatMulInteger16", 1, matmul_integer, never, "", 2, 2, microsoft},
    {"MulInteger", 1, mul_integer, never, "", 3, 4, microsoft, 1, 1u << 1},
    {"QGemm", 1, qgemm, never, "alpha transA transB", 6, 9, microsoft},
    {"QLinearConv", 1, qlinear_conv, never, "auto_pad channels_last dilations group kernel_shape pads strides", 8, 9,
     microsoft},
    {"QAttention", 1, qattention, never,
     "num_heads unidirectional mask_filter_value scale do_rotary past_present_share_buffer", 5, 9, microsoft, 2},
};
std::span<const Converter> integer_products_table() { return integer_products_converters; }

}  // namespace rtx::onnx
