// Planner of matmul: the batch is written out as a list of matrices; a batch that shares its right side is one product.
#include "ir/ops/loops.h"
#include "runtime/cpu/body_planner.h"
#include "runtime/cpu/matmul_step.h"

namespace rtx::runtime::cpu {
namespace {

// The start of each matrix of an operand in the order of the result's batch.
std::vector<int64_t> batch_offsets(const std::vector<int64_t>& operand, const std::vector<int64_t>& batch) {
  Strides strides = broadcast_strides({operand.begin(), operand.end() - 2}, batch);
  for (int64_t& stride : strides) stride *= operand[operand.size() - 2] * operand[operand.size() - 1];
  std::vector<int64_t> offsets;
  for_each_element<1>(batch, {strides}, [&](int64_t, const auto& at) { offsets.push_back(at[0]); });
  return offsets;
}

}  // namespace

Result<bool> plan_matmul(BodyPlanner& planner, const Operation& operation) {
  const Value *lhs = operation.operand(0), *rhs = operation.operand(1);
  const ConcreteType lhs_type = planner.type(lhs), rhs_type = planner.type(rhs);
  const ConcreteType& type = planner.type(operation.result());
  if (!float_dtype(type.dtype)) return false;
  MatmulShape shape;
  shape.dtype = type.dtype;
  shape.transpose_lhs = operation.attributes.boolean("transpose_lhs");
  shape.transpose_rhs = operation.attributes.boolean("transpose_rhs");
  const size_t rank = type.shape.size();
  shape.m = type.shape[rank - 2];
  shape.n = type.shape[rank - 1];
  shape.k = lhs_type.shape[lhs_type.shape.size() - (shape.transpose_lhs ? 2 : 1)];
  if (shape.k != rhs_type.shape[rhs_type.shape.size() - (shape.transpose_rhs ? 1 : 2)]) return false;

  const std::vector<int64_t> batch(type.shape.begin(), type.shape.end() - 2);
  const int64_t count = extent(batch, 0, batch.size());
  if (rhs_type.elements() == shape.k * shape.n && !shape.transpose_lhs && lhs_type.elements() == count * shape.m * shape.k) {
    shape.m *= count;
    if (shape.m > 0) shape.lhs_offsets = shape.rhs_offsets = shape.result_offsets = {0};
  } else {
    shape.lhs_offsets = batch_offsets(lhs_type.shape, batch);
    shape.rhs_offsets = batch_offsets(rhs_type.shape, batch);
    for (int64_t i = 0; i < count; ++i) shape.result_offsets.push_back(i * shape.m * shape.n);
  }
  RTX_ASSIGN(Place left, planner.contiguous(lhs));
  RTX_ASSIGN(Place right, planner.contiguous(rhs));
  RTX_ASSIGN(Place to, planner.define(operation.result()));
  planner.add<MatmulStep>(std::move(shape), planner.isa(), left, right, to);
  return true;
}

}  // namespace rtx::runtime::cpu
