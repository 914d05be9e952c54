// fused -> fused: a pointwise fusion moves into the one fusion that reads it, where each of its elements is still
// computed once:
//
//   pointwise -> elementwise     of the same shape
//   pointwise -> transpose       also through a reshape, which then stands in the body
//   elementwise -> row           as what is done to a row before it is reduced (residual + norm, mask + softmax)
//   product -> elementwise       on its elements, also through a reshape; where plan_contract accepts that and
//   estimates
//                                that one kernel is faster, and the elementwise work does not go before a row or a
//                                transpose anyway
//
// A value that is read twice, or is an output, stays where it is. Values keep their rounding, so results keep their
// bits under the evaluator.
#pragma once

#include "codegen/decision.h"
#include "ir/module.h"
#include "runtime/package/manifest.h"

namespace rtx::codegen {

// `module` is in stage fused and stays there. `determinism` is what the kernels must keep. Returns whether anything was
// merged. `log`, if given, gets a decision for each operand of a fusion that another fusion makes: why the two are
// still apart.
bool merge_fusions(Module& module, package::Determinism determinism = package::Determinism::run_to_run,
                   DecisionLog* log = nullptr);

}  // namespace rtx::codegen
