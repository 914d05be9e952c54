#include "passes/affine_index.h"

#include "passes/canonicalize_rules.h"

namespace rtx {

namespace {

bool is_uniform(const AffineIndex& index) {
  for (const Dim& factor : index.factors) {
    if (!factor.is(0)) return false;
  }
  return true;
}

// The factors of `from`, aligned from the right with `rank` axes.
AffineIndex aligned(AffineIndex from, size_t rank) {
  from.factors.insert(from.factors.begin(), rank - from.factors.size(), Dim(0));
  return from;
}

// From the axes of `from` to those of `to`, which differ only in axes of length 1.
std::optional<AffineIndex> reshaped(const AffineIndex& index, const Shape& from, const Shape& to) {
  AffineIndex result{index.base, std::vector<Dim>(to.size(), Dim(0))};
  size_t next = 0;
  for (size_t axis = 0; axis < from.size(); ++axis) {
    if (from[axis].is(1)) continue;
    while (next < to.size() && to[next].is(1)) ++next;
    if (next == to.size() || to[next] != from[axis]) return std::nullopt;
    result.factors[next++] = index.factors[axis];
  }
  while (next < to.size() && to[next].is(1)) ++next;
  return next == to.size() ? std::optional(std::move(result)) : std::nullopt;
}

std::optional<AffineIndex> moved(const Operation& operation, AffineIndex from) {
  const Shape& shape = operation.result()->type.shape;
  switch (operation.op) {
    case Op::reshape:
      return reshaped(from, operation.operand(0)->type.shape, shape);
    case Op::broadcast:
      return aligned(std::move(from), shape.size());
    case Op::transpose: {
      AffineIndex result{from.base, {}};
      for (int64_t axis : operation.attributes.integers("perm"))
        result.factors.push_back(from.factors[static_cast<size_t>(axis)]);
      return result;
    }
    case Op::slice:
      for (size_t axis = 0; axis < shape.size(); ++axis) {
        from.base = from.base + from.factors[axis] * operation.attributes.dims("starts")[axis];
        from.factors[axis] = from.factors[axis] * Dim(operation.attributes.integers("steps")[axis]);
      }
      return from;
    default:
      return std::nullopt;
  }
}

std::optional<AffineIndex> combined(const Operation& operation, AffineIndex a, AffineIndex b) {
  const size_t rank = operation.result()->type.shape.size();
  a = aligned(std::move(a), rank);
  b = aligned(std::move(b), rank);
  if (operation.is(Op::mul)) {
    if (is_uniform(a)) std::swap(a, b);
    if (!is_uniform(b)) return std::nullopt;
    a.base = a.base * b.base;
    for (Dim& factor : a.factors) factor = factor * b.base;
    return a;
  }
  const Dim sign = operation.is(Op::sub) ? -1 : 1;
  a.base = a.base + sign * b.base;
  for (size_t axis = 0; axis < rank; ++axis) a.factors[axis] = a.factors[axis] + sign * b.factors[axis];
  return a;
}

}  // namespace

std::optional<AffineIndex> affine_index(const Value* value) {
  const Operation* operation = value->def();
  if (!operation || !is_integer(value->type.dtype)) return std::nullopt;
  AffineIndex index{0, std::vector<Dim>(value->type.shape.size(), Dim(0))};
  switch (operation->op) {
    case Op::iota:
      index.factors[static_cast<size_t>(operation->attributes.integer("axis"))] = 1;
      return index;
    case Op::dim_values:
      if (operation->attributes.dims("values").size() != 1) return std::nullopt;
      index.base = operation->attributes.dims("values")[0];
      return index;
    case Op::constant:
      if (auto number = constant_number(value)) {
        index.base = static_cast<int64_t>(*number);
        return index;
      }
      return std::nullopt;
    case Op::cast:
      return affine_index(operation->operand(0));
    case Op::add:
    case Op::sub:
    case Op::mul: {
      auto a = affine_index(operation->operand(0)), b = affine_index(operation->operand(1));
      return a && b ? combined(*operation, std::move(*a), std::move(*b)) : std::nullopt;
    }
    default: {
      if (operation->operand_count() != 1) return std::nullopt;
      auto from = affine_index(operation->operand(0));
      return from ? moved(*operation, std::move(*from)) : std::nullopt;
    }
  }
}

}  // namespace rtx
