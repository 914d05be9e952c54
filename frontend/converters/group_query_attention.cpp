// com.microsoft.GroupQueryAttention: causal attention with shared key/value heads over a cache whose rows may be filled
// to different lengths.
//
// Row b holds seqlens_k[b] + 1 keys once the new ones are in, so its past is L = max(0, seqlens_k[b] + 1 - S): the
// maximum is for right-padded prompts. The present cache has the new keys at L .. L + S - 1, the past before them.

#include <cmath>
#include <limits>

#include "frontend/converters/attention_parts.h"
#include "frontend/converters/quantization_parts.h"
#include "frontend/converters/tables.h"

namespace rtx::onnx {
namespace {

enum Input : size_t {
  query,
  key,
  value,
  past_key,
  past_value,
  seqlens_k,
  total_length,
  cos_cache,
  sin_cache,
  position_ids,
  attention_bias,
  head_sink,
  k_scale,
  v_scale,
  q_norm,
  k_norm
};

bool given(Conversion& c, size_t index) { return c.has(index) && !c.type(index).element_count().is(0); }

// The cache after the new rows are written: [batch, heads, length, size]. `row_past` is i64 [batch, 1, 1, 1].
Result<Value*> updated_cache(Conversion& c, Value* past, Value* added, Value* row_past, const Dim& length) {
  Shape shape = added->type.shape;
  Dim new_rows = shape[2];
  // Nothing before the new rows: they are the cache.
  if (!past && new_rows == length) return added;
  Shape wanted = {shape[0], shape[1], length, shape[3]};
  RTX_ASSIGN(Value * row, c.iota(DType::i64, 4, 2, length));
  RTX_ASSIGN(Value * index, c.emit(Op::sub, {row, row_past}));
  RTX_ASSIGN(Value * zero, c.scalar(DType::i64, 0));
  RTX_ASSIGN(Value * count, c.dim_scalar(new_rows));
  RTX_ASSIGN(Value * after, c.emit(Op::less_equal, {zero, index}));
  RTX_ASSIGN(Value * before_end, c.emit(Op::less, {index, count}));
  RTX_ASSIGN(Value * is_new, c.emit(Op::logical_and, {after, before_end}));
  RTX_ASSIGN(index, c.emit(Op::maximum, {index, zero}));
  RTX_ASSIGN(index, c.broadcast(index, wanted));
  RTX_ASSIGN(Value * fresh, c.emit(Op::gather_elements, {added, index}, {{"axis", int64_t{2}}}));
  Value* old = nullptr;
  if (past && past->type.shape[2] == length) {
    old = past;
  } else {
    RTX_ASSIGN(old, c.scalar(added->type.dtype, 0));
    if (past) {
      Shape low(4, 0), high(4, 0);
      high[2] = length - past->type.shape[2];
      RTX_ASSIGN(old, c.emit(Op::pad, {past, old}, {{"low", low}, {"high", high}}));
    }
  }
  return c.emit(Op::select, {is_new, fresh, old});
}

// How a cache of keys or values is stored: in the type of the query, or quantised by a scale that broadcasts to the
// cache. Integers are signed; two of 4 bits share a byte of the last axis, low half first, with 8 added to each.
struct CacheForm {
  DType stored;
  int64_t bits = 0;  // 0: not quantised
  Quantization by;

  bool packs() const { return bits == 4; }

  // New rows, as the cache holds them.
  Result<Value*> store(Conversion& c, Value* x) const {
    if (bits == 0) return x;
    RTX_ASSIGN(x, quantized(c, x, by, packs() ? DType::u4 : stored));
    if (!packs()) return x;
    Shape pairs = x->type.shape, bytes;
    auto half = pairs.back().divided_by(2);
    if (!half) return c.invalid("E321", "4-bit values need an even head size");
    pairs.back() = *half;
    bytes = pairs;
    pairs.push_back(2);
    RTX_ASSIGN(x, c.cast(x, DType::i32));
    RTX_ASSIGN(x, c.reshape(x, std::move(pairs)));
    RTX_ASSIGN(Value * low, c.slice(x, 4, 0, 1));
    RTX_ASSIGN(Value * high, c.slice(x, 4, 1, 1));
    RTX_ASSIGN(Value * sixteen, c.scalar(DType::i32, 16));
    RTX_ASSIGN(high, c.emit(Op::mul, {high, sixteen}));
    RTX_ASSIGN(x, c.emit(Op::add, {low, high}));
    RTX_ASSIGN(x, c.cast(x, DType::u8));
    return c.reshape(x, std::move(bytes));
  }

