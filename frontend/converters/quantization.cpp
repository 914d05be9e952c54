// Quantize, dequantize and integer matrix products, written with the IR's casts and arithmetic.

#include <algorithm>
#include <limits>

#include "frontend/converters/quantization_parts.h"
#include "frontend/converters/tables.h"
#include "frontend/onnx_types.h"

namespace rtx::onnx {

Result<Value*> spread(Conversion& c, Value* parameter, const Shape& shape, int64_t axis_attribute, int64_t block) {
  int rank = static_cast<int>(shape.size());
  Type type = parameter->type;
  if (type.rank() == 0 || (type.rank() == 1 && type.shape[0].is(1) && block == 0)) return c.reshape(parameter, {});
  RTX_ASSIGN(int axis, c.axis(axis_attribute, rank));
  if (block == 0) {
    if (type.rank() != 1) return c.invalid("E327", "a scale for each axis entry must have rank 1").with_got(type.str());
    Shape aligned(rank, 1);
    aligned[axis] = type.shape[0];
    return c.reshape(parameter, std::move(aligned));
  }
  if (type.rank() != rank) return c.invalid("E327", "a blocked scale has the rank of its tensor").with_got(type.str());
  if (block < 0) return c.invalid("E321", concat("block_size ", block));
  // [.., blocks, ..] -> [.., blocks, 1, ..] -> [.., blocks, block, ..] -> [.., blocks * block, ..] -> the first ones
  Shape split = type.shape, repeated, merged = type.shape;
  split.insert(split.begin() + axis + 1, 1);
  repeated = split;
  repeated[axis + 1] = block;
  merged[axis] = type.shape[axis] * Dim(block);
  RTX_ASSIGN(Value * value, c.reshape(parameter, std::move(split)));
  RTX_ASSIGN(value, c.broadcast(value, std::move(repeated)));
  RTX_ASSIGN(value, c.reshape(value, std::move(merged)));
  return c.slice(value, axis, 0, shape[axis]);
}

Result<Value*> without_zero(Conversion& c, Value* x, Value* zero) {
  RTX_ASSIGN(x, c.cast(x, DType::i32));
  if (!zero) return x;
  RTX_ASSIGN(zero, c.cast(zero, DType::i32));
  return c.emit(Op::sub, {x, zero});
}

namespace {

bool is_float8(DType dtype) { return dtype == DType::f8e4m3 || dtype == DType::f8e5m2; }

struct Limits {
  double low, high;
};
Limits limits_of(DType dtype) {
  int bits = bit_width(dtype);
  double span = static_cast<double>(int64_t{1} << bits);
  return is_signed(dtype) ? Limits{-span / 2, span / 2 - 1} : Limits{0, span - 1};
}

// saturate(round(x) + zero) as `dtype`; x is a float value in units of the scale.
Result<Value*> rounded(Conversion& c, Value* x, Value* zero, DType dtype) {
  RTX_ASSIGN(x, c.emit(Op::round, {x}));
  if (zero) {
    RTX_ASSIGN(zero, c.cast(zero, x->type.dtype));
    RTX_ASSIGN(x, c.emit(Op::add, {x, zero}));
  }
  auto [low, high] = limits_of(dtype);
  RTX_ASSIGN(Value * smallest, c.scalar(x->type.dtype, low));
  RTX_ASSIGN(Value * largest, c.scalar(x->type.dtype, high));
  RTX_ASSIGN(x, c.emit(Op::maximum, {x, smallest}));
  RTX_ASSIGN(x, c.emit(Op::minimum, {x, largest}));
  return c.cast(x, dtype);
}

Result<void> quantize_linear(Conversion& c) {
  RTX_ASSIGN(Value * x, c.input(0));
  RTX_ASSIGN(Value * scale, c.input(1));
  DType dtype = DType::u8;
  if (int64_t wanted = c.integer("output_dtype", 0); wanted != 0) {
    auto known = dtype_of(wanted);
    if (!known) return c.unsupported("this output_dtype");
    dtype = *known;
  }
  if (c.has(2)) dtype = c.type(2).dtype;
  int64_t axis = c.integer("axis", 1), block = c.integer("block_size", 0);
  Shape shape = x->type.shape;
  // ONNX divides in the type of the scale unless `precision` says otherwise; onnxruntime's own operator in f32.
  DType wide = scale->type.dtype == DType::f64 ? DType::f64 : DType::f32;
  if (int64_t precision = c.integer("precision", 0); precision != 0) {
    auto known = dtype_of(precision);
    if (!known || !is_float(*known)) return c.invalid("E321", concat("precision ", precision));
    wide = *known;
  } else if (c.node().domain.empty() && (scale->type.dtype == DType::f16 || scale->type.dtype == DType::bf16)) {
    wide = scale->type.dtype;
  }
  RTX_ASSIGN(x, c.cast(x, wide));
  RTX_ASSIGN(scale, c.cast(scale, wide));
  RTX_ASSIGN(scale, spread(c, scale, shape, axis, block));
  RTX_ASSIGN(Value * y, c.emit(Op::div, {x, scale}));
  if (is_float8(dtype)) {
    RTX_ASSIGN(y, c.cast(y, dtype, c.integer("saturate", 1) != 0));
  } else {
    Value* zero = nullptr;
    if (c.has(2)) {
      RTX_ASSIGN(zero, c.input(2));
      RTX_ASSIGN(zero, spread(c, zero, shape, axis, block));
    }
    RTX_ASSIGN(y, rounded(c, y, zero, dtype));
  }
  c.set(0, y);
  return Ok{};
}

Result<void> dequantize_linear(Conversion& c) {
  RTX_ASSIGN(Value * x, c.input(0));
  RTX_ASSIGN(Value * scale, c.input(1));
  int64_t axis = c.integer("axis", 1), block = c.integer("block_size", 0);
  DType dtype = scale->type.dtype;
  if (int64_t wanted = c.integer("output_dtype", 0); wanted != 0) {
    auto known = dtype_of(wanted);
    if (!known || !is_float(*known)) return c.invalid("E321", concat("output_dtype ", wanted));
    dtype = *known;
  }
  Shape shape = x->type.shape;
  Value* y = x;
  if (!is_float8(x->type.dtype)) {
    Value* zero = nullptr;
    if (c.has(2)) {
      RTX_ASSIGN(zero, c.input(2));
      RTX_ASSIGN(zero, spread(c, zero, shape, axis, block));
    }
    RTX_ASSIGN(y, without_zero(c, x, zero));
  }
  RTX_ASSIGN(y, c.cast(y, dtype));
  RTX_ASSIGN(scale, c.cast(scale, dtype));
  RTX_ASSIGN(scale, spread(c, scale, shape, axis, block));
  RTX_ASSIGN(y, c.emit(Op::mul, {y, scale}));
  c.set(0, y);
  return Ok{};
}

struct Quantized {
  Value *value, *scale, *zero;
};

// To u8 with a range that holds 0: scale = (max - min) / 255, zero = round(-min / scale).
Result<Quantized> quantize_dynamically(Conversion& c, Value* x) {
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
  // All zero: any divisor gives zeros, but 0 / 0 would not.
  RTX_ASSIGN(Value * flat, c.emit(Op::equal, {scale, nothing}));
  RTX_ASSIGN(Value * one, c.scalar(DType::f32, 1));
  RTX_ASSIGN(Value * divisor, c.emit(Op::select, {flat, one, scale}));
  RTX_ASSIGN(Value * zero, c.emit(Op::div, {low, divisor}));
  RTX_ASSIGN(zero, c.emit(Op::sub, {nothing, zero}));
  RTX_ASSIGN(zero, rounded(c, zero, nullptr, DType::u8));
  RTX_ASSIGN(Value * value, c.emit(Op::div, {x, divisor}));
  RTX_ASSIGN(value, rounded(c, value, zero, DType::u8));
  return Quantized{value, scale, zero};
}

Result<void> dynamic_quantize_linear(Conversion& c) {
  RTX_ASSIGN(Value * x, c.input(0));
  RTX_ASSIGN(Quantized q, quantize_dynamically(c, x));
  c.set(0, q.value);
  if (c.wants(1)) c.set(1, q.scale);
  if (c.wants(2)) c.set(2, q.zero);
  return Ok{};
}

// ---- Integer products: (A - a_zero)(B - b_zero) in i32

Result<Value*> optional_input(Conversion& c, size_t index) {
  if (!c.has(index)) return static_cast<Value*>(nullptr);
  return c.input(index);
}

// [M] stands for rows of A; [N] for columns of B broadcasts as it is.
Result<Value*> row_zero(Conversion& c, Value* zero, int rank) {
  if (!zero || zero->type.rank() != 1) return zero;
  if (zero->type.shape[0].is(1)) return c.reshape(zero, {});
  return rank >= 2 ? c.reshape(zero, {zero->type.shape[0], 1}) : Result<Value*>(zero);
}

Result<Value*> integer_product(Conversion& c, Value* a, Value* b, Value* a_zero, Value* b_zero) {
  if (a->type.rank() < 2 || b->type.rank() < 2) return c.unsupported("an integer product with a vector");
  RTX_ASSIGN(a_zero, row_zero(c, a_zero, a->type.rank()));
  RTX_ASSIGN(a, without_zero(c, a, a_zero));
  RTX_ASSIGN(b, without_zero(c, b, b_zero));
  return c.emit(Op::matmul, {a, b});
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

Result<Value*> product_to_float(Conversion& c, Value* product, Value* a_scale, Value* b_scale, size_t bias_index) {
  RTX_ASSIGN(a_scale, row_zero(c, a_scale, product->type.rank()));
  RTX_ASSIGN(Value * scale, c.emit(Op::mul, {a_scale, b_scale}));
  RTX_ASSIGN(Value * y, c.cast(product, scale->type.dtype));
  RTX_ASSIGN(y, c.emit(Op::mul, {y, scale}));
  if (c.has(bias_index)) {
    RTX_ASSIGN(Value * bias, c.input(bias_index));
    RTX_ASSIGN(y, c.emit(Op::add, {y, bias}));
  }
  return y;
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
  Value* scales[] = {a_scale, b_scale, y_scale};
  for (Value*& scale : scales) {
    RTX_ASSIGN(scale, c.cast(scale, DType::f32));
  }
  RTX_ASSIGN(Value * y, product_to_float(c, product, scales[0], scales[1], 8));
  RTX_ASSIGN(y, c.emit(Op::div, {y, scales[2]}));
  RTX_ASSIGN(y, rounded(c, y, y_zero, y_zero->type.dtype));
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
  RTX_ASSIGN(Value * y, product_to_float(c, product, a_scale, b_scale, 6));
  c.set(0, y);
  return Ok{};
}

// com.microsoft: A (f32), B, b_scale, b_zero, bias
Result<void> dynamic_quantize_matmul(Conversion& c) {
  RTX_ASSIGN(Value * x, c.input(0));
  RTX_ASSIGN(Value * b, c.input(1));
  RTX_ASSIGN(Value * b_scale, c.input(2));
  RTX_ASSIGN(Value * b_zero, optional_input(c, 3));
  RTX_ASSIGN(Quantized a, quantize_dynamically(c, x));
  RTX_ASSIGN(Value * product, integer_product(c, a.value, b, a.zero, b_zero));
  RTX_ASSIGN(Value * y, product_to_float(c, product, a.scale, b_scale, 4));
  c.set(0, y);
  return Ok{};
}

// com.microsoft.QLinearAdd and QLinearMul: a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero, elementwise.
template <Op op>
Result<void> qlinear_binary(Conversion& c) {
  Value* operands[2];
  for (size_t i = 0; i < 2; ++i) {
    RTX_ASSIGN(Value * x, c.input(3 * i));
    RTX_ASSIGN(Value * scale, c.input(3 * i + 1));
    RTX_ASSIGN(Value * zero, optional_input(c, 3 * i + 2));
    RTX_ASSIGN(x, without_zero(c, x, zero));
    RTX_ASSIGN(x, c.cast(x, DType::f32));
    RTX_ASSIGN(operands[i], c.emit(Op::mul, {x, scale}));
  }
  RTX_ASSIGN(Value * y, c.emit(op, {operands[0], operands[1]}));
  RTX_ASSIGN(Value * scale, c.input(6));
  RTX_ASSIGN(Value * zero, optional_input(c, 7));
  RTX_ASSIGN(y, c.emit(Op::div, {y, scale}));
  RTX_ASSIGN(y, rounded(c, y, zero, c.type(0).dtype));
  c.set(0, y);
  return Ok{};
}

constexpr std::string_view microsoft = "com.microsoft";
constexpr std::string_view quantize_21 = "axis saturate block_size output_dtype";
constexpr std::string_view quantize_23 = "axis saturate block_size output_dtype precision";

}  // namespace

constinit const Converter quantization_converters[] = {
    {"QuantizeLinear", 10, quantize_linear, never, "", 2, 3},
    {"QuantizeLinear", 13, quantize_linear, never, "axis", 2, 3},
    {"QuantizeLinear", 19, quantize_linear, never, "axis saturate", 2, 3},
    {"QuantizeLinear", 21, quantize_linear, never, quantize_21, 2, 3},
    {"QuantizeLinear", 23, quantize_linear, never, quantize_23, 2, 3},
    {"DequantizeLinear", 10, dequantize_linear, never, "", 2, 3},
    {"DequantizeLinear", 13, dequantize_linear, never, "axis", 2, 3},
    {"DequantizeLinear", 21, dequantize_linear, never, "axis block_size", 2, 3},
    {"DequantizeLinear", 23, dequantize_linear, never, "axis block_size output_dtype", 2, 3},
    {"DynamicQuantizeLinear", 11, dynamic_quantize_linear, never, "", 1, 1, "", 3},
    {"MatMulInteger", 10, matmul_integer, never, "", 2, 4},
    {"QLinearMatMul", 10, qlinear_matmul, never, "", 8, 8},
    {"QuantizeLinear", 1, quantize_linear, never, "axis", 2, 3, microsoft},
    {"DequantizeLinear", 1, dequantize_linear, never, "axis", 2, 3, microsoft},
    {"QLinearAdd", 1, qlinear_binary<Op::add>, never, "", 7, 8, microsoft, 1, 1u << 2 | 1u << 5},
    {"QLinearMul", 1, qlinear_binary<Op::mul>, never, "", 7, 8, microsoft, 1, 1u << 2 | 1u << 5},
    {"MatMulIntegerToFloat", 1, matmul_integer_to_float, never, "", 4, 7, microsoft},
    {"DynamicQuantizeMatMul", 1, dynamic_quantize_matmul, never, "", 3, 5, microsoft},
};
std::span<const Converter> quantization_table() { return quantization_converters; }

}  // namespace rtx::onnx
