// onnxruntime's attention operators (com.microsoft): Attention, MultiHeadAttention, RotaryEmbedding, BiasSoftmax.
//
// Padded keys get mask_filter_value, which is finite, so a row of padding only is the plain softmax of its scores;
// future keys are excluded outright (H56).

#include <cmath>
#include <limits>

#include "frontend/converters/attention_parts.h"
#include "frontend/converters/tables.h"

namespace rtx::onnx {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

// A padding mask in one of its forms, as a condition that broadcasts to [batch, heads, queries, keys].
Result<Value*> keep_condition(Conversion& c, Value* mask, const Dim& batch, const Dim& past, const Dim& queries,
                              const Dim& keys) {
  const Shape shape = mask->type.shape;
  if (shape.size() == 1) {
    RTX_ASSIGN(mask, c.cast(mask, DType::i64));
    RTX_ASSIGN(Value * key, c.iota(DType::i64, 4, 3, keys));
    RTX_ASSIGN(Value * ends, c.slice(mask, 0, 0, batch));
    RTX_ASSIGN(ends, c.reshape(ends, {batch, 1, 1, 1}));
    RTX_ASSIGN(Value * keep, c.emit(Op::less, {key, ends}));
    // [B] are lengths, [3B + 2] lengths and running sums, [2B] ends and starts.
    if (shape[0] != batch * Dim(2)) return keep;
    RTX_ASSIGN(Value * starts, c.slice(mask, 0, batch, batch));
    RTX_ASSIGN(starts, c.reshape(starts, {batch, 1, 1, 1}));
    RTX_ASSIGN(Value * after, c.emit(Op::less_equal, {starts, key}));
    return c.emit(Op::logical_and, {keep, after});
  }
  if (shape.size() < 2 || shape.size() > 4)
    return c.invalid("E327", "the mask has an unknown form").with_got(mask->type.str());
  Value* keep = mask;
  if (shape.size() == 2) {
    RTX_ASSIGN(keep, c.reshape(keep, {shape[0], 1, 1, shape[1]}));
  } else if (shape.size() == 3) {
    RTX_ASSIGN(keep, c.reshape(keep, {shape[0], 1, shape[1], shape[2]}));
  } else {
    // The old Megatron form, [B, 1, M, M]: the rows of these queries and the keys so far.
    RTX_ASSIGN(keep, c.slice(keep, 2, past, queries));
    RTX_ASSIGN(keep, c.slice(keep, 3, 0, keys));
  }
  return c.cast(keep, DType::boolean);
}

struct Heads {
  Value *q = nullptr, *k = nullptr, *v = nullptr;  // [batch, heads, sequence, size]
  Dim past = 0;
};

// scores, mask, softmax and product, shared by Attention and MultiHeadAttention.
Result<Value*> attend(Conversion& c, const Heads& heads, Value* padding, Value* bias, Value** scores_out) {
  DType dtype = heads.q->type.dtype;
  const Dim& size = heads.q->type.shape[3];
  if (!size.is_constant()) return c.unsupported("a head size that is not constant");
  double scale = c.real("scale", 0);
  if (scale == 0) scale = 1 / std::sqrt(static_cast<double>(size.constant()));
  RTX_ASSIGN(Value * factor, c.scalar(dtype, scale));
  RTX_ASSIGN(Value * scores, c.emit(Op::matmul, {heads.q, heads.k}, {{"transpose_rhs", true}}));
  RTX_ASSIGN(scores, c.emit(Op::mul, {scores, factor}));
  if (scores_out) *scores_out = scores;
  Dim batch = scores->type.shape[0], queries = scores->type.shape[2], keys = scores->type.shape[3];
  if (padding) {
    RTX_ASSIGN(Value * keep, keep_condition(c, padding, batch, heads.past, queries, keys));
    RTX_ASSIGN(Value * zero, c.scalar(dtype, 0));
    RTX_ASSIGN(Value * low, c.scalar(dtype, c.real("mask_filter_value", -10000)));
    RTX_ASSIGN(Value * term, c.emit(Op::select, {keep, zero, low}));
    RTX_ASSIGN(scores, c.emit(Op::add, {scores, term}));
  }
  AttentionMask mask;
  if (bias) {
    RTX_TRY(mask.add(c, bias));
  }
  if (c.integer("unidirectional", 0) != 0) {
    // The last query sees every key, also where the keys are a whole cache that is given as `key`.
    const Dim offset = max_in_ranges(heads.past, keys - queries, c.ranges());
    RTX_ASSIGN(Value * position, c.dim_scalar(offset));
    RTX_TRY(mask.allow_window(c, position, queries, keys, -1, 0));
  }
  RTX_ASSIGN(scores, mask.apply(c, scores, -infinity));
  RTX_ASSIGN(Value * weights, attention_softmax(c, scores, bias != nullptr));
  RTX_ASSIGN(Value * y, c.emit(Op::matmul, {weights, heads.v}));
  return merge_heads(c, y);
}

Result<Value*> optional_input(Conversion& c, size_t index) {
  // Some writers pass an empty tensor for "not given".
  if (!c.has(index) || c.type(index).element_count().is(0)) return static_cast<Value*>(nullptr);
  return c.input(index);
}

// Part `index` of a tensor that packs several along `axis`, without that axis.
Result<Value*> unpacked(Conversion& c, Value* packed, int axis, int64_t index) {
  RTX_ASSIGN(Value * part, c.slice(packed, axis, index, 1));
  Shape shape = part->type.shape;
  shape.erase(shape.begin() + axis);
  return c.reshape(part, std::move(shape));
}

// ---- Attention: input, weights, bias, mask_index, past, attention_bias

Result<void> attention(Conversion& c) {
  int64_t heads = c.integer("num_heads", 0);
  if (heads < 1) return c.invalid("E324", "attribute 'num_heads' is missing");
  if (c.integer("do_rotary", 0) != 0) return c.unsupported("do_rotary");
  if (c.integer("past_present_share_buffer", 0) != 0) return c.unsupported("past_present_share_buffer");
  RTX_ASSIGN(Value * x, c.input(0));
  RTX_ASSIGN(Value * weights, c.input(1));
  if (x->type.rank() != 3 || weights->type.rank() != 2)
    return c.invalid("E327", "Attention needs an input of rank 3 and weights of rank 2");
  RTX_ASSIGN(Value * qkv, c.emit(Op::matmul, {x, weights}));
  RTX_ASSIGN(Value * bias, optional_input(c, 2));
  if (bias) {
    RTX_ASSIGN(qkv, c.emit(Op::add, {qkv, bias}));
  }
  std::vector<int64_t> sizes = c.integer_list("qkv_hidden_sizes").value_or(std::vector<int64_t>{});
  return attend_projection(c, qkv, std::move(sizes), 3, 4, 5);
}

}  // namespace

