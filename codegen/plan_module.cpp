#include "codegen/plan_module.h"

#include <algorithm>
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
    for (size_t i = 0; i < module_.functions.size(); ++i) {
      ProgramPlan& program = plan_.programs.emplace_back();
      program.name = module_.functions[i]->name;
      program.function = static_cast<uint32_t>(i);
      add_steps(module_, program, nullptr);
    }
    for (const SymbolValues& dims : options_.specializations) add_variants(dims);
    if (!refusals_.empty()) return Error(std::move(refusals_));
    for (ProgramPlan& program : plan_.programs)
      RTX_TRY(place(program.specialized ? *program.specialized : module_, program));
    return std::move(plan_);
  }

 private:
  // `general`: of a variant, what it is a variant of; it has the same fusions in the same order.
  void add_steps(const Module& module, ProgramPlan& program, const ProgramPlan* general) {
    const bool same_kernels = general && options_.determinism >= package::Determinism::batch_invariant;
    for (const auto& operation : module.functions[program.function]->block.operations()) {
      if (!operation->is(Op::fusion)) continue;
      const size_t index = program.steps.size();
      StepPlan& step = program.steps.emplace_back();
      step.kernel = same_kernels ? general->steps[index].kernel : plan_step(*operation, module.symbols);
      step.origins = operation->origins;
      if (general) {
        step.decisions = general->steps[index].decisions;
      } else if (auto found = log_.find(operation.get()); found != log_.end()) {
        step.decisions = found->second;
      }
    }
  }

  void add_variants(const SymbolValues& dims) {
    const std::shared_ptr<Module> specialized = module_.clone();
    std::string suffix;
    for (const auto& [symbol, size] : dims) {
      specialized->substitute(symbol, Dim(size));
      suffix += concat(".", symbol, "_", size);
    }
    for (uint32_t i = 0; i < module_.functions.size(); ++i) {
      ProgramPlan variant;
      variant.name = concat(plan_.programs[i].name, suffix);
      auto is_taken = [&](const ProgramPlan& program) { return program.name == variant.name; };
      while (std::any_of(plan_.programs.begin(), plan_.programs.end(), is_taken)) variant.name += "_";
      variant.function = i;
      variant.variant = VariantPlan{i, dims};
      variant.specialized = specialized;
      add_steps(*specialized, variant, &plan_.programs[i]);
      plan_.programs.push_back(std::move(variant));
    }
  }

  // The kernel of a fusion; an equal one is used again.
  uint32_t plan_step(const Operation& fusion, const SymbolRanges& symbols) {
    const std::string& kind = fusion.attributes.string("kind");
    const std::string key = concat(kind, "\n", print_body(*fusion.body()));
    auto [known, is_new] = kernel_of_.try_emplace(key, static_cast<uint32_t>(plan_.kernels.size()));
    if (!is_new) return known->second;
    Result<KernelPlan> planned = plan_kernel(kind, *fusion.body(), {symbols, options_.determinism, options_.tuning});
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
  Result<void> place(const Module& module, ProgramPlan& program) {
    const Function& function = *module.functions[program.function];
    std::vector<StepScratch> scratch;
    for (const StepPlan& step : program.steps) {
      const auto& launch = plan_.kernels[step.kernel].launch;
      scratch.emplace_back();
      if (launch && options_.with_launches) scratch.back() = {launch->workspace_bytes, launch->counters};
    }
    RTX_ASSIGN(program.memory, plan_memory(function, module.symbols, scratch, plan_.weights));
    size_t next = 0;
    for (const auto& operation : function.block.operations()) {
      if (!operation->is(Op::fusion)) continue;
      StepPlan& step = program.steps[next];
      for (const Value* operand : operation->operands()) step.operands.push_back(program.memory.buffer_of.at(operand));
      for (size_t i = 0; i < operation->result_count(); ++i)
        step.results.push_back(program.memory.buffer_of.at(operation->result(i)));
      step.scratch = program.memory.scratch[next++];
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

Result<void> check_specializations(const Module& module, std::span<const SymbolValues> specializations) {
  auto usage = [](std::string message) { return make_error(ErrorKind::usage, "E413", std::move(message)); };
  auto text = [](const SymbolValues& dims) {
    return join(dims, ",", [](const auto& dim) { return concat(dim.first, "=", dim.second); });
  };
  for (size_t i = 0; i < specializations.size(); ++i) {
    if (specializations[i].empty()) return usage("a specialization names no dim");
    for (const auto& [name, size] : specializations[i]) {
      const auto symbol = module.symbols.find(name);
      if (symbol == module.symbols.end())
        return usage(concat("the model has no dim '", escape_text(name), "' to specialize"))
            .with_expected(concat("one of: ", join(module.symbols, ", ", [](const auto& s) { return s.first; })));
      if (size < symbol->second.min || size > symbol->second.max)
        return usage(concat("cannot specialize for ", name, "=", size, ", which is outside the range of the dim"))
            .with_expected(concat(name, " from ", symbol->second.min, " to ", symbol->second.max));
    }
    for (size_t j = 0; j < i; ++j)
      if (specializations[i] == specializations[j])
        return usage(concat("the specialization ", text(specializations[i]), " is given twice"));
  }
  return Ok{};
}

Result<ModulePlan> plan_module(const Module& module, const PlanOptions& options, const DecisionLog& log) {
  return ModulePlanner(module, options, log).run();
}

}  // namespace rtx::codegen
