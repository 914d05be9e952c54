// The planners: one a fusion kind, each returns a plan or the reason why its kind cannot take the body. There is no
// other way to refuse. Bodies are blocks that end in `yield`; arguments are the operands of the fusion.
#pragma once

#include "codegen/kernel_plan.h"

namespace rtx::codegen {

// Any DAG of elementwise, movement and indexing operations; results of one element count. One thread a vector of
// elements.
Result<KernelPlan> plan_pointwise(const Block& body, const PlanContext& context);
// One reduction along one row (softmax, log_softmax, layer_norm, rms_norm, reduce_* and argmax of one axis), with
// elementwise operations before it and, where the row stays whole, after it. A warp or a block a row; the order of
// summation depends on the row length alone.
Result<KernelPlan> plan_row(const Block& body, const PlanContext& context);
// Reductions over any axes; one thread an element of the result, in index order.
Result<KernelPlan> plan_reduce(const Block& body, const PlanContext& context);
// One matmul, and what is done to each element of its result. Floats alone: cuBLASLt, else plan_gemm; integers: own
// code.
Result<KernelPlan> plan_contract(const Block& body, const PlanContext& context);
// One convolution, direct; one thread an element of the result.
Result<KernelPlan> plan_conv(const Block& body, const PlanContext& context);
// One cumsum; one thread a row, in index order.
Result<KernelPlan> plan_scan(const Block& body, const PlanContext& context);

// One attention over views of its operands, with masks that can be computed element by element, and the moves that join
// its heads again. A block some rows of a kv head (codegen/attention_parts.h).
Result<KernelPlan> plan_attention(const Block& body, const PlanContext& context);

// One scatter; one thread an element of the result, which walks the updates that may be for it in index order.
Result<KernelPlan> plan_scatter(const Block& body, const PlanContext& context);
// One topk; one thread an element of the operand, which counts the elements of its row that come before it.
Result<KernelPlan> plan_sort(const Block& body, const PlanContext& context);

// The planner of `kind`; an unknown kind is an internal error.
Result<KernelPlan> plan_kernel(std::string_view kind, const Block& body, const PlanContext& context);

}  // namespace rtx::codegen
