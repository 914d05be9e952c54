#include "codegen/plan_module.h"

#include <map>

#include "base/text.h"
#include "codegen/plan_common.h"
#include "codegen/plan_kernel.h"
#include "ir/text.h"

namespace rtx::codegen {
namespace {

class ModulePlanner {
 public:
  ModulePlanner(const Module& module, const PlanOptions& options, const DecisionLog& log)
      : module_(module), options_(options), log_(log) {}

  Result<ModulePlan> run() {
    for (const auto& function : module_.functions) {
      ProgramPlan program;
      program.name = function->name;
      for (const auto& operation : function->block.operations()) {
        if (operation->is(Op::fusion)) program.steps.emplace_back().kernel = plan_step(*operation);
      }
      plan_.programs.push_back(std::move(program));
    }
    if (!refusals_.empty()) return Error(std::move(refusals_));
    for (size_t i = 0; i < plan_.programs.size(); ++i) RTX_TRY(place(*module_.functions[i], plan_.programs[i]));
    return std::move(plan_);
  }

 private:
  // The kernel of a fusion; an equal one is used again.
  uint32_t plan_step(const Operation& fusion) {
    const std::string& kind = fusion.attributes.string("kind");
    const std::string key = concat(kind, "\n", print_body(*fusion.body()));
    auto [known, is_new] = kernel_of_.try_emplace(key, static_cast<uint32_t>(plan_.kernels.size()));
    if (!is_new) return known->second;
    Result<KernelPlan> planned =
        plan_kernel(kind, *fusion.body(), {module_.symbols, options_.determinism, options_.tuning});
    if (planned && planned->determinism < options_.determinism)
      planned = refuse(kind, concat("it would promise ", package::to_string(planned->determinism), " only"));
    if (!planned) {
      Error error = std::move(planned).error().within(join(fusion.origins, ", "));
      for (Diagnostic& diagnostic : error.diagnostics) refusals_.push_back(std::move(diagnostic));
      plan_.kernels.emplace_back();
    } else {
      plan_.kernels.push_back(std::move(planned).value());
    }
    return known->second;
  }

  // Gives the steps of a program their buffers.
  Result<void> place(const Function& function, ProgramPlan& program) {
    std::vector<StepScratch> scratch;
    for (const StepPlan& step : program.steps) {
      const auto& launch = plan_.kernels[step.kernel].launch;
      scratch.emplace_back();
      if (launch && options_.with_launches) scratch.back() = {launch->workspace_bytes, launch->counters};
    }
    RTX_ASSIGN(program.memory, plan_memory(function, module_.symbols, scratch, plan_.weights));
    size_t next = 0;
    for (const auto& operation : function.block.operations()) {
      if (!operation->is(Op::fusion)) continue;
      StepPlan& step = program.steps[next];
      for (const Value* operand : operation->operands()) step.operands.push_back(program.memory.buffer_of.at(operand));
      for (size_t i = 0; i < operation->result_count(); ++i)
        step.results.push_back(program.memory.buffer_of.at(operation->result(i)));
      step.scratch = program.memory.scratch[next++];
      step.origins = operation->origins;
      if (auto found = log_.find(operation.get()); found != log_.end()) step.decisions = found->second;
    }
    return Ok{};
  }

  const Module& module_;
  const PlanOptions& options_;
  const DecisionLog& log_;
  ModulePlan plan_;
  std::map<std::string, uint32_t> kernel_of_;  // by kind and body
  std::vector<Diagnostic> refusals_;
};

}  // namespace

std::string ModulePlan::str() const {
  std::string text;
  for (size_t i = 0; i < kernels.size(); ++i) text += concat("kernel ", i, "\n", kernels[i].str(), "\n");
  auto number = [](uint32_t n) { return n; };
  for (const ProgramPlan& program : programs) {
    text += concat("program ", program.name, "\n", program.memory.str());
    for (const StepPlan& step : program.steps) {
      text += concat("step ", kernels[step.kernel].name, "(", join(step.operands, ", ", number), ") -> ",
                     join(step.results, ", ", number),
                     step.scratch.empty() ? "" : concat(" with ", join(step.scratch, ", ", number)), "\n");
      for (const Decision& decision : step.decisions) text += concat("  ", decision.str(), "\n");
    }
  }
  return text;
}

Result<ModulePlan> plan_module(const Module& module, const PlanOptions& options, const DecisionLog& log) {
  return ModulePlanner(module, options, log).run();
}

}  // namespace rtx::codegen
