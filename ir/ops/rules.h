// What the infer functions of several families share: the rules that are not special to one op.
//
//   dtype_c1      the named operands have one dtype
//   axis_c1       an axis attribute is in [0, rank)
//   broadcast_c1  aligned from the right, axes are equal or one of them is 1; a symbol is not taken to be 1
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "ir/op.h"

namespace rtx {

// An invalid-input diagnostic of the rule `id`, with the operand types as what was found.
Diagnostic rule_error(const InferContext& context, std::string_view id, std::string_view message, std::string expected);

// dtype_c1 for the operands from `first` on.
Result<void> check_same_dtype(const InferContext& context, size_t first = 0);

// axis_c1.
Result<int64_t> check_axis(const InferContext& context, std::string_view attribute, int rank);

// broadcast_c1 over two shapes, or over all operands from `first` on.
Result<Shape> broadcast_shapes(const InferContext& context, const Shape& a, const Shape& b);
Result<Shape> broadcast_operands(const InferContext& context, size_t first = 0);

// True if `dim` is known to be negative without knowing any symbol.
bool known_negative(const Dim& dim);

// The record of an operation that convert_precision takes along with its operands (Precision::follows).
constexpr OpSpec following(OpSpec record) {
  record.precision = Precision::follows;
  return record;
}

// The result has the type of the first operand.
Result<std::vector<Type>> infer_same_type(const InferContext& context);

}  // namespace rtx
