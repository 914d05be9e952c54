// fused -> planned: the kernels of a module, each once, and for every function the steps and the memory they run in.
#pragma once

#include <memory>
#include <optional>
#include <span>
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

// What makes a program a variant of another one: dims that are constants in it.
struct VariantPlan {
  uint32_t of = 0;  // program
  SymbolValues dims;
};

struct ProgramPlan {
  std::string name;
  uint32_t function = 0;  // of the module, or of `specialized`
  std::optional<VariantPlan> variant;
  std::shared_ptr<const Module> specialized;  // with the dims of `variant` constant; null: no variant
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
  // For each of these a variant of every function, with these dims constant. They share the weights, and kernels that
  // come out equal. Under batch_invariant a variant runs the kernels of its general program: the same code gives the
  // same bits.
  std::vector<SymbolValues> specializations;
};

// E413 (usage): a dim that the module does not have, a size outside its range, a specialization that stands twice or
// that names no dim.
Result<void> check_specializations(const Module& module, std::span<const SymbolValues> specializations);

// A fusion that its planner refuses is an error that names the origins of the fusion; all of them are reported. `log`
// holds what was decided about its fusions before.
Result<ModulePlan> plan_module(const Module& module, const PlanOptions& options = {}, const DecisionLog& log = {});

}  // namespace rtx::codegen
