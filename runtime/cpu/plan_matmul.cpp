// Planner of matmul: operands are multiplied where they lie, whatever their strides; the batch is written out as a list
// of matrices, unless all of it multiplies one right side: then it is one product.
#include "ir/ops/loops.h"
#include "runtime/cpu/body_planner.h"
#include "runtime/cpu/matmul_step.h"

namespace rtx::runtime::cpu {
namespace {

// The strides of a view along the result's batch axes, 0 where the operand is repeated.
Strides batch_strides(const ConcreteType& type, const View& view, size_t batch_rank) {
  const size_t own = type.shape.size() - 2;
  Strides strides(batch_rank, 0);
  for (size_t i = 0; i < own; ++i) {
    if (type.shape[i] != 1) strides[batch_rank - own + i] = view.strides[i];
  }
  return strides;
}

// Whether the rows of all matrices of the batch follow each other with one stride.
bool is_one_matrix(const std::vector<int64_t>& batch, const Strides& strides, int64_t rows, int64_t row_stride) {
  int64_t next = rows * row_stride;
  for (size_t i = batch.size(); i-- > 0;) {
    if (batch[i] == 1) continue;
    if (strides[i] != next) return false;
    next *= batch[i];
  }
  return true;
}

MatmulShape::Strides matrix_strides(const View& view, bool transposed) {
  const size_t rank = view.strides.size();
  const int64_t row = view.strides[rank - 2], column = view.strides[rank - 1];
  return transposed ? MatmulShape::Strides{column, row} : MatmulShape::Strides{row, column};
}

}  // namespace

Result<bool> plan_matmul(BodyPlanner& planner, const Operation& operation) {
  const Value *lhs = operation.operand(0), *rhs = operation.operand(1);
  const ConcreteType &lhs_type = planner.type(lhs), &rhs_type = planner.type(rhs),
                     &type = planner.type(operation.result());
  if (!number_dtype(type.dtype) || bit_width(type.dtype) < 8) return false;
  const bool transpose_lhs = operation.attributes.boolean("transpose_lhs");
  const bool transpose_rhs = operation.attributes.boolean("transpose_rhs");
  const size_t rank = type.shape.size();
  MatmulShape shape;
  shape.dtype = type.dtype;
  shape.m = type.shape[rank - 2];
  shape.n = type.shape[rank - 1];
  shape.k = lhs_type.shape[lhs_type.shape.size() - (transpose_lhs ? 2 : 1)];
  if (shape.k != rhs_type.shape[rhs_type.shape.size() - (transpose_rhs ? 1 : 2)]) return false;
  RTX_ASSIGN(Place to, planner.define(operation.result()));
  if (type.elements() == 0) return true;
  const View left = planner.view(lhs), right = planner.view(rhs);
  shape.lhs = matrix_strides(left, transpose_lhs);
  shape.rhs = matrix_strides(right, transpose_rhs);

  const std::vector<int64_t> batch(type.shape.begin(), type.shape.end() - 2);
  const std::array<Strides, 2> strides = {batch_strides(lhs_type, left, batch.size()),
                                          batch_strides(rhs_type, right, batch.size())};
  const int64_t count = extent(batch, 0, batch.size());
  if (strides[1] == Strides(batch.size(), 0) && is_one_matrix(batch, strides[0], shape.m, shape.lhs.row)) {
    shape.m *= count;
    shape.lhs_offsets = shape.rhs_offsets = shape.result_offsets = {0};
  } else {
    for_each_element<2>(batch, strides, [&](int64_t i, const auto& at) {
      shape.lhs_offsets.push_back(at[0]);
      shape.rhs_offsets.push_back(at[1]);
      shape.result_offsets.push_back(i * shape.m * shape.n);
    });
  }
  const int64_t bytes = bit_width(type.dtype) / 8;
  planner.add<MatmulStep>(std::move(shape), planner.isa(), Place{left.buffer, left.offset * bytes},
                          Place{right.buffer, right.offset * bytes}, to);
  return true;
}

}  // namespace rtx::runtime::cpu