  // The cache as the attention reads it.
  Result<Value*> load(Conversion& c, Value* cache, DType dtype) const {
    if (bits == 0) return cache;
    if (!packs()) return dequantized(c, cache, by, dtype);
    RTX_ASSIGN(cache, c.emit(Op::unpack_bits, {cache}, {{"bits", bits}}));
    Quantization unsigned_form = by;
    RTX_ASSIGN(unsigned_form.zero, c.cast(by.zero, DType::u8));
    return dequantized(c, cache, unsigned_form, dtype);
  }
};

// Of the cache in input `past`, whose scale is input `scale_index` and whose kind the attribute `kind` names. `sample`
// is the new keys or values, [batch, heads, sequence, size].
Result<CacheForm> cache_form(Conversion& c, size_t past, size_t scale_index, std::string_view kind,
                             const Value* sample) {
  const std::string type = c.string(kind, "NONE");
  CacheForm form{sample->type.dtype, 0, {}};
  if (type != "NONE" && type != "PER_TENSOR" && type != "PER_CHANNEL")
    return c.invalid("E321", concat("attribute '", kind, "' is ", escape_text(type)));
  if (type == "NONE") {
    if (given(c, scale_index)) return c.invalid("E321", concat("a scale of the cache with ", kind, " NONE"));
    return form;
  }
  if (!given(c, scale_index)) return c.invalid("E221", concat(kind, " ", type, " needs a scale"));
  if (!c.has(past)) return c.unsupported("a quantised cache without past inputs, which give its type");
  form.stored = c.type(past).dtype;
  const bool real = form.stored == DType::f8e4m3;
  if (!real && form.stored != DType::i8 && form.stored != DType::u8)
    return c.unsupported(concat("a quantised cache of ", to_string(form.stored)));
  form.bits = real ? 8 : c.integer("kv_cache_bit_width", form.stored == DType::u8 ? 4 : 8);
  if (form.bits != (form.stored == DType::u8 ? 4 : 8))
    return c.unsupported(concat("kv_cache_bit_width ", form.bits, " with a cache of ", to_string(form.stored)));
  RTX_ASSIGN(Value * scale, c.input(scale_index));
  const Shape shape = sample->type.shape;
  Shape full(4, 1);
  if (scale->type.element_count() == shape[1] * shape[3]) {
    full = {1, shape[1], 1, shape[3]};
  } else if (!scale->type.element_count().is(1)) {
    return c.invalid("E327", "a scale of the cache has neither one element nor one for each channel")
        .with_got(scale->type.str());
  }
  RTX_ASSIGN(form.by.scale, c.reshape(scale, std::move(full)));
  if (form.packs()) {
    RTX_ASSIGN(form.by.zero, c.scalar(DType::u4, 8));
  }
  return form;
}

// Query, key and value as [batch, heads, sequence, size]; key and value may be packed behind the query.
Result<void> project(Conversion& c, int64_t heads, int64_t kv_heads, Value** q, Value** k, Value** v) {
  RTX_ASSIGN(*q, c.input(query));
  if ((*q)->type.rank() != 3) return c.invalid("E327", "query must have rank 3").with_got((*q)->type.str());
  if (given(c, key)) {
    RTX_ASSIGN(*k, c.input(key));
    RTX_ASSIGN(*v, c.input(value));
  } else {
    auto size = (*q)->type.shape[2].divided_by(heads + 2 * kv_heads);
    if (!size) return c.invalid("E321", "the packed query does not hold the heads");
    Value* packed = *q;
    Dim q_size = *size * Dim(heads), kv_size = *size * Dim(kv_heads);
    RTX_ASSIGN(*q, c.slice(packed, 2, 0, q_size));
    RTX_ASSIGN(*k, c.slice(packed, 2, q_size, kv_size));
    RTX_ASSIGN(*v, c.slice(packed, 2, q_size + kv_size, kv_size));
  }
  RTX_ASSIGN(*q, split_heads(c, *q, heads));
  RTX_ASSIGN(*k, split_heads(c, *k, kv_heads));
  RTX_ASSIGN(*v, split_heads(c, *v, kv_heads));
  return Ok{};
}

// Turns q and k at the given positions, or each row at its own length.
Result<void> turn(Conversion& c, Value* row_past, Value** q, Value** k) {
  RTX_ASSIGN(Value * cos, c.input(cos_cache));
  RTX_ASSIGN(Value * sin, c.input(sin_cache));
  if (cos->type.rank() != 2 || !cos->type.shape[1].is_constant())
    return c.invalid("E327", "cos_cache must have rank 2").with_got(cos->type.str());
  RTX_TRY(c.need_rank(sin_cache, 2));
  int64_t rotary = 2 * cos->type.shape[1].constant();
  Value* positions = nullptr;
  if (given(c, position_ids)) {
    RTX_TRY(c.need_rank(position_ids, 2));
    RTX_ASSIGN(positions, c.input(position_ids));
  } else {
    RTX_ASSIGN(Value * step, c.iota(DType::i64, 2, 1, (*q)->type.shape[2]));
    RTX_ASSIGN(Value * start, c.reshape(row_past, {row_past->type.shape[0], 1}));
    RTX_ASSIGN(positions, c.emit(Op::add, {step, start}));
  }
  for (Value** cache : {&cos, &sin}) {
    RTX_ASSIGN(*cache, c.emit(Op::gather, {*cache, positions}, {{"axis", int64_t{0}}}));
    const Shape shape = (*cache)->type.shape;
    RTX_ASSIGN(*cache, c.reshape(*cache, {shape[0], 1, shape[1], shape[2]}));
  }
  bool interleaved = c.integer("rotary_interleaved", 0) != 0;
  RTX_ASSIGN(*q, rotate(c, *q, cos, sin, rotary, interleaved));
  RTX_ASSIGN(*k, rotate(c, *k, cos, sin, rotary, interleaved));
  return Ok{};
}

// softmax over the keys and one more term for each head, which takes weight and gives nothing.
Result<Value*> softmax_with_sink(Conversion& c, Value* scores, int64_t heads) {
  Shape column = scores->type.shape;
  Dim keys = column[3];
  column[3] = 1;
  Value* sink = nullptr;
  if (given(c, head_sink)) {
    RTX_ASSIGN(sink, c.input(head_sink));
    RTX_ASSIGN(sink, c.cast(sink, scores->type.dtype));
    RTX_ASSIGN(sink, c.reshape(sink, {1, heads, 1, 1}));
  } else {
    RTX_ASSIGN(sink, c.scalar(scores->type.dtype, 0));
  }
  RTX_ASSIGN(sink, c.broadcast(sink, column));
  RTX_ASSIGN(Value * all, c.emit(Op::concat, {scores, sink}, {{"axis", int64_t{3}}}));
  RTX_ASSIGN(all, c.emit(Op::softmax, {all}, {{"axis", int64_t{3}}}));
  return c.slice(all, 3, 0, keys);
}

Result<void> group_query_attention(Conversion& c) {
  int64_t heads = c.integer("num_heads", 0), kv_heads = c.integer("kv_num_heads", 0);
  if (heads < 1 || kv_heads < 1) return c.invalid("E324", "attribute 'num_heads' or 'kv_num_heads' is missing");
  for (size_t i : {q_norm, k_norm})
    if (given(c, i)) return c.unsupported("norms of query and key inside the operator");
  Value *q = nullptr, *k = nullptr, *v = nullptr;
  RTX_TRY(project(c, heads, kv_heads, &q, &k, &v));
  Dim batch = q->type.shape[0], queries = q->type.shape[2];
  const Dim& size = q->type.shape[3];
  if (!size.is_constant()) return c.unsupported("a head size that is not constant");

  // seqlens_k + 1 keys in each row; L of them are past.
  RTX_ASSIGN(Value * lengths, c.input(seqlens_k));
  RTX_ASSIGN(lengths, c.cast(lengths, DType::i64));
  RTX_ASSIGN(lengths, c.reshape(lengths, {lengths->type.element_count(), 1, 1, 1}));
  RTX_ASSIGN(Value * one, c.scalar(DType::i64, 1));
  RTX_ASSIGN(lengths, c.emit(Op::add, {lengths, one}));
  RTX_ASSIGN(Value * count, c.dim_scalar(queries));
  RTX_ASSIGN(Value * row_past, c.emit(Op::sub, {lengths, count}));
  RTX_ASSIGN(Value * zero, c.scalar(DType::i64, 0));
  RTX_ASSIGN(row_past, c.emit(Op::maximum, {row_past, zero}));

  if (c.integer("do_rotary", 0) != 0) RTX_TRY(turn(c, row_past, &q, &k));

  // The cache grows to total_sequence_length, unless its buffers are larger already.
  RTX_ASSIGN(std::vector<Dim> total, c.dims(total_length));
  if (total.size() != 1) return c.invalid("E327", "total_sequence_length must have one element");
  Value *old_key = nullptr, *old_value = nullptr;
  Dim length = total[0];
  if (given(c, past_key) && given(c, past_value)) {
    RTX_ASSIGN(old_key, c.input(past_key));
    RTX_ASSIGN(old_value, c.input(past_value));
    RTX_TRY(c.need_rank(past_key, 4));
    RTX_TRY(c.need_rank(past_value, 4));
    length = max_in_ranges(length, old_key->type.shape[2], c.ranges());
  }
  RTX_ASSIGN(const CacheForm k_form, cache_form(c, past_key, k_scale, "k_quant_type", k));
  RTX_ASSIGN(const CacheForm v_form, cache_form(c, past_value, v_scale, "v_quant_type", v));
  RTX_ASSIGN(k, k_form.store(c, k));
  RTX_ASSIGN(v, v_form.store(c, v));
  RTX_ASSIGN(k, updated_cache(c, old_key, k, row_past, length));
  RTX_ASSIGN(v, updated_cache(c, old_value, v, row_past, length));
  if (c.wants(1)) c.set(1, k);
  if (c.wants(2)) c.set(2, v);
  RTX_ASSIGN(k, k_form.load(c, k, q->type.dtype));
  RTX_ASSIGN(v, v_form.load(c, v, q->type.dtype));
  RTX_ASSIGN(k, repeat_heads(c, k, heads));
  RTX_ASSIGN(v, repeat_heads(c, v, heads));

  DType dtype = q->type.dtype;
  double scale = c.real("scale", 0);
  if (scale == 0) scale = 1 / std::sqrt(static_cast<double>(size.constant()));
  RTX_ASSIGN(Value * factor, c.scalar(dtype, scale));
  RTX_ASSIGN(Value * scores, c.emit(Op::matmul, {q, k}, {{"transpose_rhs", true}}));
  RTX_ASSIGN(scores, c.emit(Op::mul, {scores, factor}));
  if (double cap = c.real("softcap", 0); cap > 0) {
    RTX_ASSIGN(Value * limit, c.scalar(dtype, cap));
    RTX_ASSIGN(scores, c.emit(Op::div, {scores, limit}));
    RTX_ASSIGN(scores, c.emit(Op::tanh, {scores}));
    RTX_ASSIGN(scores, c.emit(Op::mul, {scores, limit}));
  }
  AttentionMask mask;
  if (given(c, attention_bias)) {
    RTX_ASSIGN(Value * bias, c.input(attention_bias));
    if (bias->type.rank() == 4 && bias->type.shape[3] != length && bias->type.shape[3].is_constant() &&
        length.is_constant() && bias->type.shape[3].constant() < length.constant()) {
      Shape low(4, 0), high(4, 0);
      high[3] = length - bias->type.shape[3];
      RTX_ASSIGN(Value * fill, c.scalar(bias->type.dtype, 0));
      RTX_ASSIGN(bias, c.emit(Op::pad, {bias, fill}, {{"low", low}, {"high", high}}));
    }
    RTX_TRY(mask.add(c, bias));
  }
  int64_t window = c.integer("local_window_size", -1);
  if (c.integer("causal", 1) != 0) {
    // A window of w keys: the query's own and w - 1 before it.
    RTX_TRY(mask.allow_window(c, row_past, queries, length, window > 0 ? window - 1 : -1, 0));
  } else {
    RTX_ASSIGN(Value * flat, c.reshape(lengths, {batch}));
    RTX_TRY(mask.allow_before(c, flat, length));
  }
  RTX_ASSIGN(scores, mask.apply(c, scores, -std::numeric_limits<double>::infinity()));
  Value* weights = nullptr;
  if (given(c, head_sink) || c.integer("smooth_softmax", 0) == 1) {
    RTX_ASSIGN(weights, softmax_with_sink(c, scores, heads));
  } else {
    RTX_ASSIGN(weights, attention_softmax(c, scores, given(c, attention_bias)));
  }
  RTX_ASSIGN(Value * y, c.emit(Op::matmul, {weights, v}));
  RTX_ASSIGN(y, merge_heads(c, y));
  c.set(0, y);
  if (c.wants(3)) return c.unsupported("the qk output");
  return Ok{};
}

}  // namespace

constinit const Converter group_query_attention_converters[] = {
    {"GroupQueryAttention", 1, group_query_attention, never,
     "num_heads kv_num_heads scale softcap local_window_size do_rotary rotary_interleaved smooth_softmax causal "
     "qk_output "
     "k_quant_type v_quant_type kv_cache_bit_width",
     7, 16, "com.microsoft", 4, 1u << 1 | 1u << 2 | 1u << 3 | 1u << 4},
};
std::span<const Converter> group_query_attention_table() { return group_query_attention_converters; }

}  // namespace rtx::onnx
