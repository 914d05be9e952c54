// Moves of elements that cost nothing when their result is read: reshape, transpose, slice and broadcast as strides.
#pragma once

#include <optional>
#include <vector>

#include "ir/module.h"

namespace rtx::codegen {

// Element [i0, i1, ...] lies at offset + sum(i_axis * strides[axis]), counted in elements of the buffer.
struct StridedView {
  Dim offset;
  std::vector<Dim> strides;  // one an axis
};

StridedView row_major_view(const Shape& shape);

// The result of a move, where its operand is seen through `operand`. Null for other operations, and where the elements
// of one axis do not lie evenly.
std::optional<StridedView> view_of_result(const Operation& move, const StridedView& operand);
// The other way: where each element of the operand goes when the result lies as `result`. For transpose and reshape.
std::optional<StridedView> view_of_operand(const Operation& move, const StridedView& result);

// The value as a view of `base`, which it is made from by moves.
struct ViewOf {
  const Value* base = nullptr;
  StridedView view;
};
// The furthest value back of which `value` is a view; itself if nothing else.
ViewOf furthest_base(const Value* value);

}  // namespace rtx::codegen
