// How a row kernel cuts the work of its row operation: plan_row makes such kernels, merge_fusions asks how often they
// read an element.
#pragma once

#include <optional>

#include "ir/module.h"

namespace rtx::codegen {

inline constexpr int64_t longest_warp_row = 1024;  // longer ones are a block's
inline constexpr int most_kept_elements = 32;      // a thread

bool is_reduction(Op op);
// Norms, softmax and reductions.
bool is_row_op(Op op);

// The rows of an operand [outer, length, inner]: element j of row r is (r / inner * length + j) * inner + r % inner.
struct RowShape {
  Dim outer, length, inner;
  int group = 0;  // threads that work on one row
  int kept = 0;   // elements of a row that a thread holds in registers; 0: it reads the row again in each pass

  bool by_warp() const;
  // Whether rows are the last axis of the operand, of this shape.
  bool along(const Shape& shape) const;
};

// None where the reduced axes are not neighbours.
std::optional<RowShape> row_shape_of(const Operation& row_operation, const SymbolRanges& symbols);

// Whether an element of each value that depends on `value`, a value of the body of a row fusion behind its row
// operation, needs no element of `value` outside of its row: only elementwise operations of its shape follow, or rope
// where `along_row`: rows are its last axis.
bool stays_in_row(const Value& value, bool along_row);

// How many times the kernel computes each element of the operand of the row operation.
int row_passes(const Operation& row_operation, const RowShape& shape);

}  // namespace rtx::codegen
