// Attention and RotaryEmbedding of opset 23 and later.
//
// The order is that of the corrected specification, for all versions: scale, soft cap, mask, softmax; causal rows are
// aligned at the end of the past; a row without any key gives zeros (H52, H53).

#include <cmath>
#include <limits>

#include "frontend/converters/attention_parts.h"
#include "frontend/converters/tables.h"
#include "frontend/onnx_types.h"

namespace rtx::onnx {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

Result<Value*> heads_of(Conversion& c, size_t index, std::string_view attribute) {
  RTX_ASSIGN(Value * x, c.input(index));
  if (x->type.rank() == 4) return x;
  if (!c.has_attribute(attribute))
    return c.invalid("E324", concat("inputs of rank 3 need the attribute '", attribute, "'"));
  return split_heads(c, x, c.integer(attribute, 0));
}

// The mask's last axis may be short: what is missing is masked.
Result<Value*> padded_mask(Conversion& c, Value* mask, const Dim& keys) {
  int axis = mask->type.rank() - 1;
  if (axis < 0) return mask;
  Dim length = mask->type.shape[axis];
  if (length == keys || length.is(1)) return mask;
  bool shorter = length.is_constant() && keys.is_constant() && length.constant() < keys.constant();
  if (!shorter) return mask;
  Shape low(axis + 1, 0), high(axis + 1, 0);
  high[axis] = keys - length;
  RTX_ASSIGN(Value * fill, c.scalar(mask->type.dtype, mask->type.dtype == DType::boolean ? 0 : -infinity));
  return c.emit(Op::pad, {mask, fill}, {{"low", low}, {"high", high}});
}

Result<void> attention(Conversion& c) {
  bool from_3d = c.rank(0) == 3;
  RTX_ASSIGN(Value * q, heads_of(c, 0, "q_num_heads"));
  RTX_ASSIGN(Value * k, heads_of(c, 1, "kv_num_heads"));
  RTX_ASSIGN(Value * v, heads_of(c, 2, "kv_num_heads"));
  for (Value* value : {q, k, v})
    if (value->type.rank() != 4)
      return c.invalid("E327", "the inputs must have rank 3 or 4").with_got(value->type.str());
  DType dtype = q->type.dtype;
  Dim past = 0;
  if (c.has(4) != c.has(5)) return c.invalid("E321", "past_key and past_value come together");
  if (c.has(4)) {
    RTX_ASSIGN(Value * past_key, c.input(4));
    RTX_ASSIGN(Value * past_value, c.input(5));
    past = past_key->type.rank() == 4 ? past_key->type.shape[2] : Dim(0);
    RTX_ASSIGN(k, c.emit(Op::concat, {past_key, k}, {{"axis", int64_t{2}}}));
    RTX_ASSIGN(v, c.emit(Op::concat, {past_value, v}, {{"axis", int64_t{2}}}));
  }
  if (c.wants(1)) c.set(1, k);
  if (c.wants(2)) c.set(2, v);
  if (!q->type.shape[1].is_constant() || !q->type.shape[3].is_constant())
    return c.unsupported("heads or a head size that are not constant");
  int64_t heads = q->type.shape[1].constant();
  RTX_ASSIGN(k, repeat_heads(c, k, heads));
  RTX_ASSIGN(v, repeat_heads(c, v, heads));

  double scale = c.real("scale", 0);
  if (!c.has_attribute("scale")) scale = 1 / std::sqrt(static_cast<double>(q->type.shape[3].constant()));
  RTX_ASSIGN(Value * root, c.scalar(dtype, std::sqrt(scale)));
  RTX_ASSIGN(q, c.emit(Op::mul, {q, root}));
  RTX_ASSIGN(k, c.emit(Op::mul, {k, root}));
  RTX_ASSIGN(Value * scores, c.emit(Op::matmul, {q, k}, {{"transpose_rhs", true}}));
  int64_t mode = c.integer("qk_matmul_output_mode", 0);
  if (mode < 0 || mode > 3) return c.invalid("E321", concat("qk_matmul_output_mode ", mode));
  if (c.wants(3) && mode == 0) c.set(3, scores);

  double cap = c.real("softcap", 0);
  if (cap > 0) {
    RTX_ASSIGN(Value * limit, c.scalar(dtype, cap));
    RTX_ASSIGN(scores, c.emit(Op::div, {scores, limit}));
    RTX_ASSIGN(scores, c.emit(Op::tanh, {scores}));
    RTX_ASSIGN(scores, c.emit(Op::mul, {scores, limit}));
  }
  if (c.wants(3) && mode == 1) c.set(3, scores);

  Dim queries = scores->type.shape[2], keys = scores->type.shape[3];
  AttentionMask mask;
  if (c.has(3)) {
    RTX_ASSIGN(Value * given, c.input(3));
    RTX_ASSIGN(given, padded_mask(c, given, keys));
    RTX_TRY(given->type.dtype == DType::boolean ? mask.allow(c, given) : mask.add(c, given));
  }
  RTX_ASSIGN(Value * offset, c.dim_scalar(past));
  if (c.has(6)) {
    if (c.has(4)) return c.invalid("E321", "nonpad_kv_seqlen does not go with past_key");
    RTX_ASSIGN(Value * lengths, c.input(6));
    RTX_TRY(mask.allow_before(c, lengths, keys));
    RTX_ASSIGN(lengths, c.reshape(lengths, {lengths->type.element_count(), 1, 1, 1}));
    RTX_ASSIGN(Value * length, c.dim_scalar(queries));
    RTX_ASSIGN(offset, c.emit(Op::sub, {lengths, length}));
  }
  bool guard = !mask.empty();
  int64_t left = c.integer("left_window_size", -1), right = c.integer("right_window_size", -1);
  if (c.integer("is_causal", 0) != 0) right = right < 0 ? 0 : std::min<int64_t>(right, 0);
  RTX_TRY(mask.allow_window(c, offset, queries, keys, left, right));
  RTX_ASSIGN(scores, mask.apply(c, scores, -infinity));
  if (c.wants(3) && mode == 2) c.set(3, scores);

  if (c.has_attribute("softmax_precision")) {
    auto precision = dtype_of(c.integer("softmax_precision", 0));
    if (!precision || !is_float(*precision)) return c.invalid("E321", "softmax_precision is not a float type");
    RTX_ASSIGN(scores, c.cast(scores, *precision));
  }
  RTX_ASSIGN(Value * weights, attention_softmax(c, scores, guard || left >= 0));
  RTX_ASSIGN(weights, c.cast(weights, dtype));
  if (c.wants(3) && mode == 3) c.set(3, weights);
  RTX_ASSIGN(v, c.cast(v, dtype));
  RTX_ASSIGN(Value * y, c.emit(Op::matmul, {weights, v}));
  if (from_3d) {
    RTX_ASSIGN(y, merge_heads(c, y));
  }
  c.set(0, y);
  return Ok{};
}

// cos or sin: looked up by position, or given for each position; as [batch, 1, sequence, rotary / 2].
Result<Value*> rotary_cache(Conversion& c, size_t index, size_t positions) {
  RTX_ASSIGN(Value * cache, c.input(index));
  if (c.has(positions)) {
    RTX_ASSIGN(Value * ids, c.input(positions));
    RTX_ASSIGN(cache, c.emit(Op::gather, {cache, ids}, {{"axis", int64_t{0}}}));
  }
  if (cache->type.rank() != 3) return c.invalid("E327", "cos and sin need rank 3 here").with_got(cache->type.str());
  const Shape& shape = cache->type.shape;
  return c.reshape(cache, {shape[0], 1, shape[1], shape[2]});
}

Result<void> rotary_embedding(Conversion& c) {
  bool from_3d = c.rank(0) == 3;
  RTX_ASSIGN(Value * x, heads_of(c, 0, "num_heads"));
  if (x->type.rank() != 4) return c.invalid("E327", "the input must have rank 3 or 4").with_got(x->type.str());
  const Dim& size = x->type.shape[3];
  if (!size.is_constant()) return c.unsupported("a head size that is not constant");
  int64_t rotary = c.integer("rotary_embedding_dim", 0);
  if (rotary == 0) rotary = size.constant();
  RTX_ASSIGN(Value * cos, rotary_cache(c, 1, 3));
  RTX_ASSIGN(Value * sin, rotary_cache(c, 2, 3));
  RTX_ASSIGN(Value * y, rotate(c, x, cos, sin, rotary, c.integer("interleaved", 0) != 0));
  if (from_3d) {
    RTX_ASSIGN(y, merge_heads(c, y));
  }
  c.set(0, y);
  return Ok{};
}

constexpr std::string_view attention_attributes =
    "is_causal kv_num_heads q_num_heads qk_matmul_output_mode scale softcap softmax_precision";
constexpr std::string_view windowed_attributes =
    "is_causal kv_num_heads q_num_heads qk_matmul_output_mode scale softcap softmax_precision left_window_size "
    "right_window_size";

}  // namespace

constinit const Converter attention_converters[] = {
    {"Attention", 23, attention, never, attention_attributes, 3, 6, "", 4},
    {"Attention", 24, attention, never, attention_attributes, 3, 7, "", 4},
    {"Attention", 25, attention, never, windowed_attributes, 3, 7, "", 4},
    {"RotaryEmbedding", 23, rotary_embedding, never, "interleaved num_heads rotary_embedding_dim", 3, 4},
};
std::span<const Converter> attention_table() { return attention_converters; }

}  // namespace rtx::onnx
