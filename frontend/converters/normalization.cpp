// Layer, RMS, instance, group and batch normalization, and onnxruntime's forms with a residual.

#include <numeric>

#include "frontend/converters/quantization_parts.h"
#include "frontend/converters/tables.h"
#include "frontend/onnx_types.h"

namespace rtx::onnx {
namespace {

std::vector<int64_t> axes_from(int axis, int rank) {
  std::vector<int64_t> axes(rank - axis);
  std::iota(axes.begin(), axes.end(), axis);
  return axes;
}

// The type of the first stage (mean, variance, normalised value): stash_type, f32 by default (H35).
Result<DType> stash_dtype(Conversion& c) {
  int64_t number = c.integer("stash_type", 1);
  auto dtype = dtype_of(number);
  if (!dtype || !is_float(*dtype)) return c.invalid("E321", concat("stash_type ", number));
  return *dtype;
}

struct Moments {
  Value* centred = nullptr;
  Value* mean = nullptr;
  Value* inverse_deviation = nullptr;
};

// mean and 1 / sqrt(variance + epsilon) over the axes, kept as 1.
Result<Moments> moments(Conversion& c, Value* x, const std::vector<int64_t>& axes, double epsilon, bool subtract_mean) {
  Moments result;
  result.centred = x;
  if (subtract_mean) {
    RTX_ASSIGN(result.mean, c.reduce(Op::reduce_mean, x, axes, true));
    RTX_ASSIGN(result.centred, c.emit(Op::sub, {x, result.mean}));
  }
  RTX_ASSIGN(Value * square, c.emit(Op::mul, {result.centred, result.centred}));
  RTX_ASSIGN(Value * variance, c.reduce(Op::reduce_mean, square, axes, true));
  RTX_ASSIGN(Value * small, c.scalar(x->type.dtype, epsilon));
  RTX_ASSIGN(variance, c.emit(Op::add, {variance, small}));
  RTX_ASSIGN(Value * deviation, c.emit(Op::sqrt, {variance}));
  RTX_ASSIGN(result.inverse_deviation, c.emit(Op::reciprocal, {deviation}));
  return result;
}

// y = norm(x) * scale + bias for a layer or (without mean) RMS norm, as one composite op where the types allow it.
Result<Value*> normalized(Conversion& c, Value* x, Value* scale, Value* bias, int axis, double epsilon, bool rms,
                          DType stash) {
  DType dtype = x->type.dtype;
  bool same = scale->type.dtype == dtype && (!bias || bias->type.dtype == dtype);
  bool wide_enough = stash == DType::f32 || stash == dtype || stash == DType::f64;
  if (same && wide_enough && dtype != DType::f64) {
    AttributeList attributes = {{"axis", static_cast<int64_t>(axis)}, {"epsilon", epsilon}};
    if (rms && !bias) return c.emit(Op::rms_norm, {x, scale}, attributes);
    if (!rms) return c.emit(Op::layer_norm, bias ? std::vector{x, scale, bias} : std::vector{x, scale}, attributes);
  }
  // In stages: normalise in the stash type, round to the type of x, then scale and bias in theirs.
  RTX_ASSIGN(Value * wide, c.cast(x, dtype == DType::f64 ? DType::f64 : stash));
  RTX_ASSIGN(Moments m, moments(c, wide, axes_from(axis, x->type.rank()), epsilon, !rms));
  RTX_ASSIGN(Value * y, c.emit(Op::mul, {m.centred, m.inverse_deviation}));
  RTX_ASSIGN(y, c.cast(y, scale->type.dtype));
  RTX_ASSIGN(y, c.emit(Op::mul, {y, scale}));
  if (bias) {
    RTX_ASSIGN(y, c.emit(Op::add, {y, bias}));
  }
  return y;
}

// Outputs `mean` and `inverse` of a normalization of x, in the stash type; either may be unwanted.
Result<void> set_moments(Conversion& c, Value* x, int axis, double epsilon, DType stash, bool rms,
                         std::optional<size_t> mean, size_t inverse) {
  bool wants_mean = mean && c.wants(*mean);
  if (!wants_mean && !c.wants(inverse)) return Ok{};
  RTX_ASSIGN(Value * wide, c.cast(x, stash));
  RTX_ASSIGN(Moments m, moments(c, wide, axes_from(axis, x->type.rank()), epsilon, !rms));
  if (wants_mean) c.set(*mean, m.mean);
  if (c.wants(inverse)) c.set(inverse, m.inverse_deviation);
  return Ok{};
}

Result<void> layer_normalization(Conversion& c) {
  RTX_ASSIGN(int axis, c.axis(c.integer("axis", -1), c.rank(0)));
  double epsilon = c.real("epsilon", 1e-5f);
  RTX_ASSIGN(DType stash, stash_dtype(c));
  RTX_ASSIGN(Value * x, c.input(0));
  RTX_ASSIGN(Value * scale, c.input(1));
  RTX_ASSIGN(Value * bias, optional_input(c, 2));
  RTX_ASSIGN(Value * y, normalized(c, x, scale, bias, axis, epsilon, false, stash));
  c.set(0, y);
  return set_moments(c, x, axis, epsilon, stash, false, 1, 2);
}

Result<void> rms_normalization(Conversion& c) {
  RTX_ASSIGN(int axis, c.axis(c.integer("axis", -1), c.rank(0)));
  double epsilon = c.real("epsilon", 1e-5f);
  RTX_ASSIGN(DType stash, stash_dtype(c));
  RTX_ASSIGN(Value * x, c.input(0));
  RTX_ASSIGN(Value * scale, c.input(1));
  RTX_ASSIGN(Value * y, normalized(c, x, scale, nullptr, axis, epsilon, true, stash));
  c.set(0, y);
  return set_moments(c, x, axis, epsilon, stash, true, std::nullopt, 1);
}

// ---- com.microsoft: sum = input + skip (+ bias), then the norm. Outputs: y, mean, inverse deviation, sum (H55).

Result<void> skip_normalization(Conversion& c, bool rms) {
  double epsilon = c.real("epsilon", rms ? 1e-5f : 1e-12f);
  size_t bias_index = rms ? 3 : 4;
  RTX_ASSIGN(Value * x, c.input(0));
  RTX_ASSIGN(Value * skip, c.input(1));
  RTX_ASSIGN(Value * gamma, c.input(2));
  RTX_ASSIGN(Value * sum, c.emit(Op::add, {x, skip}));
  if (c.has(bias_index)) {
    RTX_ASSIGN(Value * bias, c.input(bias_index));
    RTX_ASSIGN(sum, c.emit(Op::add, {sum, bias}));
  }
  Value* beta = nullptr;
  if (!rms) {
    RTX_ASSIGN(beta, optional_input(c, 3));
  }
  int axis = sum->type.rank() - 1;
  if (axis < 0) return c.invalid("E327", "the input needs rank 1 or more");
  RTX_ASSIGN(Value * y, normalized(c, sum, gamma, beta, axis, epsilon, rms, DType::f32));
  c.set(0, y);
  if (c.wants(3)) c.set(3, sum);
  return set_moments(c, sum, axis, epsilon, DType::f32, rms, rms ? std::nullopt : std::optional<size_t>(1), 2);
}

Result<void> skip_layer_normalization(Conversion& c) { return skip_normalization(c, false); }
Result<void> skip_simplified_layer_normalization(Conversion& c) { return skip_normalization(c, true); }

// Row sums of word, position and segment embeddings, then the layer norm (H58). Inputs: input_ids, segment_ids, word,
// position and segment tables, gamma, beta, mask, position_ids. Quantised (QEmbedLayerNormalization): inputs 2 to 6 are
// integers, with their scales in inputs 8 to 12 and their zero points in 13 to 17; no position_ids.
template <bool quantised>
Result<void> embed_layer_normalization(Conversion& c) {
  double epsilon = c.real("epsilon", 1e-12f);
  // Rows of input `index`, or the input itself, as floats.
  auto real = [&](Value* value, size_t index) -> Result<Value*> {
    if (!quantised) return value;
    RTX_ASSIGN(Value * scale, c.input(index + 6));
    RTX_ASSIGN(Value * zero, optional_input(c, index + 11));
    return dequantized(c, value, {.scale = scale, .zero = zero}, DType::f32);
  };
  RTX_ASSIGN(Value * ids, c.input(0));
  if (ids->type.rank() != 2) return c.invalid("E327", "input_ids must have rank 2").with_got(ids->type.str());
  Shape shape = ids->type.shape;
  RTX_ASSIGN(Value * words, c.input(2));
  RTX_ASSIGN(Value * table, c.input(3));
  RTX_ASSIGN(Value * sum, c.emit(Op::gather, {words, ids}, {{"axis", int64_t{0}}}));
  RTX_ASSIGN(sum, real(sum, 2));
  Value* positions = nullptr;
  if (!quantised && c.has(8)) {
    RTX_ASSIGN(positions, c.input(8));
  } else {
    RTX_ASSIGN(positions, c.iota(DType::i64, 2, 1, shape[1]));
  }
  RTX_ASSIGN(Value * position, c.emit(Op::gather, {table, positions}, {{"axis", int64_t{0}}}));
  RTX_ASSIGN(position, real(position, 3));
  RTX_ASSIGN(sum, c.emit(Op::add, {sum, position}));
  if (c.has(1) && c.has(4)) {
    RTX_ASSIGN(Value * segments, c.input(1));
    RTX_ASSIGN(Value * segment_table, c.input(4));
    RTX_ASSIGN(Value * segment, c.emit(Op::gather, {segment_table, segments}, {{"axis", int64_t{0}}}));
    RTX_ASSIGN(segment, real(segment, 4));
    RTX_ASSIGN(sum, c.emit(Op::add, {sum, segment}));
  }
  RTX_ASSIGN(Value * gamma, c.input(5));
  RTX_ASSIGN(gamma, real(gamma, 5));
  RTX_ASSIGN(Value * beta, optional_input(c, 6));
  if (beta) {
    RTX_ASSIGN(beta, real(beta, 6));
  }
  RTX_ASSIGN(Value * y, normalized(c, sum, gamma, beta, 2, epsilon, false, DType::f32));
  c.set(0, y);
  if (c.wants(2)) c.set(2, sum);
  if (!c.wants(1)) return Ok{};
  // mask_index: where each row's mask first turns 0, or its length; zeros without a mask.
  Value* index = nullptr;
  if (c.has(7)) {
    RTX_ASSIGN(Value * mask, c.input(7));
    RTX_ASSIGN(mask, c.cast(mask, DType::boolean));
    RTX_ASSIGN(Value * column, c.iota(DType::i32, 2, 1, shape[1]));
    RTX_ASSIGN(Value * length, c.dim_scalar(shape[1]));
    RTX_ASSIGN(length, c.cast(length, DType::i32));
    RTX_ASSIGN(index, c.emit(Op::select, {mask, length, column}));
    RTX_ASSIGN(index, c.reduce(Op::reduce_min, index, {1}, false));
  } else {
    RTX_ASSIGN(index, c.scalar(DType::i32, 0));
    RTX_ASSIGN(index, c.broadcast(index, {shape[0]}));
  }
  c.set(1, index);
  return Ok{};
}

// ---- Per-channel forms

// A [channels] vector as [channels, 1, 1, ...] for an input of the given rank.
Result<Value*> per_channel(Conversion& c, size_t index, int rank, DType dtype) {
  RTX_ASSIGN(Value * value, c.input(index));
  if (value->type.rank() != 1)
    return c.invalid("E327", concat("input ", index, " must have rank 1")).with_got(value->type.str());
  RTX_ASSIGN(value, c.cast(value, dtype));
  Shape shape(rank - 1, 1);
  shape[0] = value->type.shape[0];
  return c.reshape(value, std::move(shape));
}

Result<void> instance_normalization(Conversion& c) {
  int rank = c.rank(0);
  if (rank < 3) return c.invalid("E327", "the input needs rank 3 or more").with_got(c.type(0).str());
  RTX_ASSIGN(Value * x, c.input(0));
  DType dtype = x->type.dtype, wide_dtype = dtype == DType::f64 ? DType::f64 : DType::f32;
  RTX_ASSIGN(Value * wide, c.cast(x, wide_dtype));
  RTX_ASSIGN(Moments m, moments(c, wide, axes_from(2, rank), c.real("epsilon", 1e-5f), true));
  RTX_ASSIGN(Value * scale, per_channel(c, 1, rank, wide_dtype));
  RTX_ASSIGN(Value * bias, per_channel(c, 2, rank, wide_dtype));
  RTX_ASSIGN(Value * y, c.emit(Op::mul, {m.centred, m.inverse_deviation}));
  RTX_ASSIGN(y, c.emit(Op::mul, {y, scale}));
  RTX_ASSIGN(y, c.emit(Op::add, {y, bias}));
  RTX_ASSIGN(y, c.cast(y, dtype));
  c.set(0, y);
  return Ok{};
}

// Version 18 has scale and bias for each group, 21 for each channel (H50).
Result<void> group_normalization(Conversion& c) {
  int rank = c.rank(0);
  if (rank < 3) return c.invalid("E327", "the input needs rank 3 or more").with_got(c.type(0).str());
  int64_t groups = c.integer("num_groups", 0);
  RTX_ASSIGN(DType stash, stash_dtype(c));
  RTX_ASSIGN(Value * x, c.input(0));
  Shape shape = x->type.shape;
  auto in_group = groups > 0 ? shape[1].divided_by(groups) : std::nullopt;
  if (!in_group) return c.invalid("E321", concat("num_groups ", groups, " does not divide ", shape[1].str()));
  bool by_channel = c.node().opset >= 21;
  DType dtype = x->type.dtype, wide_dtype = dtype == DType::f64 ? DType::f64 : stash;
  Shape grouped = {shape[0], groups, *in_group};
  grouped.insert(grouped.end(), shape.begin() + 2, shape.end());
  RTX_ASSIGN(Value * wide, c.cast(x, wide_dtype));
  RTX_ASSIGN(wide, c.reshape(wide, grouped));
  RTX_ASSIGN(Moments m, moments(c, wide, axes_from(2, rank + 1), c.real("epsilon", 1e-5f), true));
  RTX_ASSIGN(Value * y, c.emit(Op::mul, {m.centred, m.inverse_deviation}));
  int affine_rank = by_channel ? rank : rank + 1;
  RTX_ASSIGN(y, c.cast(y, dtype));
  RTX_ASSIGN(Value * scale, per_channel(c, 1, affine_rank, dtype));
  RTX_ASSIGN(Value * bias, per_channel(c, 2, affine_rank, dtype));
  if (by_channel) {
    RTX_ASSIGN(y, c.reshape(y, shape));
  }
  RTX_ASSIGN(y, c.emit(Op::mul, {y, scale}));
  RTX_ASSIGN(y, c.emit(Op::add, {y, bias}));
  RTX_ASSIGN(y, c.reshape(y, shape));
  c.set(0, y);
  return Ok{};
}

// com.microsoft.GroupNorm of x, channels last or first, in f32: gamma and beta may have another type than x.
Result<Value*> group_norm_of(Conversion& c, Value* x) {
  if (x->type.rank() != 4) return c.invalid("E327", "the input must have rank 4").with_got(x->type.str());
  const int64_t groups = c.integer("groups", 0), activation = c.integer("activation", 0);
  if (activation != 0 && activation != 1) return c.invalid("E321", concat("activation ", activation));
  const bool is_last = c.integer("channels_last", 1) != 0;
  const DType dtype = x->type.dtype;
  RTX_ASSIGN(Value * y, c.cast(x, DType::f32));
  if (is_last) {
    RTX_ASSIGN(y, c.transpose(y, {0, 3, 1, 2}));
  }
  const Shape shape = y->type.shape;
  auto in_group = groups > 0 ? shape[1].divided_by(groups) : std::nullopt;
  if (!in_group) return c.invalid("E321", concat("groups ", groups, " does not divide ", shape[1].str()));
  RTX_ASSIGN(y, c.reshape(y, {shape[0], groups, *in_group, shape[2], shape[3]}));
  RTX_ASSIGN(Moments m, moments(c, y, axes_from(2, 5), c.real("epsilon", 1e-5f), true));
  RTX_ASSIGN(y, c.emit(Op::mul, {m.centred, m.inverse_deviation}));
  RTX_ASSIGN(y, c.reshape(y, shape));
  RTX_ASSIGN(Value * gamma, per_channel(c, 1, 4, DType::f32));
  RTX_ASSIGN(Value * beta, per_channel(c, 2, 4, DType::f32));
  RTX_ASSIGN(y, c.emit(Op::mul, {y, gamma}));
  RTX_ASSIGN(y, c.emit(Op::add, {y, beta}));
  if (activation == 1) {
    RTX_ASSIGN(y, c.emit(Op::silu, {y}));
  }
  RTX_ASSIGN(y, c.cast(y, dtype));
  if (!is_last) return y;
  return c.transpose(y, {0, 2, 3, 1});
}

Result<void> group_norm(Conversion& c) {
  RTX_ASSIGN(Value * x, c.input(0));
  RTX_ASSIGN(Value * y, group_norm_of(c, x));
  c.set(0, y);
  return Ok{};
}

// The norm of X + skip + bias, which is output 1. skip may be one vector of channels for each image.
Result<void> skip_group_norm(Conversion& c) {
  RTX_ASSIGN(Value * x, c.input(0));
  RTX_ASSIGN(Value * skip, c.input(3));
  if (x->type.rank() != 4) return c.invalid("E327", "the input must have rank 4").with_got(x->type.str());
  const bool is_last = c.integer("channels_last", 1) != 0;
  if (skip->type.rank() == 2) {
    const Dim batch = skip->type.shape[0], channels = skip->type.shape[1];
    RTX_ASSIGN(skip, c.reshape(skip, is_last ? Shape{batch, 1, 1, channels} : Shape{batch, channels, 1, 1}));
  }
  RTX_TRY(c.need_rank(skip, 4));
  RTX_ASSIGN(Value * sum, c.emit(Op::add, {x, skip}));
  if (c.has(4)) {
    RTX_TRY(c.need_rank(4, 1));
    RTX_ASSIGN(Value * bias, c.input(4));
    const Dim channels = bias->type.shape[0];
    RTX_ASSIGN(bias, c.reshape(bias, is_last ? Shape{channels} : Shape{channels, 1, 1}));
    RTX_ASSIGN(sum, c.emit(Op::add, {sum, bias}));
  }
  RTX_ASSIGN(Value * y, group_norm_of(c, sum));
  c.set(0, y);
  if (c.wants(1)) c.set(1, sum);
  return Ok{};
}

// Inference: (x - mean) / sqrt(var + epsilon) * scale + bias with stored statistics.
Result<void> batch_normalization(Conversion& c) {
  if (c.integer("training_mode", 0) != 0) return c.unsupported("training mode");
  if (c.integer("spatial", 1) == 0) return c.unsupported("spatial = 0");
  for (size_t i = 1; i < c.output_count(); ++i)
    if (c.wants(i)) return c.unsupported("outputs of training mode");
  int rank = c.rank(0);
  if (rank < 2) return c.invalid("E327", "the input needs rank 2 or more").with_got(c.type(0).str());
  RTX_ASSIGN(Value * x, c.input(0));
  DType dtype = x->type.dtype, wide_dtype = dtype == DType::f64 ? DType::f64 : DType::f32;
  RTX_ASSIGN(Value * y, c.cast(x, wide_dtype));
  Value* parameters[4];
  for (size_t i = 0; i < 4; ++i) {
    RTX_ASSIGN(parameters[i], per_channel(c, i + 1, rank, wide_dtype));
  }
  auto [scale, bias, mean, variance] = parameters;
  RTX_ASSIGN(Value * small, c.scalar(wide_dtype, c.real("epsilon", 1e-5f)));
  RTX_ASSIGN(variance, c.emit(Op::add, {variance, small}));
  RTX_ASSIGN(Value * deviation, c.emit(Op::sqrt, {variance}));
  RTX_ASSIGN(y, c.emit(Op::sub, {y, mean}));
  RTX_ASSIGN(y, c.emit(Op::div, {y, deviation}));
  RTX_ASSIGN(y, c.emit(Op::mul, {y, scale}));
  RTX_ASSIGN(y, c.emit(Op::add, {y, bias}));
  RTX_ASSIGN(y, c.cast(y, dtype));
  c.set(0, y);
  return Ok{};
}

// x / norm over one axis; a norm of 0 gives 0 / 0.
Result<void> lp_normalization(Conversion& c) {
  RTX_ASSIGN(int axis, c.axis(c.integer("axis", -1), c.rank(0)));
  int64_t p = c.integer("p", 2);
  if (p != 1 && p != 2) return c.invalid("E321", concat("p = ", p, " of LpNormalization"));
  RTX_ASSIGN(Value * x, c.input(0));
  RTX_ASSIGN(Value * norm, p == 1 ? c.emit(Op::abs, {x}) : c.emit(Op::mul, {x, x}));
  RTX_ASSIGN(norm, c.reduce(Op::reduce_sum, norm, {axis}, true));
  if (p == 2) {
    RTX_ASSIGN(norm, c.emit(Op::sqrt, {norm}));
  }
  RTX_ASSIGN(Value * y, c.emit(Op::div, {x, norm}));
  c.set(0, y);
  return Ok{};
}

// (x - mean) / (deviation + 1e-9) over the axes; 16-bit floats are computed in f32.
Result<void> mean_variance_normalization(Conversion& c) {
  RTX_ASSIGN(std::vector<int64_t> axes,
             c.axes(c.integer_list("axes").value_or(std::vector<int64_t>{0, 2, 3}), c.rank(0)));
  RTX_ASSIGN(Value * x, c.input(0));
  DType dtype = x->type.dtype, wide = dtype == DType::f64 ? DType::f64 : DType::f32;
  RTX_ASSIGN(x, c.cast(x, wide));
  RTX_ASSIGN(Value * mean, c.reduce(Op::reduce_mean, x, axes, true));
  RTX_ASSIGN(x, c.emit(Op::sub, {x, mean}));
  RTX_ASSIGN(Value * deviation, c.emit(Op::mul, {x, x}));
  RTX_ASSIGN(deviation, c.reduce(Op::reduce_mean, deviation, axes, true));
  RTX_ASSIGN(deviation, c.emit(Op::sqrt, {deviation}));
  RTX_ASSIGN(Value * epsilon, c.scalar(wide, 1e-9));
  RTX_ASSIGN(deviation, c.emit(Op::add, {deviation, epsilon}));
  RTX_ASSIGN(Value * y, c.emit(Op::div, {x, deviation}));
  RTX_ASSIGN(y, c.cast(y, dtype));
  c.set(0, y);
  return Ok{};
}

constexpr std::string_view norm_attributes = "axis epsilon stash_type";

}  // namespace

// onnxruntime registers LayerNormalization and SimplifiedLayerNormalization with version 1 in the default domain (H05).
constinit const Converter normalization_converters[] = {
    {"LayerNormalization", 1, layer_normalization, never, norm_attributes, 2, 3, "", 3},
    {"RMSNormalization", 23, rms_normalization, never, norm_attributes, 2, 2, "", 2},
    {"SimplifiedLayerNormalization", 1, rms_normalization, never, norm_attributes, 2, 2, "", 2},
    {"InstanceNormalization", 6, instance_normalization, never, "epsilon", 3, 3},
    {"GroupNormalization", 18, group_normalization, never, "epsilon num_groups", 3, 3},
    {"GroupNormalization", 21, group_normalization, never, "epsilon num_groups stash_type", 3, 3},
    {"BatchNormalization", 7, batch_normalization, never, "epsilon momentum spatial", 5, 5, "", 5},
    {"BatchNormalization", 14, batch_normalization, never, "epsilon momentum training_mode", 5, 5, "", 3},
    {"MeanVarianceNormalization", 9, mean_variance_normalization, never, "axes"},
    {"LpNormalization", 1, lp_normalization, never, "axis p"},
    {"LayerNormalization", 1, layer_normalization, never, norm_attributes, 2, 3, "com.microsoft", 3},
    {"SimplifiedLayerNormalization", 1, rms_normalization, never, norm_attributes, 2, 2, "com.microsoft", 2},
    {"GroupNorm", 1, group_norm, never, "activation channels_last epsilon groups", 3, 3, "com.microsoft"},
    {"SkipGroupNorm", 1, skip_group_norm, never, "activation channels_last epsilon groups", 4, 5, "com.microsoft", 2},
    {"EmbedLayerNormalization", 1, embed_layer_normalization<false>, never, "epsilon mask_index_type", 7, 9,
     "com.microsoft", 3, 1u << 1 | 1u << 4},
    {"QEmbedLayerNormalization", 1, embed_layer_normalization<true>, never, "epsilon", 18, 18, "com.microsoft", 2,
     1u << 1 | 1u << 4 | 1u << 7 | 1u << 10 | 1u << 15},
    {"SkipLayerNormalization", 1, skip_layer_normalization, never, "epsilon", 3, 5, "com.microsoft", 4},
    {"SkipSimplifiedLayerNormalization", 1, skip_simplified_layer_normalization, never, "epsilon", 3, 4,
     "com.microsoft", 4},
};
std::span<const Converter> normalization_table() { return normalization_converters; }

}  // namespace rtx::onnx
