// Pieces that the attention operators of ONNX and of onnxruntime share. Tensors are [batch, heads, sequence, size].
#pragma once

#include "frontend/conversion.h"

namespace rtx::onnx {

// [batch, sequence, heads * size] -> [batch, heads, sequence, size]
Result<Value*> split_heads(Conversion& c, Value* x, int64_t heads);
// The inverse.
Result<Value*> merge_heads(Conversion& c, Value* x);
// Repeats each key/value head in place, so that there is one for each query head (grouped-query attention).
Result<Value*> repeat_heads(Conversion& c, Value* x, int64_t heads);

// Which keys a query may see, as conditions that are combined with `and`, and a float bias; each broadcasts to
// [batch, heads, queries, keys].
class AttentionMask {
 public:
  Result<void> allow(Conversion& c, Value* condition);
  // Query i is at position i + offset: it sees keys at most `right` after and `left` before it (-1: no limit).
  // `offset` is a rank-0 i64 value or [batch, 1, 1, 1].
  Result<void> allow_window(Conversion& c, Value* offset, const Dim& queries, const Dim& keys, int64_t left,
                            int64_t right);
  // Keys before `lengths`, i64 [batch].
  Result<void> allow_before(Conversion& c, Value* lengths, const Dim& keys);
  Result<void> add(Conversion& c, Value* bias);
  bool empty() const { return !allowed_ && !bias_; }
  // scores + bias, and `masked` (-inf unless given) added where a key is not allowed.
  Result<Value*> apply(Conversion& c, Value* scores, double masked) const;

 private:
  Value* allowed_ = nullptr;
  Value* bias_ = nullptr;
};

// softmax over the last axis. With `guard`, a row of -inf gives zeros instead of NaN.
Result<Value*> attention_softmax(Conversion& c, Value* scores, bool guard);

// What com.microsoft.Attention does with its projection qkv [batch, sequence, q + k + v]: past and mask from the inputs
// of these numbers, present and output set. `sizes` of q, k and v; empty: three equal parts.
Result<void> attend_projection(Conversion& c, Value* qkv, std::vector<int64_t> sizes, size_t mask_index,
                               size_t past_index, size_t bias_index);

// Rotates the first `rotary` elements of each head of x [batch, heads, sequence, size] by cos and sin
// [batch or 1, 1, sequence, rotary / 2], in halves or in interleaved pairs.
Result<Value*> rotate(Conversion& c, Value* x, Value* cos, Value* sin, int64_t rotary, bool interleaved);

}  // namespace rtx::onnx
