// Integers that stand for reals: value = (x - zero_point) * scale, with one scale for a tensor, for each entry of an
// axis, or for each block of entries of an axis. Semantics: ONNX QuantizeLinear and DequantizeLinear, opset 25.
//
// Every result is defined by the expansion; the evaluator computes the same values with the same roundings.

#include <cmath>

#include "base/text.h"
#include "ir/module.h"
#include "ir/ops/loops.h"
#include "ir/ops/records.h"
#include "ir/ops/rules.h"

namespace rtx {
namespace {

bool is_float8(DType d) { return d == DType::f8e4m3 || d == DType::f8e5m2; }

// What the arithmetic between x and the result is rounded to.
DType wide_of(DType a, DType b) { return a == DType::f64 || b == DType::f64 ? DType::f64 : DType::f32; }

double rounded_to(DType dtype, double value) {
  if (dtype == DType::f64) return value;
  if (dtype == DType::f16) return f16_to_f32(f64_to_f16(value));
  if (dtype == DType::bf16) return bf16_to_f32(f64_to_bf16(value));
  return static_cast<float>(value);
}

// ---- Rules

// quantization_c1, quantization_c2: how the scale lies over x.
Result<void> check_scale(const InferContext& context) {
  const Shape &x = context.operands[0].shape, &scale = context.operands[1].shape;
  const int64_t block = context.attributes.integer("block"), axis = context.attributes.integer("axis");
  if (block < 0) {
    return rule_error(context, "quantization_c2", concat("block ", block), "0 for no blocks, or their length");
  }
  if (scale.empty()) return Ok{};
  RTX_TRY(check_axis(context, "axis", static_cast<int>(x.size())));
  const size_t at = static_cast<size_t>(axis);
  if (block == 0) {
    if (scale.size() == 1 && context.same(scale[0], x[at])) return Ok{};
    bool fits = scale.size() == x.size();
    for (size_t i = 0; fits && i < x.size(); ++i) fits = scale[i].is(1) || context.same(scale[i], x[i]);
    if (fits) return Ok{};
    return rule_error(context, "quantization_c1", "the scale does not fit",
                      concat("[], [", x[at].str(), "] for axis ", axis, ", or axes of x or of length 1"));
  }
  bool fits = scale.size() == x.size();
  for (size_t i = 0; fits && i < x.size(); ++i) {
    fits = context.same(scale[i], i == at ? ceildiv(x[i], Dim(block)) : x[i]);
  }
  if (fits) return Ok{};
  return rule_error(context, "quantization_c1", "the scale does not fit",
                    concat("the shape of x, with one entry for each ", block, " of axis ", axis));
}

// quantization_c3
Result<void> check_zero_point(const InferContext& context, DType quantized) {
  if (context.operands.size() < 3) return Ok{};
  const Type &zero = context.operands[2], &scale = context.operands[1];
  const bool real = context.op == Op::dequantize && float_dtype(zero.dtype);
  bool fits = !is_float8(quantized) && (zero.dtype == quantized || real);
  bool shaped = zero.rank() == 0 || zero.rank() == scale.rank();
  for (size_t i = 0; shaped && i < zero.shape.size(); ++i) shaped = context.same(zero.shape[i], scale.shape[i]);
  if (fits && shaped) return Ok{};
  return rule_error(context, "quantization_c3", "the zero point does not fit",
                    concat("dtype ", to_string(quantized), " (no f8), a scalar or the shape of the scale"));
}

// dtype_c1, axis_c1, quantization_c1 to quantization_c4
Result<std::vector<Type>> infer_quantize(const InferContext& context) {
  if (context.operands[0].dtype != context.operands[1].dtype) {
    return rule_error(context, "dtype_c1", "x and scale have different dtypes", "one dtype, that of the division");
  }
  const DType to = context.attributes.dtype("to");
  if (!quantized_dtype(to) || to == DType::i32) {
    return rule_error(context, "quantization_c4", concat("a result of ", to_string(to)), "i16 i8 u8 i4 u4 f8");
  }
  RTX_TRY(check_scale(context));
  RTX_TRY(check_zero_point(context, to));
  return std::vector<Type>{{to, context.operands[0].shape}};
}

// axis_c1, quantization_c1 to quantization_c4
Result<std::vector<Type>> infer_dequantize(const InferContext& context) {
  const DType to = context.attributes.dtype("to");
  if (!float_dtype(to)) {
    return rule_error(context, "quantization_c4", concat("a result of ", to_string(to)), "f64 f32 f16 bf16");
  }
  RTX_TRY(check_scale(context));
  RTX_TRY(check_zero_point(context, context.operands[0].dtype));
  return std::vector<Type>{{to, context.operands[0].shape}};
}

// ---- Meaning

// Strides of the scale or zero point over x; the step along the axis counts blocks.
struct ParameterIndex {
  Strides strides;
  size_t axis = 0;
  int64_t block = 1;

