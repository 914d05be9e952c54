// A module (or an ONNX import of one) to a package on disk: canonical pipeline, fusions, plans, CUDA, machine code,
// manifest. Equal modules and options give equal bytes.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "codegen/plan_module.h"
#include "ir/module.h"
#include "passes/convert_precision.h"

namespace rtx::codegen {

struct BuildOptions {
  std::vector<std::string> archs;  // "sm_90a" ...; empty: a package for the CPU device alone
  // What every kernel must keep at least; run_to_run or batch_invariant.
  package::Determinism determinism = package::Determinism::run_to_run;
  // f16 or bf16: convert_precision runs, with these globs; its report goes to the caller's, if one is given.
  std::optional<DType> amp;
  std::vector<std::string> keep_f32;
  PrecisionReport* precision_report = nullptr;
  TuningTable* tuning = nullptr;                   // plans to take; if given
  int jobs = 1;                                    // compiler processes
  std::string kernel_cache;                        // folder; empty: none
  std::string compiler_worker = "/proc/self/exe";  // a program that serves nvrtc_worker_main
  // Dims that are constants in a variant of each program, beside the general one; see PlanOptions.
  std::vector<SymbolValues> specializations;
  // Called with the text of each phase ("canonical.rtxir", "fused.rtxir", "plan.txt", "kernels/NAME.cu"); may be empty.
  std::function<Result<void>(std::string_view name, std::string_view text)> dump;
  // Called when a phase ends; may be empty.
  std::function<void(std::string_view phase, double elapsed_ms)> on_phase;
  // Called while kernels compile; may be empty.
  std::function<void(size_t done, size_t all)> on_kernel;
  // Called while weights are written, with bytes; may be empty.
  std::function<void(int64_t done, int64_t all)> on_weights;
  // Trouble that costs time only; may be empty.
  std::function<void(const Diagnostic&)> on_warning;
};

// canonical -> planned; `module` is left in stage fused.
Result<ModulePlan> plan(Module& module, const BuildOptions& options);

// Takes a module of stage imported or canonical; it is left in stage fused. The folder `path` appears whole or not at
// all, and replaces an older package there.
Result<void> build_package(Module& module, const std::string& path, const BuildOptions& options);

}  // namespace rtx::codegen