Result<void> attend_projection(Conversion& c, Value* qkv, std::vector<int64_t> sizes, size_t mask_index,
                               size_t past_index, size_t bias_index) {
  int64_t heads = c.integer("num_heads", 0);
  if (sizes.empty()) {
    auto third = qkv->type.shape[2].divided_by(3);
    if (!third || !third->is_constant()) return c.invalid("E327", "the weights do not hold three equal parts");
    sizes.assign(3, third->constant());
  }
  if (sizes.size() != 3) return c.invalid("E324", "qkv_hidden_sizes needs three entries");
  Heads h;
  Value** parts[] = {&h.q, &h.k, &h.v};
  int64_t start = 0;
  for (size_t i = 0; i < 3; ++i) {
    RTX_ASSIGN(Value * part, c.slice(qkv, 2, start, sizes[i]));
    RTX_ASSIGN(*parts[i], split_heads(c, part, heads));
    start += sizes[i];
  }
  if (c.has(past_index)) {
    RTX_ASSIGN(Value * past, c.input(past_index));
    if (past->type.rank() != 5) return c.invalid("E327", "past must have rank 5").with_got(past->type.str());
    h.past = past->type.shape[3];
    RTX_ASSIGN(Value * past_key, unpacked(c, past, 0, 0));
    RTX_ASSIGN(Value * past_value, unpacked(c, past, 0, 1));
    RTX_ASSIGN(h.k, c.emit(Op::concat, {past_key, h.k}, {{"axis", int64_t{2}}}));
    RTX_ASSIGN(h.v, c.emit(Op::concat, {past_value, h.v}, {{"axis", int64_t{2}}}));
  }
  if (c.wants(1)) {
    Shape stacked = h.k->type.shape;
    stacked.insert(stacked.begin(), 1);
    RTX_ASSIGN(Value * key, c.reshape(h.k, stacked));
    RTX_ASSIGN(Value * value, c.reshape(h.v, stacked));
    RTX_ASSIGN(Value * present, c.emit(Op::concat, {key, value}, {{"axis", int64_t{0}}}));
    c.set(1, present);
  }
  RTX_ASSIGN(Value * padding, optional_input(c, mask_index));
  RTX_ASSIGN(Value * attention_bias, optional_input(c, bias_index));
  RTX_ASSIGN(Value * y, attend(c, h, padding, attention_bias, nullptr));
  c.set(0, y);
  return Ok{};
}

