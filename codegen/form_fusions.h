// canonical -> fused: every computation becomes a `fusion` whose kind names its planner (plan_kernel.h). One operation
// a fusion, attention with the moves around it (form_attention.h); scalar constants move into the bodies, other
// constants become weights. What stays outside: weight, reshape (an alias of its operand) and the fusions.
//
// Guarantees to the planners and to plan_memory: a float matmul has a batch that cuBLASLt can step through (a broadcast
// that it cannot is materialised before it), and each output of a function is the result of a fusion, or a reshape of
// one, that no other output shares (where it is not, a fusion that copies is put before it).
#pragma once

#include "base/result.h"
#include "codegen/decision.h"
#include "ir/module.h"

namespace rtx::codegen {

// Leaves the module in stage `fused`. Adds the constants it turned into weights to the module's store. `log`, if given,
// gets a decision for each attention that is not one kernel.
Result<void> form_fusions(Module& module, OriginLog* log = nullptr);

}  // namespace rtx::codegen
