// Rules with an operation at the root that moves elements, and those that let moves vanish into their users.

#include <algorithm>

#include "passes/canonicalize_rules.h"

namespace rtx {

namespace {

// The only operand, if nothing changes: reshape, broadcast to the same shape.
Value* same_type(Operation& root, Rewriter&) {
  return root.operand(0)->type == root.result()->type ? root.operand(0) : nullptr;
}

// --- reshape, broadcast, transpose ---

// reshape(reshape(x)) -> reshape(x)   and   broadcast(broadcast(x)) -> broadcast(x)
Value* skip_inner(Operation& root, Rewriter& rewriter) {
  Operation* inner = defined_by(root.operand(0), root.op);
  return inner ? rewriter.make(root.op, {inner->operand(0)}, root.attributes) : nullptr;
}

// broadcast(x) -> reshape(x)   (where only axes of length 1 are new)
Value* broadcast_to_reshape(Operation& root, Rewriter& rewriter) {
  if (!(root.operand(0)->type.element_count() == root.result()->type.element_count())) return nullptr;
  return rewriter.make(Op::reshape, {root.operand(0)}, root.attributes);
}

// transpose(x) -> reshape(x)   (where axes longer than 1 keep their order; the identity becomes x)
Value* transpose_to_reshape(Operation& root, Rewriter& rewriter) {
  int64_t last = -1;
  for (int64_t axis : root.attributes.integers("perm")) {
    if (root.operand(0)->type.shape[static_cast<size_t>(axis)].is(1)) continue;
    if (axis < last) return nullptr;
    last = axis;
  }
  return rewriter.make(Op::reshape, {root.operand(0)}, {{"shape", root.result()->type.shape}});
}

// transpose(transpose(x)) -> transpose(x)
Value* merge_transposes(Operation& root, Rewriter& rewriter) {
  Operation* inner = defined_by(root.operand(0), Op::transpose);
  if (!inner) return nullptr;
  std::vector<int64_t> perm;
  for (int64_t axis : root.attributes.integers("perm")) {
    perm.push_back(inner->attributes.integers("perm")[static_cast<size_t>(axis)]);
  }
  return rewriter.make(Op::transpose, {inner->operand(0)}, {{"perm", std::move(perm)}});
}

// reshape(transpose(reshape(x, [b*h, s, d])), [b, h, d, s]) -> transpose(reshape(x, [b, h, s, d]))   (a transpose that
// keeps the first axis, which the outer reshape splits)
Value* split_before_transpose(Operation& root, Rewriter& rewriter) {
  Operation* transpose = defined_by(root.operand(0), Op::transpose);
  Operation* inner = transpose ? defined_by(transpose->operand(0), Op::reshape) : nullptr;
  if (!inner || !root.operand(0)->has_one_use()) return nullptr;
  const std::vector<int64_t>& old_perm = transpose->attributes.integers("perm");
  const Shape &from = inner->result()->type.shape, &to = root.result()->type.shape;
  if (old_perm.empty() || old_perm[0] != 0 || to.size() <= from.size()) return nullptr;
  const size_t extra = to.size() - from.size();
  for (size_t axis = 1; axis < from.size(); ++axis) {
    if (to[axis + extra] != from[static_cast<size_t>(old_perm[axis])]) return nullptr;
  }
  Shape split(to.begin(), to.begin() + static_cast<int64_t>(extra) + 1);
  split.insert(split.end(), from.begin() + 1, from.end());
  std::vector<int64_t> perm;
  for (size_t axis = 0; axis <= extra; ++axis) perm.push_back(static_cast<int64_t>(axis));
  for (size_t axis = 1; axis < from.size(); ++axis) perm.push_back(old_perm[axis] + static_cast<int64_t>(extra));
  Value* early = rewriter.make(Op::reshape, {inner->operand(0)}, {{"shape", std::move(split)}});
  return early ? rewriter.make(Op::transpose, {early}, {{"perm", std::move(perm)}}) : nullptr;
}

// --- slice, concat, pad ---

// slice(x) of everything -> x
Value* slice_everything(Operation& root, Rewriter&) {
  const std::vector<int64_t>& steps = root.attributes.integers("steps");
  const Shape& starts = root.attributes.dims("starts");
  bool whole = std::all_of(starts.begin(), starts.end(), [](const Dim& start) { return start.is(0); }) &&
               std::all_of(steps.begin(), steps.end(), [](int64_t step) { return step == 1; });
  return whole ? root.operand(0) : nullptr;  // the driver compares the types
}

// slice(slice(x)) -> slice(x)
Value* merge_slices(Operation& root, Rewriter& rewriter) {
  Operation* inner = defined_by(root.operand(0), Op::slice);
  if (!inner) return nullptr;
  Shape starts = inner->attributes.dims("starts");
  std::vector<int64_t> steps = inner->attributes.integers("steps");
  for (size_t i = 0; i < starts.size(); ++i) {
    starts[i] = starts[i] + root.attributes.dims("starts")[i] * Dim(steps[i]);
    if (__builtin_mul_overflow(steps[i], root.attributes.integers("steps")[i], &steps[i])) return nullptr;
  }
  return rewriter.make(
      Op::slice, {inner->operand(0)},
      {{"starts", std::move(starts)}, {"sizes", root.attributes.dims("sizes")}, {"steps", std::move(steps)}});
}

// slice(concat(a, b)) -> slice(a)   (where the slice lies in one part: it starts in it and is no longer than the rest)
Value* slice_of_concat(Operation& root, Rewriter& rewriter) {
  Operation* concat = defined_by(root.operand(0), Op::concat);
  if (!concat) return nullptr;
  size_t axis = static_cast<size_t>(concat->attributes.integer("axis"));
  if (root.attributes.integers("steps")[axis] != 1) return nullptr;
  Shape starts = root.attributes.dims("starts");
  const Dim& size = root.attributes.dims("sizes")[axis];
  Dim offset = 0;
  for (Value* part : concat->operands()) {
    Dim start = starts[axis] - offset;
    Dim rest = part->type.shape[axis] - start - size;
    // Constants, or bounds that hold for every binding.
    if (start.lower_bound(rewriter.symbols()) >= 0 && rest.lower_bound(rewriter.symbols()) >= 0) {
      starts[axis] = start;
      return rewriter.make(Op::slice, {part},
                           {{"starts", std::move(starts)},
                            {"sizes", root.attributes.dims("sizes")},
                            {"steps", root.attributes.integers("steps")}});
    }
    offset = offset + part->type.shape[axis];
  }
  return nullptr;
}

// concat(x) -> x   and   concat(x, empty, y) -> concat(x, y)
Value* drop_empty_parts(Operation& root, Rewriter& rewriter) {
  if (root.operand_count() == 1) return root.operand(0);
  size_t axis = static_cast<size_t>(root.attributes.integer("axis"));
  std::vector<Value*> parts;
  for (Value* part : root.operands()) {
    if (!part->type.shape[axis].is(0)) parts.push_back(part);
  }
  if (parts.empty()) parts.push_back(root.operand(0));
  if (parts.size() == root.operand_count()) return nullptr;
  return rewriter.make(Op::concat, std::move(parts), root.attributes);
}

// concat(concat(x, y), z) -> concat(x, y, z)   (same axis; where the inner one has no other use)
Value* flatten_concat(Operation& root, Rewriter& rewriter) {
  std::vector<Value*> parts;
  for (Value* part : root.operands()) {
    Operation* inner = defined_by(part, Op::concat);
    if (inner && part->has_one_use() && inner->attributes == root.attributes) {
      parts.insert(parts.end(), inner->operands().begin(), inner->operands().end());
    } else {
      parts.push_back(part);
    }
  }
  if (parts.size() == root.operand_count()) return nullptr;
  return rewriter.make(Op::concat, std::move(parts), root.attributes);
}

// pad(x) with no padding -> x
Value* pad_nothing(Operation& root, Rewriter&) {
  for (const char* side : {"low", "high"}) {
    for (const Dim& amount : root.attributes.dims(side)) {
      if (!amount.is(0)) return nullptr;
    }
  }
  return root.operand(0);
}

// --- gather ---

// gather(x, 3) -> reshape(slice(x))   (a constant scalar index that is inside the axis for every binding)
Value* gather_one(Operation& root, Rewriter& rewriter) {
  const Tensor* index = constant_tensor(root.operand(1));
  if (!index || index->element_count() != 1) return nullptr;
  Value* data = root.operand(0);
  size_t axis = static_cast<size_t>(root.attributes.integer("axis"));
  const Dim& length = data->type.shape[axis];
  int64_t i = index->i64(0);
  int64_t needed = i >= 0 ? i + 1 : -i;  // elements the axis must have, so that nothing is clamped
  if (i < -(int64_t{1} << 32) || i > int64_t{1} << 32 || length.lower_bound(rewriter.symbols()) < needed)
    return nullptr;
  Shape starts(data->type.shape.size(), Dim(0)), sizes = data->type.shape;
  starts[axis] = i >= 0 ? Dim(i) : length + Dim(i);
  sizes[axis] = 1;
  std::vector<int64_t> steps(sizes.size(), 1);
  Value* row = rewriter.make(Op::slice, {data},
                             {{"starts", std::move(starts)}, {"sizes", std::move(sizes)}, {"steps", std::move(steps)}});
  return row ? rewriter.make(Op::reshape, {row}, {{"shape", root.result()->type.shape}}) : nullptr;
}

// gather(x, broadcast(i)) -> broadcast(gather(x, i))   (where the broadcast adds no axes: token type and position
// embeddings are then read once and not once a batch row)
Value* gather_of_broadcast(Operation& root, Rewriter& rewriter) {
  Operation* broadcast = defined_by(root.operand(1), Op::broadcast);
  if (!broadcast || broadcast->operand(0)->type.rank() != root.operand(1)->type.rank()) return nullptr;
  Value* smaller = rewriter.make(Op::gather, {root.operand(0), broadcast->operand(0)}, root.attributes);
  return smaller ? rewriter.make(Op::broadcast, {smaller}, {{"shape", root.result()->type.shape}}) : nullptr;
}

// --- matmul ---

bool swaps_last_two(const Operation& transpose) {
  const std::vector<int64_t>& perm = transpose.attributes.integers("perm");
  int64_t rank = static_cast<int64_t>(perm.size());
  if (rank < 2 || perm[perm.size() - 2] != rank - 1 || perm[perm.size() - 1] != rank - 2) return false;
  for (int64_t i = 0; i + 2 < rank; ++i) {
    if (perm[static_cast<size_t>(i)] != i) return false;
  }
  return true;
}

// matmul(transpose(x), y) -> matmul(x, y) {transpose_lhs}   and the same for the right side
Value* matmul_of_transpose(Operation& root, Rewriter& rewriter) {
  for (size_t side : {0, 1}) {
    Operation* transpose = defined_by(root.operand(side), Op::transpose);
    if (!transpose || !swaps_last_two(*transpose)) continue;
    std::string_view flag = side == 0 ? "transpose_lhs" : "transpose_rhs";
    AttributeList attributes = root.attributes;
    attributes.set(flag, !attributes.boolean(flag));
    std::vector<Value*> operands = root.operands();
    operands[side] = transpose->operand(0);
    return rewriter.make(Op::matmul, std::move(operands), std::move(attributes));
  }
  return nullptr;
}

constexpr Rule rules[] = {
    {Op::reshape, same_type},
    {Op::reshape, skip_inner},
    {Op::reshape, split_before_transpose},
    {Op::broadcast, same_type},
    {Op::broadcast, skip_inner},
    {Op::broadcast, broadcast_to_reshape},
    {Op::transpose, transpose_to_reshape},
    {Op::transpose, merge_transposes},
    {Op::slice, slice_everything},
    {Op::slice, merge_slices},
    {Op::slice, slice_of_concat},
    {Op::concat, drop_empty_parts},
    {Op::concat, flatten_concat},
    {Op::pad, pad_nothing},
    {Op::gather, gather_one},
    {Op::gather, gather_of_broadcast},
    {Op::matmul, matmul_of_transpose},
};

}  // namespace

std::span<const Rule> movement_rules() { return rules; }

}  // namespace rtx
