#include "frontend/converters/attention_parts.h"

#include <limits>

#include "base/text.h"

namespace rtx::onnx {

Result<Value*> split_heads(Conversion& c, Value* x, int64_t heads) {
  Shape shape = x->type.shape;
  if (shape.size() != 3) return c.invalid("E327", "the input must have rank 3").with_got(x->type.str());
  auto size = heads > 0 ? shape[2].divided_by(heads) : std::nullopt;
  if (!size) return c.invalid("E321", concat(heads, " heads do not divide the hidden size ", shape[2].str()));
  RTX_ASSIGN(x, c.reshape(x, {shape[0], shape[1], heads, *size}));
  return c.transpose(x, {0, 2, 1, 3});
}

Result<Value*> merge_heads(Conversion& c, Value* x) {
  RTX_ASSIGN(x, c.transpose(x, {0, 2, 1, 3}));
  const Shape& shape = x->type.shape;
  return c.reshape(x, {shape[0], shape[1], shape[2] * shape[3]});
}

Result<Value*> repeat_heads(Conversion& c, Value* x, int64_t heads) {
  Shape shape = x->type.shape;
  if (shape.size() != 4) return c.invalid("E327", "the input must have rank 4").with_got(x->type.str());
  if (shape[1].is(heads)) return x;
  if (!shape[1].is_constant() || shape[1].constant() < 1 || heads % shape[1].constant() != 0)
    return c.invalid("E321", concat(shape[1].str(), " key heads do not divide ", heads, " query heads"));
  int64_t group = heads / shape[1].constant();
  RTX_ASSIGN(x, c.reshape(x, {shape[0], shape[1], 1, shape[2], shape[3]}));
  RTX_ASSIGN(x, c.broadcast(x, {shape[0], shape[1], group, shape[2], shape[3]}));
  return c.reshape(x, {shape[0], heads, shape[2], shape[3]});
}

Result<void> AttentionMask::allow(Conversion& c, Value* condition) {
  if (!allowed_) {
    allowed_ = condition;
  } else {
    RTX_ASSIGN(allowed_, c.emit(Op::logical_and, {allowed_, condition}));
  }
  return Ok{};
}

Result<void> AttentionMask::allow_window(Conversion& c, Value* offset, const Dim& queries, const Dim& keys,
                                         int64_t left, int64_t right) {
  if (left < 0 && right < 0) return Ok{};
  RTX_ASSIGN(Value * query, c.iota(DType::i64, 2, 0, queries));
  RTX_ASSIGN(Value * key, c.iota(DType::i64, 2, 1, keys));
  RTX_ASSIGN(Value * position, c.emit(Op::add, {query, offset}));
  if (right >= 0) {
    Value* last = position;
    if (right > 0) {
      RTX_ASSIGN(Value * distance, c.scalar(DType::i64, static_cast<double>(right)));
      RTX_ASSIGN(last, c.emit(Op::add, {position, distance}));
    }
    RTX_ASSIGN(Value * visible, c.emit(Op::less_equal, {key, last}));
    RTX_TRY(allow(c, visible));
  }
  if (left >= 0) {
    RTX_ASSIGN(Value * distance, c.scalar(DType::i64, static_cast<double>(left)));
    RTX_ASSIGN(Value * first, c.emit(Op::sub, {position, distance}));
    RTX_ASSIGN(Value * visible, c.emit(Op::less_equal, {first, key}));
    RTX_TRY(allow(c, visible));
  }
  return Ok{};
}

Result<void> AttentionMask::allow_before(Conversion& c, Value* lengths, const Dim& keys) {
  RTX_ASSIGN(lengths, c.cast(lengths, DType::i64));
  RTX_ASSIGN(lengths, c.reshape(lengths, {lengths->type.element_count(), 1, 1, 1}));
  RTX_ASSIGN(Value * key, c.iota(DType::i64, 4, 3, keys));
  RTX_ASSIGN(Value * inside, c.emit(Op::less, {key, lengths}));
  return allow(c, inside);
}

Result<void> AttentionMask::add(Conversion& c, Value* bias) {
  if (!bias_) {
    bias_ = bias;
  } else {
    RTX_ASSIGN(bias_, c.emit(Op::add, {bias_, bias}));
  }
  return Ok{};
}

Result<Value*> AttentionMask::apply(Conversion& c, Value* scores, double masked) const {
  if (bias_) {
    RTX_ASSIGN(Value * bias, c.cast(bias_, scores->type.dtype));
    RTX_ASSIGN(scores, c.emit(Op::add, {scores, bias}));
  }
  if (allowed_) {
    RTX_ASSIGN(Value * zero, c.scalar(scores->type.dtype, 0));
    RTX_ASSIGN(Value * low, c.scalar(scores->type.dtype, masked));
    RTX_ASSIGN(Value * term, c.emit(Op::select, {allowed_, zero, low}));
    RTX_ASSIGN(scores, c.emit(Op::add, {scores, term}));
  }
  return scores;
}

Result<Value*> attention_softmax(Conversion& c, Value* scores, bool guard) {
  int64_t axis = scores->type.rank() - 1;
  RTX_ASSIGN(Value * weights, c.emit(Op::softmax, {scores}, {{"axis", axis}}));
  if (!guard) return weights;
  RTX_ASSIGN(Value * largest, c.reduce(Op::reduce_max, scores, {axis}, true));
  RTX_ASSIGN(Value * infinity, c.scalar(scores->type.dtype, -std::numeric_limits<double>::infinity()));
  RTX_ASSIGN(Value * hidden, c.emit(Op::equal, {largest, infinity}));
  RTX_ASSIGN(Value * zero, c.scalar(weights->type.dtype, 0));
  return c.emit(Op::select, {hidden, zero, weights});
}

Result<Value*> rotate(Conversion& c, Value* x, Value* cos, Value* sin, int64_t rotary, bool interleaved) {
  Shape shape = x->type.shape;
  const int axis = 3;
  if (rotary % 2 != 0) return c.invalid("E321", concat("an odd rotary size, ", rotary));
  int64_t half = rotary / 2;
  RTX_ASSIGN(Value * turned, c.slice(x, axis, 0, rotary));
  Value *first = nullptr, *second = nullptr;
  if (interleaved) {
    RTX_ASSIGN(Value * pairs, c.reshape(turned, {shape[0], shape[1], shape[2], half, 2}));
    RTX_ASSIGN(first, c.slice(pairs, 4, 0, 1));
    RTX_ASSIGN(second, c.slice(pairs, 4, 1, 1));
    RTX_ASSIGN(first, c.reshape(first, {shape[0], shape[1], shape[2], half}));
    RTX_ASSIGN(second, c.reshape(second, {shape[0], shape[1], shape[2], half}));
  } else {
    RTX_ASSIGN(first, c.slice(turned, axis, 0, half));
    RTX_ASSIGN(second, c.slice(turned, axis, half, half));
  }
  RTX_ASSIGN(Value * first_cos, c.emit(Op::mul, {first, cos}));
  RTX_ASSIGN(Value * second_sin, c.emit(Op::mul, {second, sin}));
  RTX_ASSIGN(Value * first_sin, c.emit(Op::mul, {first, sin}));
  RTX_ASSIGN(Value * second_cos, c.emit(Op::mul, {second, cos}));
  RTX_ASSIGN(Value * real, c.emit(Op::sub, {first_cos, second_sin}));
  RTX_ASSIGN(Value * imaginary, c.emit(Op::add, {first_sin, second_cos}));
  Value* result = nullptr;
  if (interleaved) {
    Shape column = real->type.shape;
    column.push_back(1);
    RTX_ASSIGN(real, c.reshape(real, column));
    RTX_ASSIGN(imaginary, c.reshape(imaginary, column));
    RTX_ASSIGN(result, c.emit(Op::concat, {real, imaginary}, {{"axis", int64_t{4}}}));
    RTX_ASSIGN(result, c.reshape(result, {shape[0], shape[1], shape[2], rotary}));
  } else {
    RTX_ASSIGN(result, c.emit(Op::concat, {real, imaginary}, {{"axis", int64_t{axis}}}));
  }
  if (shape[axis].is(rotary)) return result;
  RTX_ASSIGN(Value * rest, c.slice(x, axis, rotary, shape[axis] - Dim(rotary)));
  return c.emit(Op::concat, {result, rest}, {{"axis", int64_t{axis}}});
}

}  // namespace rtx::onnx
