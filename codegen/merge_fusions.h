// fused -> fused: fewer, larger kernels. In this order:
//
//   product -> one addition      of a bias or a residual
//   pointwise -> pointwise, row  the work moves into all that read it, maybe through a reshape, where doing it there is
//                                estimated to cost less than a kernel and what it stores
//   row -> elementwise           done where the row is stored (scale after a norm, a cast)
//   product -> elementwise       on its elements, also through a reshape; where plan_contract accepts that and
//                                estimates that one kernel is faster
//   elementwise -> row           that others read too: a second result of the row kernel (residual + norm)
//   cast -> what it reads        a further result of the kernel that makes its operand (merge_casts.h); casts to 16
//   bits
//                                before all else, others at the end
//   pointwise | pointwise        that share what they read, or what reads them: one kernel does both side by side
//
// Values keep their rounding, so results keep their bits under the evaluator. merge_rules.h has the conditions.
#pragma once

#include "codegen/decision.h"
#include "ir/module.h"
#include "runtime/package/manifest.h"

namespace rtx::codegen {

class TuningTable;

// `module` is in stage fused and stays there. `determinism` is what the kernels must keep. Returns whether anything was
// merged. `log`, if given, gets a decision for each operand of a fusion that another fusion makes: why the two are
// still apart. `tuning`, if given, decides for the products that it knows.
bool merge_fusions(Module& module, package::Determinism determinism = package::Determinism::run_to_run,
                   DecisionLog* log = nullptr, TuningTable* tuning = nullptr);

}  // namespace rtx::codegen
