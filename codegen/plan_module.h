// fused -> planned: the kernels of a module, each once, and for every function the steps and the memory they run in.
#pragma once

#include <string>
#include <vector>

#include "codegen/kernel_plan.h"
#include "codegen/plan_memory.h"

namespace rtx::codegen {

struct StepPlan {
  uint32_t kernel = 0;
  std::vector<uint32_t> operands, results, scratch;  // buffers; see package::Step
  std::vector<std::string> origins;
  std::vector<Decision> decisions;  // why it is a kernel of its own
};

struct ProgramPlan {
  std::string name;
  MemoryPlan memory;
  std::vector<StepPlan> steps;
};

struct ModulePlan {
  std::vector<KernelPlan> kernels;  // in order of first use; equal bodies share one
  std::vector<std::string> weights;
  std::vector<ProgramPlan> programs;
  std::string tuning_table;  // SHA-256 of the table that plans were chosen by; empty: none

  std::string str() const;
};

struct PlanOptions {
  // What every kernel must keep at least.
  package::Determinism determinism = package::Determinism::run_to_run;
  // False for a package without machine code: no memory for workspaces and counters of launches.
  bool with_launches = true;
  TuningTable* tuning = nullptr;
};

// A fusion that its planner refuses is an error that names the origins of the fusion; all of them are reported. `log`
// holds what was decided about its fusions before.
Result<ModulePlan> plan_module(const Module& module, const PlanOptions& options = {}, const DecisionLog& log = {});

}  // namespace rtx::codegen