namespace {

// ---- MultiHeadAttention: query, key, value, bias, key_padding_mask, attention_bias, past_key, past_value

// Adds part `which` of the bias (Q, K, V one after the other) to x [batch, sequence, hidden].
Result<Value*> with_bias(Conversion& c, Value* x, Value* bias, const Dim& start) {
  if (!bias) return x;
  RTX_TRY(c.need_rank(x, 3));
  RTX_ASSIGN(Value * part, c.slice(bias, 0, start, x->type.shape[2]));
  return c.emit(Op::add, {x, part});
}

Result<void> multi_head_attention(Conversion& c) {
  int64_t heads = c.integer("num_heads", 0);
  if (heads < 1) return c.invalid("E324", "attribute 'num_heads' is missing");
  if (c.has(8) || c.has(9)) return c.unsupported("past_sequence_length or cache_indirection");
  RTX_ASSIGN(Value * query, c.input(0));
  RTX_ASSIGN(Value * key, optional_input(c, 1));
  RTX_ASSIGN(Value * value, optional_input(c, 2));
  RTX_ASSIGN(Value * bias, optional_input(c, 3));
  Heads h;
  if (query->type.rank() == 5) {
    // [batch, sequence, heads, 3, size]
    if (bias) return c.unsupported("a bias with packed query, key and value");
    Value** parts[] = {&h.q, &h.k, &h.v};
    for (int64_t i = 0; i < 3; ++i) {
      RTX_ASSIGN(Value * part, unpacked(c, query, 3, i));
      RTX_ASSIGN(*parts[i], c.transpose(part, {0, 2, 1, 3}));
    }
  } else {
    if (!key) return c.invalid("E221", "key is missing");
    Dim hidden = query->type.rank() == 3 ? query->type.shape[2] : Dim(0);
    RTX_ASSIGN(query, with_bias(c, query, bias, 0));
    RTX_ASSIGN(h.q, split_heads(c, query, heads));
    if (key->type.rank() == 5) {
      RTX_ASSIGN(h.k, unpacked(c, key, 3, 0));
      RTX_ASSIGN(h.v, unpacked(c, key, 3, 1));
      RTX_ASSIGN(h.k, c.transpose(h.k, {0, 2, 1, 3}));
      RTX_ASSIGN(h.v, c.transpose(h.v, {0, 2, 1, 3}));
    } else {
      if (!value) return c.invalid("E221", "value is missing");
      if (key->type.rank() == 4) {
        h.k = key;
        h.v = value;
      } else {
        RTX_ASSIGN(key, with_bias(c, key, bias, hidden));
        RTX_ASSIGN(value, with_bias(c, value, bias, hidden * Dim(2)));
        RTX_ASSIGN(h.k, split_heads(c, key, heads));
        RTX_ASSIGN(h.v, split_heads(c, value, heads));
      }
    }
  }
  if (c.has(6) && c.has(7)) {
    RTX_ASSIGN(Value * past_key, c.input(6));
    RTX_ASSIGN(Value * past_value, c.input(7));
    if (past_key->type.rank() != 4)
      return c.invalid("E327", "past_key must have rank 4").with_got(past_key->type.str());
    h.past = past_key->type.shape[2];
    RTX_ASSIGN(h.k, c.emit(Op::concat, {past_key, h.k}, {{"axis", int64_t{2}}}));
    RTX_ASSIGN(h.v, c.emit(Op::concat, {past_value, h.v}, {{"axis", int64_t{2}}}));
  }
  if (c.wants(1)) c.set(1, h.k);
  if (c.wants(2)) c.set(2, h.v);
  RTX_ASSIGN(Value * padding, optional_input(c, 4));
  RTX_ASSIGN(Value * attention_bias, optional_input(c, 5));
  Value* scores = nullptr;
  RTX_ASSIGN(Value * y, attend(c, h, padding, attention_bias, &scores));
  c.set(0, y);
  if (c.wants(3)) c.set(3, scores);
  return Ok{};
}

// ---- RotaryEmbedding: input, position_ids, cos_cache, sin_cache. One position is the start, [B, S] are all of them.

Result<void> rotary_embedding(Conversion& c) {
  RTX_ASSIGN(Value * x, c.input(0));
  RTX_ASSIGN(Value * positions, c.input(1));
  RTX_ASSIGN(Value * cos, c.input(2));
  RTX_ASSIGN(Value * sin, c.input(3));
  if (cos->type.rank() != 2 || !cos->type.shape[1].is_constant())
    return c.invalid("E327", "cos_cache must have rank 2").with_got(cos->type.str());
  RTX_TRY(c.need_rank(3, 2));
  if (c.rank(1) != 1) RTX_TRY(c.need_rank(1, 2));
  if (c.real("scale", 1) != 1) c.warn("W207", "the scale of RotaryEmbedding is ignored, as onnxruntime does");
  int64_t half = cos->type.shape[1].constant(), rotary = c.integer("rotary_embedding_dim", 0);
  bool from_3d = x->type.rank() == 3;
  if (rotary == 0) rotary = 2 * half;
  if (from_3d) {
    int64_t heads = c.integer("num_heads", 0);
    if (heads == 0) {
      auto fitting = x->type.shape[2].divided_by(rotary);
      if (!fitting || !fitting->is_constant()) return c.invalid("E324", "attribute 'num_heads' is missing");
      heads = fitting->constant();
    }
    RTX_ASSIGN(x, split_heads(c, x, heads));
  }
  if (x->type.rank() != 4) return c.invalid("E327", "the input must have rank 3 or 4").with_got(x->type.str());
  if (positions->type.rank() == 1) {
    RTX_ASSIGN(Value * index, c.iota(positions->type.dtype, 1, 0, x->type.shape[2]));
    RTX_ASSIGN(positions, c.emit(Op::add, {index, positions}));
    RTX_ASSIGN(positions, c.reshape(positions, {1, positions->type.shape[0]}));
  }
  Value** caches[] = {&cos, &sin};
  for (Value** cache : caches) {
    RTX_ASSIGN(*cache, c.emit(Op::gather, {*cache, positions}, {{"axis", int64_t{0}}}));
    const Shape shape = (*cache)->type.shape;
    RTX_ASSIGN(*cache, c.reshape(*cache, {shape[0], 1, shape[1], shape[2]}));
  }
  RTX_ASSIGN(Value * y, rotate(c, x, cos, sin, rotary, c.integer("interleaved", 0) != 0));
  if (from_3d) {
    RTX_ASSIGN(y, merge_heads(c, y));
  }
  c.set(0, y);
  return Ok{};
}

// softmax(x + bias) over everything from `axis` on; with is_inner_broadcast the bias broadcasts over inner axes.
Result<void> bias_softmax(Conversion& c) {
  RTX_ASSIGN(int axis, c.axis(c.integer("axis", 1), c.rank(0)));
  RTX_ASSIGN(Value * x, c.input(0));
  RTX_ASSIGN(Value * bias, c.input(1));
  RTX_ASSIGN(Value * y, c.emit(Op::add, {x, bias}));
  Shape shape = y->type.shape;
  Dim row = 1;
  for (size_t i = axis; i < shape.size(); ++i) row = row * shape[i];
  Shape flat(shape.begin(), shape.begin() + axis);
  flat.push_back(row);
  RTX_ASSIGN(y, c.reshape(y, std::move(flat)));
  RTX_ASSIGN(y, c.emit(Op::softmax, {y}, {{"axis", static_cast<int64_t>(axis)}}));
  RTX_ASSIGN(y, c.reshape(y, std::move(shape)));
  c.set(0, y);
  return Ok{};
}

constexpr std::string_view microsoft = "com.microsoft";

}  // namespace

constinit const Converter contrib_attention_converters[] = {
    {"Attention", 1, attention, never,
     "num_heads unidirectional qkv_hidden_sizes mask_filter_value scale do_rotary rotary_embedding_dim "
     "past_present_share_buffer",
     2, 7, microsoft, 2},
    {"MultiHeadAttention", 1, multi_head_attention, never, "num_heads mask_filter_value scale unidirectional", 1, 10,
     microsoft, 4},
    {"RotaryEmbedding", 1, rotary_embedding, never,
     "interleaved is_packed_batching num_heads rotary_embedding_dim scale", 4, 4, microsoft},
    {"BiasSoftmax", 1, bias_softmax, never, "axis is_inner_broadcast", 2, 2, microsoft},
};
std::span<const Converter> contrib_attention_table() { return contrib_attention_converters; }

}  // namespace rtx::onnx
