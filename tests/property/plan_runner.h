// Carries out a plan as a runtime would, on the host: values live at the offsets of their buffers in one arena, which
// starts poisoned; each step reads its operands from there and writes its results there.
#pragma once

#include <functional>
#include <vector>

#include "codegen/plan_module.h"
#include "ir/evaluate.h"

namespace rtx::testing {

// Computes one kernel: results from operands.
using KernelFunction =
    std::function<Result<std::vector<Tensor>>(uint32_t kernel, const Block& body, const std::vector<Tensor>& operands)>;

// The outputs of the module's first function. `module` is the fused one that `plan` was made from.
Result<std::vector<Tensor>> run_plan(const Module& module, const codegen::ModulePlan& plan,
                                     const std::vector<Tensor>& inputs, const SymbolValues& symbols,
                                     const KernelFunction& kernel);

}  // namespace rtx::testing
