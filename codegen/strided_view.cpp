#include "codegen/strided_view.h"

namespace rtx::codegen {
namespace {

// Axes that lie one after the other as if they were one, innermost elements `stride` apart.
struct Run {
  Dim length, stride;
};

std::vector<Run> runs_of(const Shape& shape, const std::vector<Dim>& strides) {
  std::vector<Run> runs;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    if (shape[axis].is(1)) continue;
    if (!runs.empty() && runs.back().stride == strides[axis] * shape[axis]) {
      runs.back() = {runs.back().length * shape[axis], strides[axis]};
    } else {
      runs.push_back({shape[axis], strides[axis]});
    }
  }
  return runs;
}

// The same elements in the same order under another shape: every run must be a product of axes of `to`.
std::optional<StridedView> reshaped(const StridedView& view, const Shape& from, const Shape& to) {
  StridedView result{view.offset, std::vector<Dim>(to.size(), Dim(0))};
  size_t axis = 0;
  for (const Run& run : runs_of(from, view.strides)) {
    const size_t first = axis;
    Dim length = 1;
    while (length != run.length && axis < to.size()) length = length * to[axis++];
    if (length != run.length) return std::nullopt;
    Dim stride = run.stride;
    for (size_t i = axis; i-- > first;) {
      result.strides[i] = stride;
      stride = stride * to[i];
    }
  }
  for (; axis < to.size(); ++axis) {
    if (!to[axis].is(1)) return std::nullopt;
  }
  return result;
}

bool is_view(Op op) { return op == Op::reshape || op == Op::transpose || op == Op::slice || op == Op::broadcast; }

}  // namespace

StridedView row_major_view(const Shape& shape) {
  StridedView view{0, std::vector<Dim>(shape.size(), Dim(0))};
  Dim stride = 1;
  for (size_t axis = shape.size(); axis-- > 0;) {
    view.strides[axis] = stride;
    stride = stride * shape[axis];
  }
  return view;
}

std::optional<StridedView> view_of_result(const Operation& move, const StridedView& operand) {
  if (!is_view(move.op)) return std::nullopt;
  const Shape &from = move.operand(0)->type.shape, &to = move.result()->type.shape;
  if (move.is(Op::reshape)) return reshaped(operand, from, to);
  StridedView result{operand.offset, std::vector<Dim>(to.size(), Dim(0))};
  if (move.is(Op::transpose)) {
    const std::vector<int64_t>& perm = move.attributes.integers("perm");
    for (size_t axis = 0; axis < to.size(); ++axis)
      result.strides[axis] = operand.strides[static_cast<size_t>(perm[axis])];
  } else if (move.is(Op::slice)) {
    for (size_t axis = 0; axis < to.size(); ++axis) {
      result.offset = result.offset + move.attributes.dims("starts")[axis] * operand.strides[axis];
      result.strides[axis] = operand.strides[axis] * Dim(move.attributes.integers("steps")[axis]);
    }
  } else {
    const size_t added = to.size() - from.size();
    for (size_t axis = 0; axis < from.size(); ++axis) {
      if (from[axis] == to[axis + added]) result.strides[axis + added] = operand.strides[axis];
    }
  }
  return result;
}

std::optional<StridedView> view_of_operand(const Operation& move, const StridedView& result) {
  const Shape &from = move.operand(0)->type.shape, &to = move.result()->type.shape;
  if (move.is(Op::reshape)) return reshaped(result, to, from);
  if (!move.is(Op::transpose)) return std::nullopt;
  StridedView operand{result.offset, std::vector<Dim>(from.size(), Dim(0))};
  const std::vector<int64_t>& perm = move.attributes.integers("perm");
  for (size_t axis = 0; axis < to.size(); ++axis)
    operand.strides[static_cast<size_t>(perm[axis])] = result.strides[axis];
  return operand;
}

ViewOf furthest_base(const Value* value) {
  std::vector<const Operation*> moves;  // from the value backwards
  for (const Operation* move = value->def(); move && is_view(move->op); move = move->operand(0)->def())
    moves.push_back(move);
  for (size_t first = moves.size(); first > 0; --first) {
    const Value* base = moves[first - 1]->operand(0);
    std::optional<StridedView> view = row_major_view(base->type.shape);
    for (size_t i = first; i-- > 0 && view;) view = view_of_result(*moves[i], *view);
    if (view) return {base, std::move(*view)};
  }
  return {value, row_major_view(value->type.shape)};
}

}  // namespace rtx::codegen
