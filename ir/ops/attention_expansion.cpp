// The core operations that rope and attention stand for.

#include <cmath>

#include "ir/ops/attention_expansion.h"

namespace rtx {

namespace {

class Expansion {
 public:
  Expansion(const Operation& root, Builder& builder) : root_(root), builder_(builder) {}

  // (a cos - b sin, b cos + a sin) of the pairs (a, b), and what is not turned.
  Result<Value*> rope() {
    Value *x = root_.operand(0), *cosine = root_.operand(1), *sine = root_.operand(2);
    const int64_t size = x->type.shape.back().constant(), pairs = cosine->type.shape.back().constant();
    const bool interleaved = root_.attributes.boolean("interleaved");
    const int64_t step = interleaved ? 2 : 1;
    RTX_ASSIGN(Value * a, last_axis(x, 0, pairs, step));
    RTX_ASSIGN(Value * b, last_axis(x, interleaved ? 1 : pairs, pairs, step));
    RTX_ASSIGN(Value * first, turned(Op::sub, a, cosine, b, sine));
    RTX_ASSIGN(Value * second, turned(Op::add, b, cosine, a, sine));
    if (interleaved) {
      RTX_ASSIGN(first, new_last_axis(first));
      RTX_ASSIGN(second, new_last_axis(second));
    }
    RTX_ASSIGN(Value * y, builder_.value(Op::concat, {first, second}, {{"axis", first->type.rank() - int64_t{1}}}));
    Shape shape = x->type.shape;
    shape.back() = 2 * pairs;
    RTX_ASSIGN(y, reshaped(y, shape));
    if (size == 2 * pairs) return y;
    RTX_ASSIGN(Value * rest, last_axis(x, 2 * pairs, size - 2 * pairs, 1));
    return builder_.value(Op::concat, {y, rest}, {{"axis", x->type.rank() - int64_t{1}}});
  }

  Result<Value*> attention() {
    const AttributeList& attributes = root_.attributes;
    Value *q = root_.operand(0), *k = root_.operand(1), *v = root_.operand(2);
    const Shape &queries = q->type.shape, &keys = k->type.shape;
    const Dim heads = queries[1], kv_heads = keys[1], group = *heads.divided_by(kv_heads);
    RTX_ASSIGN(q, scaled(q, attributes.real("scale")));
    if (!group.is(1)) {
      // One product for each kv head and the heads that read it.
      RTX_ASSIGN(q, reshaped(q, {queries[0], kv_heads, group, queries[2], queries[3]}));
      RTX_ASSIGN(k, reshaped(k, {keys[0], kv_heads, 1, keys[2], keys[3]}));
      RTX_ASSIGN(v, reshaped(v, {keys[0], kv_heads, 1, keys[2], v->type.shape[3]}));
    }
    RTX_ASSIGN(Value * scores, builder_.value(Op::matmul, {q, k}, {{"transpose_rhs", true}}));
    // Scores and weights of 16-bit attention are f32: a mask that fills with a large number has no place in f16.
    const DType dtype = root_.result()->type.dtype;
    const bool narrow = dtype == DType::f16 || dtype == DType::bf16;
    if (narrow) {
      RTX_ASSIGN(scores, builder_.value(Op::cast, {scores}, {{"to", DType::f32}}));
    }
    const Shape grouped = scores->type.shape;
    RTX_ASSIGN(scores, reshaped(scores, {queries[0], heads, queries[2], keys[2]}));
    if (const double softcap = attributes.real("softcap"); softcap != 0) {
      RTX_ASSIGN(scores, scaled(scores, 1 / softcap));
      RTX_ASSIGN(scores, builder_.value(Op::tanh, {scores}));
      RTX_ASSIGN(scores, scaled(scores, softcap));
    }
    RTX_ASSIGN(scores, masked(scores));
    RTX_ASSIGN(Value * weights, builder_.value(Op::softmax, {scores}, {{"axis", int64_t{3}}}));
    if (attributes.boolean("guard")) {
      RTX_ASSIGN(Value * bottom, scalar(-INFINITY, scores->type.dtype));
      RTX_ASSIGN(Value * zero, scalar(0, scores->type.dtype));
      RTX_ASSIGN(Value * top,
                 builder_.value(Op::reduce_max, {scores}, {{"axes", std::vector<int64_t>{3}}, {"keepdims", true}}));
      RTX_ASSIGN(Value * empty, builder_.value(Op::equal, {top, bottom}));
      RTX_ASSIGN(weights, builder_.value(Op::select, {empty, zero, weights}));
    }
    RTX_ASSIGN(weights, reshaped(weights, grouped));
    if (narrow) {
      RTX_ASSIGN(weights, builder_.value(Op::cast, {weights}, {{"to", dtype}}));
    }
    RTX_ASSIGN(Value * y, builder_.value(Op::matmul, {weights, v}));
    return reshaped(y, root_.result()->type.shape);
  }

