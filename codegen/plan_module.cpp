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
  ModulePlanner(const Module& module, package::Determinism determinism, const DecisionLog& log)
      : module_(module), determinism_(determinism), log_(log) {}

  Result<ModulePlan> run() {
    for (const auto& function : module_.functions) {
      ProgramPlan program;
      program.name = function->name;
      RTX_ASSIGN(program.memory, plan_memory(*function, module_.symbols, plan_.weights));
      for (const auto& operation : function->block.operations()) {
        if (operation->is(Op::fusion)) add_step(*operation, program);
      }
      plan_.programs.push_back(std::move(program));
    }
    if (!refusals_.empty()) return Error(std::move(refusals_));
    return std::move(plan_);
  }

 private:
  void add_step(const Operation& fusion, ProgramPlan& program) {
    const std::string& kind = fusion.attributes.string("kind");
    const std::string key = concat(kind, "\n", print_body(*fusion.body()));
    auto [known, is_new] = kernel_of_.try_emplace(key, static_cast<uint32_t>(plan_.kernels.size()));
    if (is_new) {
      Result<KernelPlan> planned = plan_kernel(kind, *fusion.body(), {module_.symbols, determinism_});
      if (planned && planned->determinism < determinism_)
        planned = refuse(kind, concat("it would promise ", package::to_string(planned->determinism), " only"));
      if (!planned) {
        Error error = std::move(planned).error().within(join(fusion.origins, ", "));
        for (Diagnostic& diagnostic : error.diagnostics) refusals_.push_back(std::move(diagnostic));
        plan_.kernels.emplace_back();
      } else {
        plan_.kernels.push_back(std::move(planned).value());
      }
    }
    StepPlan step;
    step.kernel = known->second;
    for (const Value* operand : fusion.operands()) step.operands.push_back(program.memory.buffer_of.at(operand));
    for (size_t i = 0; i < fusion.result_count(); ++i)
      step.results.push_back(program.memory.buffer_of.at(fusion.result(i)));
    step.origins = fusion.origins;
    if (auto found = log_.find(&fusion); found != log_.end()) step.decisions = found->second;
    program.steps.push_back(std::move(step));
  }

  const Module& module_;
  package::Determinism determinism_;
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
                     join(step.results, ", ", number), "\n");
      for (const Decision& decision : step.decisions) text += concat("  ", decision.str(), "\n");
    }
  }
  return text;
}

Result<ModulePlan> plan_module(const Module& module, package::Determinism determinism, const DecisionLog& log) {
  return ModulePlanner(module, determinism, log).run();
}

}  // namespace rtx::codegen