  ParameterIndex(const EvaluateContext& context, const Tensor& parameter) {
    const std::vector<int64_t>& shape = context.operands[0]->shape;
    strides.assign(shape.size(), 0);
    if (parameter.shape.empty()) return;
    axis = static_cast<size_t>(context.attributes.integer("axis"));
    block = std::max<int64_t>(1, context.attributes.integer("block"));
    if (parameter.shape.size() == 1 && parameter.shape[0] == shape[axis] && block == 1) {
      strides[axis] = 1;
    } else {
      strides = broadcast_strides(parameter.shape, shape);
    }
  }
  int64_t at(const std::vector<int64_t>& index) const {
    int64_t result = 0;
    for (size_t i = 0; i < strides.size(); ++i) result += strides[i] * (i == axis ? index[i] / block : index[i]);
    return result;
  }
};

// Calls body(i, scale index, zero point index) for every element.
template <typename Body>
void for_each_quantized(const EvaluateContext& context, Body body) {
  const ParameterIndex scale(context, *context.operands[1]);
  const ParameterIndex zero(context, context.operands.size() > 2 ? *context.operands[2] : *context.operands[1]);
  int64_t i = 0;
  for_each_index(context.operands[0]->shape,
                 [&](const std::vector<int64_t>& index) { body(i++, scale.at(index), zero.at(index)); });
}

Result<std::vector<Tensor>> evaluate_quantize(const EvaluateContext& context) {
  Tensor out = context.results[0];
  const Tensor &x = *context.operands[0], &scale = *context.operands[1];
  const Tensor* zero = context.operands.size() > 2 ? context.operands[2] : nullptr;
  const bool saturate = context.attributes.boolean("saturate");
  for_each_quantized(context, [&](int64_t i, int64_t scale_at, int64_t zero_at) {
    const double ratio = rounded_to(x.dtype, x.f64(i) / scale.f64(scale_at));
    if (out.dtype == DType::f8e4m3) {
      out.data<uint8_t>()[i] = f64_to_f8e4m3(ratio, saturate);
    } else if (out.dtype == DType::f8e5m2) {
      out.data<uint8_t>()[i] = f64_to_f8e5m2(ratio, saturate);
    } else if (!std::isnan(ratio)) {
      const double shifted = std::nearbyint(ratio) + (zero ? static_cast<double>(zero->i64(zero_at)) : 0.0);
      const double low = static_cast<double>(lowest_integer(out.dtype));
      const double high = static_cast<double>(highest_integer(out.dtype));
      out.set_i64(i, static_cast<int64_t>(std::min(std::max(shifted, low), high)));
    }
  });
  return one(std::move(out));
}

Result<std::vector<Tensor>> evaluate_dequantize(const EvaluateContext& context) {
  Tensor out = context.results[0];
  const Tensor &x = *context.operands[0], &scale = *context.operands[1];
  const Tensor* zero = context.operands.size() > 2 ? context.operands[2] : nullptr;
  const DType wide = wide_of(scale.dtype, out.dtype);
  for_each_quantized(context, [&](int64_t i, int64_t scale_at, int64_t zero_at) {
    double value = 0;
    if (is_float(x.dtype)) {
      value = x.f64(i);
    } else if (zero && is_float(zero->dtype)) {
      value = rounded_to(wide, rounded_to(wide, static_cast<double>(x.i64(i))) - rounded_to(wide, zero->f64(zero_at)));
    } else {
      value = rounded_to(wide, static_cast<double>(x.i64(i) - (zero ? zero->i64(zero_at) : 0)));
    }
    out.set_f64(i, rounded_to(wide, value * rounded_to(wide, scale.f64(scale_at))));
  });
  return one(std::move(out));
}

// ---- Expansion

Result<Value*> cast(Builder& builder, Value* value, DType dtype) {
  if (value->type.dtype == dtype) return value;
  return builder.value(Op::cast, {value}, {{"to", dtype}});
}

Result<Value*> reshape(Builder& builder, Value* value, Shape shape) {
  if (value->type.shape == shape) return value;
  return builder.value(Op::reshape, {value}, {{"shape", std::move(shape)}});
}

// x and its parameters in shapes that broadcast: where the blocks divide the axis, x is [.., blocks, block, ..].
struct Aligned {
  const Operation& operation;
  size_t axis;
  int64_t block;
  bool splits;

