// fused -> fused: a fusion that only casts floats moves into the fusion that makes its operand, maybe through a
// reshape: what is read in two types is computed once and stored twice, what is read in one is stored in that type.
#pragma once

#include "codegen/kernel_plan.h"

namespace rtx::codegen {

// Only into fusions whose planner takes the result, and not into calls of cuBLASLt. With `to_half`, casts to 16 bits
// alone: their readers are products and attention, which take nothing in. Returns whether anything moved.
bool merge_casts(Block& block, const PlanContext& context, bool to_half);

}  // namespace rtx::codegen
