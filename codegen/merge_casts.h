// fused -> fused: a fusion that only casts floats moves into the fusion that makes its operand, maybe through a
// reshape: what is read in two types is computed once and stored twice, what is read in one is stored in that type.
#pragma once

#include "codegen/kernel_plan.h"

namespace rtx::codegen {

// Moves a cast where its operand has no other use; with `shared`, also where it has. Only into fusions whose planner
// takes the result, and not into calls of cuBLASLt. Returns whether anything moved.
bool merge_casts(Block& block, const PlanContext& context, bool shared);

}  // namespace rtx::codegen
