// com.microsoft.DecoderMaskedMultiHeadAttention and DecoderMaskedSelfAttention: attention of one query over a cache,
// which with past_present_share_buffer has room for more keys than it holds.
//
// The cache is in plain order, [batch, heads, length, size], as onnxruntime's CPU provider keeps it; the reordered keys
// that the documentation describes exist on its GPUs only.

#include <cmath>
#include <limits>

#include "frontend/converters/attention_parts.h"
#include "frontend/converters/tables.h"

namespace rtx::onnx {
namespace {

// Everything that both operators have, at the positions of their inputs.
struct Decoder {
  Value *q = nullptr, *k = nullptr, *v = nullptr;    // [batch, heads, 1 (or keys), size]
  Value *past_key = nullptr, *past_value = nullptr;  // [batch, heads, length, size]
  size_t mask = 0, bias = 0, past_length = 0, beam_indices = 0;
  bool is_cross = false, shares_buffer = false;
  Value* row_past = nullptr;  // i64 rank 0, with a shared buffer: how many keys the cache holds
};

Result<Value*> input_or_null(Conversion& c, size_t index) {
  if (!c.has(index)) return static_cast<Value*>(nullptr);
  return c.input(index);
}

// The cache with the new row at its place.
Result<Value*> with_row(Conversion& c, const Decoder& d, Value* cache, Value* row) {
  RTX_TRY(c.need_rank(cache, 4));
  if (!d.shares_buffer) return c.emit(Op::concat, {cache, row}, {{"axis", int64_t{2}}});
  RTX_ASSIGN(Value * position, c.iota(DType::i64, 4, 2, cache->type.shape[2]));
  RTX_ASSIGN(Value * is_new, c.emit(Op::equal, {position, d.row_past}));
  return c.emit(Op::select, {is_new, row, cache});
}

// Keys (or values) of each position from the beam that wrote them: [batch * beams, heads, length, size] by indices
// [batch, beams, capacity]. The new row is each beam's own.
Result<Value*> of_beams(Conversion& c, const Decoder& d, Value* x) {
  if (d.is_cross || !c.has(d.beam_indices)) return x;
  RTX_ASSIGN(Value * indices, c.input(d.beam_indices));
  RTX_TRY(c.need_rank(indices, 3));
  const Shape shape = x->type.shape, of = indices->type.shape;
  const Dim length = shape[2];
  RTX_ASSIGN(indices, c.cast(indices, DType::i64));
  RTX_ASSIGN(Value * zero, c.scalar(DType::i64, 0));
  RTX_ASSIGN(indices,
             c.emit(Op::pad, {indices, zero}, {{"low", Shape{0, 0, 0}}, {"high", Shape{0, 0, length - of[2]}}}));
  RTX_ASSIGN(Value * position, c.iota(DType::i64, 3, 2, length));
  RTX_ASSIGN(Value * own, c.iota(DType::i64, 3, 1, of[1]));
  Value* held = d.row_past;
  if (!held) {
    RTX_ASSIGN(held, c.dim_scalar(length - Dim(1)));
  }
  RTX_ASSIGN(Value * is_past, c.emit(Op::less, {position, held}));
  RTX_ASSIGN(indices, c.emit(Op::select, {is_past, indices, own}));
  RTX_ASSIGN(indices, c.reshape(indices, {of[0], of[1], 1, length, 1}));
  const Shape grouped = {of[0], of[1], shape[1], length, shape[3]};
  RTX_ASSIGN(indices, c.broadcast(indices, grouped));
  RTX_ASSIGN(x, c.reshape(x, grouped));
  RTX_ASSIGN(x, c.emit(Op::gather_elements, {x, indices}, {{"axis", int64_t{1}}}));
  return c.reshape(x, shape);
}

// A mask or bias over the keys held, for all the keys that the buffer has room for.
Result<Value*> to_length(Conversion& c, Value* x, const Dim& length) {
  const int axis = x->type.rank() - 1;
  if (axis < 0 || x->type.shape[axis] == length || x->type.shape[axis].is(1)) return x;
  Shape low(axis + 1, 0), high(axis + 1, 0);
  high[axis] = length - x->type.shape[axis];
  RTX_ASSIGN(Value * zero, c.scalar(x->type.dtype, 0));
  return c.emit(Op::pad, {x, zero}, {{"low", low}, {"high", high}});
}

// Sets output 0 and, with the qk output at position 3, that one.
Result<void> attend(Conversion& c, const Decoder& d) {
  const DType dtype = d.q->type.dtype;
  const Dim& size = d.q->type.shape[3];
  if (!size.is_constant()) return c.unsupported("a head size that is not constant");
  RTX_ASSIGN(Value * k, of_beams(c, d, d.k));
  RTX_ASSIGN(Value * v, of_beams(c, d, d.v));
  const Dim length = k->type.shape[2];
  double scale = c.real("scale", 0);
  if (scale == 0) scale = 1 / std::sqrt(static_cast<double>(size.constant()));
  RTX_ASSIGN(Value * factor, c.scalar(dtype, scale));
  RTX_ASSIGN(Value * scores, c.emit(Op::matmul, {d.q, k}, {{"transpose_rhs", true}}));
  RTX_ASSIGN(scores, c.emit(Op::mul, {scores, factor}));
  Dim total = length;
  Value* qk = scores;
  if (c.has(d.mask)) {
    RTX_TRY(c.need_rank(d.mask, 2));
    RTX_ASSIGN(Value * mask, c.input(d.mask));
    total = mask->type.shape[1];
    RTX_ASSIGN(mask, to_length(c, mask, length));
    RTX_ASSIGN(mask, c.cast(mask, DType::boolean));
    RTX_ASSIGN(mask, c.reshape(mask, {mask->type.shape[0], 1, 1, mask->type.shape[1]}));
    RTX_ASSIGN(Value * zero, c.scalar(dtype, 0));
    RTX_ASSIGN(Value * low, c.scalar(dtype, c.real("mask_filter_value", -10000)));
    RTX_ASSIGN(mask, c.emit(Op::select, {mask, zero, low}));
    RTX_ASSIGN(scores, c.emit(Op::add, {scores, mask}));
  }
  if (c.has(d.bias)) {
    RTX_ASSIGN(Value * bias, c.input(d.bias));
    RTX_TRY(c.need_rank(bias, 4));
    if (!c.has(d.mask)) total = bias->type.shape[3];
    RTX_ASSIGN(bias, to_length(c, bias, length));
    RTX_ASSIGN(scores, c.emit(Op::add, {scores, bias}));
  }
  if (d.row_past) {
    // Behind the new key the buffer holds nothing.
    RTX_ASSIGN(Value * position, c.iota(DType::i64, 4, 3, length));
    RTX_ASSIGN(Value * held, c.emit(Op::less_equal, {position, d.row_past}));
    RTX_ASSIGN(Value * low, c.scalar(dtype, -std::numeric_limits<double>::infinity()));
    RTX_ASSIGN(scores, c.emit(Op::select, {held, scores, low}));
  }
  RTX_ASSIGN(Value * weights, attention_softmax(c, scores, false));
  RTX_ASSIGN(Value * y, c.emit(Op::matmul, {weights, v}));
  RTX_ASSIGN(y, merge_heads(c, y));
  c.set(0, y);
  if (!c.wants(3)) return Ok{};
  if (d.row_past) {
    if (!c.has(d.mask) && !c.has(d.bias))
      return c.unsupported("the qk output over a shared buffer without a mask: its length depends on data");
    RTX_ASSIGN(qk, c.slice(qk, 3, 0, total));
  }
  c.set(3, qk);
  return Ok{};
}

// How many keys the cache holds, where it has room for more.
Result<void> read_past_length(Conversion& c, Decoder& d) {
  d.shares_buffer = c.integer("past_present_share_buffer", 0) != 0 && d.past_key;
  if (!d.shares_buffer) return Ok{};
  if (!c.has(d.past_length)) return c.invalid("E221", "past_present_share_buffer needs past_sequence_length");
  RTX_ASSIGN(d.row_past, c.input(d.past_length));
  RTX_ASSIGN(d.row_past, c.cast(d.row_past, DType::i64));
  if (!d.row_past->type.element_count().is(1))
    return c.invalid("E327", "past_sequence_length must have one element").with_got(d.row_past->type.str());
  RTX_ASSIGN(d.row_past, c.reshape(d.row_past, {}));
  return Ok{};
}

// Adds the new row to the cache, where there is one.
Result<void> extend(Conversion& c, Decoder& d) {
  if (!d.past_key) return Ok{};
  RTX_ASSIGN(d.k, with_row(c, d, d.past_key, d.k));
  RTX_ASSIGN(d.v, with_row(c, d, d.past_value, d.v));
  return Ok{};
}

// query, key, value, mask_index, attention_bias, past_key, past_value, past_sequence_length, beam_width,
// cache_indirection, bias
Result<void> decoder_multi_head(Conversion& c) {
  const int64_t heads = c.integer("num_heads", 0);
  if (heads < 1) return c.invalid("E324", "attribute 'num_heads' is missing");
  Decoder d;
  d.mask = 3;
  d.bias = 4;
  d.past_length = 7;
  d.beam_indices = 9;
  RTX_TRY(c.need_rank(size_t{0}, 3));
  RTX_ASSIGN(Value * x, c.input(0));
  if (!x->type.shape[1].is(1) && !c.unify(x->type.shape[1], 1))
    return c.invalid("E327", "the query must have a sequence of 1").with_got(x->type.str());
  RTX_ASSIGN(Value * key, input_or_null(c, 1));
  RTX_ASSIGN(Value * value, input_or_null(c, 2));
  RTX_ASSIGN(d.past_key, input_or_null(c, 5));
  RTX_ASSIGN(d.past_value, input_or_null(c, 6));
  RTX_ASSIGN(Value * bias, input_or_null(c, 10));
  if (bias) RTX_TRY(c.need_rank(bias, 1));
  if (!d.past_key != !d.past_value || (key && !value)) return c.invalid("E221", "keys and values come together");
  d.is_cross = key && key->type.rank() == 4;
  if (d.is_cross) {
    RTX_TRY(c.need_rank(value, 4));
    if (bias) {
      RTX_ASSIGN(bias, c.slice(bias, 0, 0, x->type.shape[2]));
      RTX_ASSIGN(x, c.emit(Op::add, {x, bias}));
    }
    RTX_ASSIGN(d.q, split_heads(c, x, heads));
    d.k = key;
    d.v = value;
  } else {
    Dim hidden = x->type.shape[2], wide = value ? value->type.shape.back() : Dim(0);
    if (!key) {
      // Packed: the size of a value head is that of the cache, or of a key head.
      std::optional<Dim> third = hidden.divided_by(3);
      if (d.past_key && d.past_key->type.rank() == 4 && d.past_value->type.rank() == 4) {
        hidden = d.past_key->type.shape[3] * Dim(heads);
        wide = d.past_value->type.shape[3] * Dim(heads);
      } else if (third) {
        hidden = wide = *third;
      } else {
        return c.invalid("E327", "the packed query does not hold three parts").with_got(x->type.str());
      }
    }
    Value* parts[3] = {};
    const Dim starts[3] = {0, hidden, hidden * Dim(2)}, sizes[3] = {hidden, hidden, wide};
    for (int i = 0; i < 3; ++i) {
      Value* source = !key || i == 0 ? x : i == 1 ? key : value;
      RTX_TRY(c.need_rank(source, 3));
      RTX_ASSIGN(parts[i], c.slice(source, 2, key ? Dim(0) : starts[i], sizes[i]));
      if (bias) {
        RTX_ASSIGN(Value * term, c.slice(bias, 0, starts[i], sizes[i]));
        RTX_ASSIGN(parts[i], c.emit(Op::add, {parts[i], term}));
      }
      RTX_ASSIGN(parts[i], split_heads(c, parts[i], heads));
    }
    d.q = parts[0];
    d.k = parts[1];
    d.v = parts[2];
    RTX_TRY(read_past_length(c, d));
    RTX_TRY(extend(c, d));
  }
  if (c.wants(1)) c.set(1, d.k);
  if (c.wants(2)) c.set(2, d.v);
  return attend(c, d);
}

// input, weights, bias, mask_index, past, attention_bias, past_sequence_length, beam_width, cache_indirection. The
// cache is one tensor, [2, batch, heads, length, size].
Result<void> decoder_self(Conversion& c) {
  const int64_t heads = c.integer("num_heads", 0);
  if (heads < 1) return c.invalid("E324", "attribute 'num_heads' is missing");
  if (c.integer("do_rotary", 0) != 0) return c.unsupported("do_rotary");
  Decoder d;
  d.mask = 3;
  d.bias = 5;
  d.past_length = 6;
  d.beam_indices = 8;
  for (size_t i : {1, 2, 4})
    if (!c.has(i)) return c.invalid("E221", concat("input ", i, " is missing"));
  RTX_TRY(c.need_rank(size_t{0}, 3));
  RTX_TRY(c.need_rank(1, 2));
  RTX_TRY(c.need_rank(2, 1));
  RTX_TRY(c.need_rank(4, 5));
  RTX_ASSIGN(Value * x, c.input(0));
  RTX_ASSIGN(Value * weights, c.input(1));
  RTX_ASSIGN(Value * bias, c.input(2));
  RTX_ASSIGN(Value * past, c.input(4));
  RTX_ASSIGN(x, c.emit(Op::matmul, {x, weights}));
  RTX_ASSIGN(x, c.emit(Op::add, {x, bias}));
  if (!x->type.shape[1].is(1) && !c.unify(x->type.shape[1], 1))
    return c.invalid("E327", "the input must have a sequence of 1").with_got(x->type.str());
  auto hidden = x->type.shape[2].divided_by(3);
  if (!hidden) return c.invalid("E327", "the weights do not hold three equal parts").with_got(x->type.str());
  Value** parts[] = {&d.q, &d.k, &d.v};
  for (int64_t i = 0; i < 3; ++i) {
    RTX_ASSIGN(Value * slice, c.slice(x, 2, *hidden * Dim(i), *hidden));
    RTX_ASSIGN(*parts[i], split_heads(c, slice, heads));
  }
  Value** caches[] = {&d.past_key, &d.past_value};
  for (int64_t i = 0; i < 2; ++i) {
    RTX_ASSIGN(Value * half, c.slice(past, 0, i, 1));
    const Shape shape = half->type.shape;
    RTX_ASSIGN(*caches[i], c.reshape(half, {shape[1], shape[2], shape[3], shape[4]}));
  }
  RTX_TRY(read_past_length(c, d));
  RTX_TRY(extend(c, d));
  if (c.wants(1)) {
    Value* halves[] = {d.k, d.v};
    for (Value*& half : halves) {
      Shape shape = half->type.shape;
      shape.insert(shape.begin(), 1);
      RTX_ASSIGN(half, c.reshape(half, shape));
    }
    RTX_ASSIGN(Value * present, c.emit(Op::concat, {halves[0], halves[1]}, {{"axis", int64_t{0}}}));
    c.set(1, present);
  }
  return attend(c, d);
}

}  // namespace

constinit const Converter decoder_attention_converters[] = {
    {"DecoderMaskedMultiHeadAttention", 1, decoder_multi_head, never,
     "mask_filter_value num_heads output_qk past_present_share_buffer scale", 1, 11, "com.microsoft", 4},
    {"DecoderMaskedSelfAttention", 1, decoder_self, never,
     "do_rotary mask_filter_value num_heads past_present_share_buffer scale", 5, 9, "com.microsoft", 2, 1u << 3},
};
std::span<const Converter> decoder_attention_table() { return decoder_attention_converters; }

}  // namespace rtx::onnx