  explicit Aligned(const Operation& op)
      : operation(op),
        axis(static_cast<size_t>(op.attributes.integer("axis"))),
        block(op.operand(1)->type.rank() == 0 ? 0 : op.attributes.integer("block")),
        splits(block > 0 && !one_block() && x_shape()[axis].divided_by(Dim(block)).has_value()) {}

  const Shape& x_shape() const { return operation.operand(0)->type.shape; }
  // Then the parameters broadcast along the axis as they are, however long the block.
  bool one_block() const { return operation.operand(1)->type.shape[axis].is(1); }

  Result<Value*> x(Builder& builder) const {
    if (!splits) return operation.operand(0);
    Shape shape = x_shape();
    shape.insert(shape.begin() + static_cast<int64_t>(axis) + 1, Dim(block));
    shape[axis] = *x_shape()[axis].divided_by(Dim(block));
    return reshape(builder, operation.operand(0), std::move(shape));
  }

  Result<Value*> parameter(Builder& builder, Value* value) const {
    if (value->type.rank() == 0 || (block > 0 && one_block())) return value;
    if (block == 0) {
      if (value->type.rank() == static_cast<int>(x_shape().size())) return value;
      Shape shape(x_shape().size(), Dim(1));
      shape[axis] = value->type.shape[0];
      return reshape(builder, value, std::move(shape));
    }
    Shape shape = value->type.shape;
    shape.insert(shape.begin() + static_cast<int64_t>(axis) + 1, Dim(1));
    RTX_ASSIGN(value, reshape(builder, value, shape));
    if (splits) return value;
    // The last block is shorter: each entry is repeated, and what stands behind the axis is cut off.
    shape[axis + 1] = block;
    RTX_ASSIGN(value, builder.value(Op::broadcast, {value}, {{"shape", shape}}));
    shape[axis] = shape[axis] * Dim(block);
    shape.erase(shape.begin() + static_cast<int64_t>(axis) + 1);
    RTX_ASSIGN(value, reshape(builder, value, std::move(shape)));
    return builder.value(Op::slice, {value},
                         {{"starts", Shape(x_shape().size(), Dim(0))},
                          {"sizes", x_shape()},
                          {"steps", std::vector<int64_t>(x_shape().size(), 1)}});
  }
};

Result<Value*> expand_quantize(const Operation& operation, Builder& builder) {
  const Aligned aligned(operation);
  const DType to = operation.attributes.dtype("to");
  RTX_ASSIGN(Value * x, aligned.x(builder));
  RTX_ASSIGN(Value * scale, aligned.parameter(builder, operation.operand(1)));
  RTX_ASSIGN(Value * y, builder.value(Op::div, {x, scale}));
  if (is_float8(to)) {
    RTX_ASSIGN(y, builder.value(Op::cast, {y}, {{"to", to}, {"saturate", operation.attributes.boolean("saturate")}}));
    return reshape(builder, y, operation.operand(0)->type.shape);
  }
  const DType wide = wide_of(y->type.dtype, DType::f32);
  RTX_ASSIGN(y, cast(builder, y, wide));
  RTX_ASSIGN(y, builder.value(Op::round, {y}));
  if (operation.operand_count() > 2) {
    RTX_ASSIGN(Value * zero, cast(builder, operation.operand(2), wide));
    RTX_ASSIGN(zero, aligned.parameter(builder, zero));
    RTX_ASSIGN(y, builder.value(Op::add, {y, zero}));
  }
  RTX_ASSIGN(Value * low, builder.constant(Tensor::scalar(wide, static_cast<double>(lowest_integer(to)))));
  RTX_ASSIGN(Value * high, builder.constant(Tensor::scalar(wide, static_cast<double>(highest_integer(to)))));
  RTX_ASSIGN(y, builder.value(Op::maximum, {y, low}));
  RTX_ASSIGN(y, builder.value(Op::minimum, {y, high}));
  RTX_ASSIGN(y, cast(builder, y, to));
  return reshape(builder, y, operation.operand(0)->type.shape);
}

Result<Value*> expand_dequantize(const Operation& operation, Builder& builder) {
  const Aligned aligned(operation);
  const DType to = operation.attributes.dtype("to"), from = operation.operand(0)->type.dtype;
  const DType wide = wide_of(operation.operand(1)->type.dtype, to);
  RTX_ASSIGN(Value * x, aligned.x(builder));
  if (operation.operand_count() > 2) {
    Value* zero = operation.operand(2);
    // The difference of two integers is exact before it becomes a float.
    const DType exact = is_float(zero->type.dtype) ? wide : from == DType::i32 ? DType::i64 : DType::i32;
    RTX_ASSIGN(zero, cast(builder, zero, exact));
    RTX_ASSIGN(zero, aligned.parameter(builder, zero));
    RTX_ASSIGN(x, cast(builder, x, exact));
    RTX_ASSIGN(x, builder.value(Op::sub, {x, zero}));
  }
  RTX_ASSIGN(x, cast(builder, x, wide));
  RTX_ASSIGN(Value * scale, cast(builder, operation.operand(1), wide));
  RTX_ASSIGN(scale, aligned.parameter(builder, scale));
  RTX_ASSIGN(Value * y, builder.value(Op::mul, {x, scale}));
  RTX_ASSIGN(y, cast(builder, y, to));
  return reshape(builder, y, operation.operand(0)->type.shape);
}

// ---- Packed fields

// unpack_bits_c1, unpack_bits_c2
Result<std::vector<Type>> infer_unpack_bits(const InferContext& context) {
  const int64_t bits = context.attributes.integer("bits");
  if (bits != 2 && bits != 4) return rule_error(context, "unpack_bits_c1", concat(bits, " bits"), "2 or 4");
  Shape shape = context.operands[0].shape;
  if (shape.empty()) return rule_error(context, "unpack_bits_c2", "x has no axis", "rank 1 or more");
  shape.back() = shape.back() * Dim(8 / bits);
  return std::vector<Type>{{DType::u8, std::move(shape)}};
}

Result<std::vector<Tensor>> evaluate_unpack_bits(const EvaluateContext& context) {
  Tensor out = context.results[0];
  const int64_t bits = context.attributes.integer("bits"), fields = 8 / bits;
  for (int64_t i = 0, n = out.element_count(); i < n; ++i) {
    out.set_i64(i, context.operands[0]->i64(i / fields) >> bits * (i % fields) & ((1 << bits) - 1));
  }
  return one(std::move(out));
}

}  // namespace

// quantization_c1: scale is a scalar, [x.shape[axis]] or of the rank of x with axes that broadcast to it; with blocks
// it
//                  has the shape of x with ceil(n / block) on the axis
// quantization_c2: block is 0 or more
// quantization_c3: zero_point has the dtype that is quantised (for dequantize also a float) and is a scalar or shaped
// as
//                  the scale; f8 has none
// quantization_c4: `to` is a dtype that the operation makes
constinit const OpSpec op_quantize = {
    .name = "quantize",
    .family = OpFamily::composite,
    .summary =
        "x / scale, rounded to the dtype of x, then half to even to an integer, plus zero_point, clamped to the range "
        "of `to`; NaN gives 0. To f8: x / scale rounded as a cast with `saturate` does. Scale and zero point are one "
        "for the tensor, one for each entry of the axis, of the rank of x and broadcast, or (block > 0) one for each "
        "block of entries.",
    .operands = {{{"x", float_dtype}, {"scale", float_dtype}, {"zero_point", quantized_dtype, true}}},
    .attributes = {{{"to", AttrKind::dtype},
                    {"axis", AttrKind::integer, "0"},
                    {"block", AttrKind::integer, "0"},
                    {"saturate", AttrKind::boolean, "true"}}},
    .infer = infer_quantize,
    .evaluate = evaluate_quantize,
    .expand = expand_quantize,
};

// quantization_c1 to quantization_c4
constinit const OpSpec op_dequantize = {
    .name = "dequantize",
    .family = OpFamily::composite,
    .summary =
        "(x - zero_point) * scale. The difference of integers is exact; it and the product are rounded to f32 (f64 "
        "where scale or result is f64), then to `to`. Scale and zero point as for quantize.",
    .operands = {{{"x", quantized_dtype}, {"scale", float_dtype}, {"zero_point", quantized_or_float_dtype, true}}},
    .attributes = {{{"to", AttrKind::dtype}, {"axis", AttrKind::integer, "0"}, {"block", AttrKind::integer, "0"}}},
    .traits = trait_keep_compact,
    .infer = infer_dequantize,
    .evaluate = evaluate_dequantize,
    .expand = expand_dequantize,
};

// unpack_bits_c1: bits is 2 or 4
// unpack_bits_c2: x has an axis
constinit const OpSpec op_unpack_bits = {
    .name = "unpack_bits",
    .family = OpFamily::movement,
    .summary = "The fields of 2 or 4 bits of each byte, low bits first, as u8; the last axis grows.",
    .operands = {{{"x", byte_dtype}}},
    .attributes = {{{"bits", AttrKind::integer}}},
    .traits = trait_keep_compact,
    .infer = infer_unpack_bits,
    .evaluate = evaluate_unpack_bits,
};

}  // namespace rtx
