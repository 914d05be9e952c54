// rope: rotary position embedding on halves, as decoders write it, with tables of whole or half width.

#include <algorithm>

#include "passes/match.h"
#include "passes/recover_rules.h"

namespace rtx {
namespace {

int64_t last_axis(const Value* value) { return value->type.rank() - 1; }

// x where `value` is x[..., start : start + size], all of the other axes; null for other slices.
Value* sliced(const Value* value, const Dim& start, const Dim& size) {
  Operation* slice = defined_by(value, Op::slice);
  if (!slice || value->type.shape.empty()) return nullptr;
  const Shape &starts = slice->attributes.dims("starts"), &sizes = slice->attributes.dims("sizes");
  const std::vector<int64_t>& steps = slice->attributes.integers("steps");
  const Shape& whole = slice->operand(0)->type.shape;
  for (size_t axis = 0; axis < whole.size(); ++axis) {
    const bool last = axis + 1 == whole.size();
    if (steps[axis] != 1 || starts[axis] != (last ? start : Dim(0)) || sizes[axis] != (last ? size : whole[axis]))
      return nullptr;
  }
  return slice->operand(0);
}

// The first half of a value along its last axis if the second half is known to be the same; else null.
Value* equal_half(Value* value, Rewriter& rewriter) {
  Operation* operation = value->def();
  if (!operation || value->type.shape.empty() || !value->type.shape.back().is_constant()) return nullptr;
  Shape shape = value->type.shape;
  const int64_t size = shape.back().constant();
  if (size % 2 != 0) return nullptr;
  shape.back() = size / 2;
  if (operation->is(Op::concat)) {
    const bool doubled = operation->operand_count() == 2 && operation->operand(0) == operation->operand(1) &&
                         operation->attributes.integer("axis") == last_axis(value);
    return doubled ? operation->operand(0) : nullptr;
  }
  if (operation->is(Op::reshape) || operation->is(Op::broadcast)) {
    Value* from = operation->operand(0);
    if (from->type.shape.empty() || from->type.shape.back() != value->type.shape.back()) return nullptr;
    Value* half = equal_half(from, rewriter);
    return half ? rewriter.make(operation->op, {half}, {{"shape", std::move(shape)}}) : nullptr;
  }
  if (operation->is(Op::transpose)) {
    if (operation->attributes.integers("perm").back() != last_axis(value)) return nullptr;
    Value* half = equal_half(operation->operand(0), rewriter);
    return half ? rewriter.make(Op::transpose, {half}, operation->attributes) : nullptr;
  }
  if (operation->spec().family != OpFamily::elementwise) return nullptr;
  std::vector<Value*> operands = operation->operands();
  for (Value*& operand : operands) {
    if (operand->type.shape.empty() || operand->type.shape.back().is(1)) continue;
    operand = equal_half(operand, rewriter);
    if (!operand) return nullptr;
  }
  return rewriter.make(operation->op, std::move(operands), operation->attributes);
}

// x where `value` is concat(-x[..., half:], x[..., :half]); else null.
Value* half_rotated(const Value* value) {
  Operation* concat = defined_by(value, Op::concat);
  if (!concat || concat->operand_count() != 2 || concat->attributes.integer("axis") != last_axis(value)) return nullptr;
  Operation* negated = defined_by(concat->operand(0), Op::neg);
  if (!negated || !value->type.shape.back().is_constant()) return nullptr;
  const Dim half = value->type.shape.back().constant() / 2;
  Value* x = sliced(concat->operand(1), 0, half);
  return x && x->type == value->type && sliced(negated->operand(0), half, half) == x ? x : nullptr;
}

// x * cos + concat(-x[half:], x[:half]) * sin -> rope(x, cos[:half], sin[:half])   (tables with equal halves)
Value* recover_rope(Operation& root, Rewriter& rewriter) {
  for (size_t i = 0; i < 2; ++i) {
    Operation *straight = defined_by(root.operand(i), Op::mul), *turned = defined_by(root.operand(1 - i), Op::mul);
    if (!straight || !turned) return nullptr;
    for (size_t j = 0; j < 2; ++j) {
      Value* x = half_rotated(turned->operand(j));
      std::optional<size_t> at = x ? find(straight->operands(), x) : std::nullopt;
      if (!x) continue;
      if (!at || x->type != root.result()->type) {
        rewriter.miss("rope", "the turned half and the straight one are of different values or types");
        continue;
      }
      Value* cosine = equal_half(straight->operand(1 - *at), rewriter);
      Value* sine = cosine ? equal_half(turned->operand(1 - j), rewriter) : nullptr;
      if (sine) return rewriter.make(Op::rope, {x, cosine, sine});
      rewriter.miss("rope", "the halves of its tables are not known to be equal");
    }
  }
  return nullptr;
}

// `value` is a * b or b * a.
bool is_product(const Value* value, const Value* a, const Value* b) {
  Operation* product = defined_by(value, Op::mul);
  return product && ((product->operand(0) == a && product->operand(1) == b) ||
                     (product->operand(0) == b && product->operand(1) == a));
}

// concat(a * cos - b * sin, b * cos + a * sin) -> rope(x, cos, sin)   (a and b the halves of x)
// concat(rope(x[..., :size]), x[..., size:]) -> rope(x)
Value* recover_rope_of_parts(Operation& root, Rewriter& rewriter) {
  if (root.operand_count() != 2 || root.attributes.integer("axis") != last_axis(root.result())) return nullptr;
  const Dim first_size = root.operand(0)->type.shape.back(), second_size = root.operand(1)->type.shape.back();
  if (Operation* rope = defined_by(root.operand(0), Op::rope)) {
    Value* x = sliced(rope->operand(0), 0, first_size);
    if (!x || x->type != root.result()->type || sliced(root.operand(1), first_size, second_size) != x) return nullptr;
    return rewriter.make(Op::rope, {x, rope->operand(1), rope->operand(2)}, rope->attributes);
  }
  Operation *difference = defined_by(root.operand(0), Op::sub), *sum = defined_by(root.operand(1), Op::add);
  Operation* left = difference ? defined_by(difference->operand(0), Op::mul) : nullptr;
  Operation* right = difference ? defined_by(difference->operand(1), Op::mul) : nullptr;
  if (!left || !right || !sum || first_size != second_size) return nullptr;
  for (size_t i = 0; i < 4; ++i) {
    Value *a = left->operand(i % 2), *cosine = left->operand(1 - i % 2);
    Value *b = right->operand(i / 2), *sine = right->operand(1 - i / 2);
    Value* x = sliced(a, 0, first_size);
    if (!x || x->type != root.result()->type || sliced(b, first_size, second_size) != x) continue;
    for (size_t j = 0; j < 2; ++j) {
      if (is_product(sum->operand(j), b, cosine) && is_product(sum->operand(1 - j), a, sine))
        return rewriter.make(Op::rope, {x, cosine, sine});
    }
  }
  return nullptr;
}

constexpr Rule rules[] = {
    {Op::add, recover_rope},
    {Op::concat, recover_rope_of_parts},
};

}  // namespace

std::span<const Rule> rope_recoveries() { return rules; }

}  // namespace rtx