 private:
  // Positions as [1, 1, queries, 1] or [1, 1, 1, keys].
  Result<Value*> positions(int64_t axis, const Dim& length) {
    Shape shape(4, Dim(1));
    shape[static_cast<size_t>(axis)] = length;
    return builder_.value(Op::iota, {}, {{"shape", std::move(shape)}, {"axis", axis}, {"dtype", DType::i64}});
  }

  Result<Value*> dim(const Dim& value) {
    RTX_ASSIGN(Value * vector, builder_.value(Op::dim_values, {}, {{"values", std::vector<Dim>{value}}}));
    return reshaped(vector, {});
  }

  Result<Value*> masked(Value* scores) {
    const AttributeList& attributes = root_.attributes;
    RTX_ASSIGN(Value * zero, scalar(0, scores->type.dtype));
    RTX_ASSIGN(Value * fill, scalar(attributes.real("fill"), scores->type.dtype));
    Value* keep = nullptr;
    auto also = [&](Value* condition) -> Result<void> {
      if (!keep) {
        keep = condition;
        return Ok{};
      }
      RTX_ASSIGN(keep, builder_.value(Op::logical_and, {keep, condition}));
      return Ok{};
    };
    const Dim &offset = attributes.dim("offset"), &window = attributes.dim("window");
    if (attributes.boolean("causal") || !window.is(0)) {
      RTX_ASSIGN(Value * i, positions(2, scores->type.shape[2]));
      RTX_ASSIGN(Value * j, positions(3, scores->type.shape[3]));
      if (attributes.boolean("causal")) {
        RTX_ASSIGN(Value * shift, dim(offset));
        RTX_ASSIGN(Value * last, builder_.value(Op::add, {i, shift}));
        RTX_ASSIGN(Value * seen, builder_.value(Op::less_equal, {j, last}));
        RTX_TRY(also(seen));
      }
      if (!window.is(0)) {
        RTX_ASSIGN(Value * shift, dim(offset - window));
        RTX_ASSIGN(Value * before, builder_.value(Op::add, {i, shift}));
        RTX_ASSIGN(Value * seen, builder_.value(Op::less, {before, j}));
        RTX_TRY(also(seen));
      }
    }
    for (size_t m = 3; m < root_.operand_count(); ++m) {
      Value* mask = root_.operand(m);
      if (mask->type.dtype == DType::boolean) {
        RTX_TRY(also(mask));
      } else {
        RTX_ASSIGN(mask, builder_.value(Op::cast, {mask}, {{"to", scores->type.dtype}}));
        RTX_ASSIGN(scores, builder_.value(Op::add, {scores, mask}));
      }
    }
    if (!keep) return scores;
    RTX_ASSIGN(Value * bias, builder_.value(Op::select, {keep, zero, fill}));
    return builder_.value(Op::add, {scores, bias});
  }

  Result<Value*> scalar(double value, DType dtype) { return builder_.constant(Tensor::scalar(dtype, value)); }

  Result<Value*> scaled(Value* x, double factor) {
    if (factor == 1) return x;
    RTX_ASSIGN(Value * constant, scalar(factor, x->type.dtype));
    return builder_.value(Op::mul, {x, constant});
  }

  Result<Value*> reshaped(Value* x, Shape shape) {
    if (x->type.shape == shape) return x;
    return builder_.value(Op::reshape, {x}, {{"shape", std::move(shape)}});
  }

  Result<Value*> new_last_axis(Value* x) {
    Shape shape = x->type.shape;
    shape.push_back(1);
    return reshaped(x, std::move(shape));
  }

  // x[..., start], x[..., start + step], ...: `count` elements.
  Result<Value*> last_axis(Value* x, int64_t start, int64_t count, int64_t step) {
    Shape starts(x->type.shape.size(), Dim(0)), sizes = x->type.shape;
    std::vector<int64_t> steps(x->type.shape.size(), 1);
    starts.back() = start;
    sizes.back() = count;
    steps.back() = step;
    return builder_.value(Op::slice, {x},
                          {{"starts", std::move(starts)}, {"sizes", std::move(sizes)}, {"steps", std::move(steps)}});
  }

  Result<Value*> turned(Op op, Value* a, Value* cosine, Value* b, Value* sine) {
    RTX_ASSIGN(Value * left, builder_.value(Op::mul, {a, cosine}));
    RTX_ASSIGN(Value * right, builder_.value(Op::mul, {b, sine}));
    return builder_.value(op, {left, right});
  }

  const Operation& root_;
  Builder& builder_;
};

}  // namespace

Result<Value*> expand_rope(const Operation& operation, Builder& builder) {
  return Expansion(operation, builder).rope();
}

Result<Value*> expand_attention(const Operation& operation, Builder& builder) {
  return Expansion(operation, builder).attention();
}

}  // namespace rtx
