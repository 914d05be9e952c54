#include "codegen/make_manifest.h"

#include <algorithm>
#include <map>

#include "base/text.h"

namespace rtx::codegen {
namespace {

using package::Formula;

class ManifestMaker {
 public:
  ManifestMaker(const Module& module, const ModulePlan& plan) : module_(module), plan_(plan) {}

  Result<package::Manifest> make(bool with_launches) {
    manifest_.producer = concat("rtx-compile ", RTX_VERSION);
    manifest_.determinism = package::Determinism::gpu_to_gpu;
    for (const auto& [name, range] : module_.symbols) {
      manifest_.symbols.push_back({name, range.min, range.max, range.opt});
    }
    symbols_ = manifest_.symbol_names();
    manifest_.weights = plan_.weights;
    manifest_.tuning_table = plan_.tuning_table;
    size_t steps = 0;
    for (const ProgramPlan& program : plan_.programs) steps += program.steps.size();
    explains_steps_ = steps <= most_explained_steps;
    for (const KernelPlan& kernel : plan_.kernels) {
      RTX_ASSIGN(package::Kernel made, make_kernel(kernel, with_launches));
      manifest_.determinism = std::min(manifest_.determinism, made.determinism);
      manifest_.kernels.push_back(std::move(made));
    }
    if (plan_.kernels.empty()) manifest_.determinism = package::Determinism::batch_invariant;
    for (const ProgramPlan& plan : plan_.programs) {
      const Module& module = plan.specialized ? *plan.specialized : module_;
      RTX_ASSIGN(package::Program program, make_program(*module.functions[plan.function], plan));
      manifest_.programs.push_back(std::move(program));
    }
    return std::move(manifest_);
  }

 private:
  Result<Formula> formula(const Dim& dim) const {
    if (dim.overflowed()) return make_error(ErrorKind::limit, "E511", "a size does not fit 64 bits");
    Result<Formula> parsed = Formula::parse(dim.str(), symbols_);
    if (!parsed) return std::move(parsed).error().within(concat("formula '", dim.str().substr(0, 200), "'"));
    return parsed;
  }

  Result<package::Kernel> make_kernel(const KernelPlan& plan, bool with_launches) {
    package::Kernel kernel;
    kernel.name = plan.name;
    kernel.kind = plan.key.kind;
    kernel.cache_key = plan.key.sha256();
    kernel.body = plan.body;
    // The CPU device sums in a fixed order, whatever the GPU's library does.
    kernel.determinism = with_launches ? plan.determinism : package::Determinism::batch_invariant;
    RTX_ASSIGN(kernel.flops, formula(plan.flops));
    RTX_ASSIGN(kernel.bytes, formula(plan.bytes));
    kernel.plan = plan.key.tile;
    kernel.unit = plan.unit;
    kernel.percent = plan.percent;
    RTX_ASSIGN(kernel.decisions, intern(plan.considered));
    if (!with_launches) return kernel;
    if (plan.launch) {
      package::Launch launch;
      launch.function = plan.launch->function;
      for (size_t i = 0; i < 3; ++i) {
        RTX_ASSIGN(launch.grid[i], formula(plan.launch->grid[i]));
      }
      launch.block = plan.launch->block;
      RTX_ASSIGN(launch.shared_bytes, formula(plan.launch->shared_bytes));
      RTX_ASSIGN(launch.workspace_bytes, formula(plan.launch->workspace_bytes));
      RTX_ASSIGN(launch.counters, formula(plan.launch->counters));
      for (const Dim& scalar : plan.launch->scalars) {
        RTX_ASSIGN(Formula parsed, formula(scalar));
        launch.scalars.push_back(std::move(parsed));
      }
      kernel.launch = std::move(launch);
    }
    if (plan.matmul) {
      package::MatmulCall call;
      RTX_ASSIGN(call.batch, formula(plan.matmul->batch));
      RTX_ASSIGN(call.m, formula(plan.matmul->m));
      RTX_ASSIGN(call.n, formula(plan.matmul->n));
      RTX_ASSIGN(call.k, formula(plan.matmul->k));
      call.transpose_lhs = plan.matmul->transpose_lhs;
      call.transpose_rhs = plan.matmul->transpose_rhs;
      RTX_ASSIGN(call.lhs_batch_stride, formula(plan.matmul->lhs_batch_stride));
      RTX_ASSIGN(call.rhs_batch_stride, formula(plan.matmul->rhs_batch_stride));
      call.dtype = plan.matmul->dtype;
      call.bias = plan.matmul->bias;
      call.residual = plan.matmul->residual;
      kernel.matmul = std::move(call);
    }
    return kernel;
  }

  Result<package::TensorSpec> tensor_spec(const std::string& name, const Type& type) const {
    package::TensorSpec spec{name, type.dtype, {}};
    for (const Dim& dim : type.shape) {
      RTX_ASSIGN(Formula parsed, formula(dim));
      spec.shape.push_back(std::move(parsed));
    }
    return spec;
  }

  Result<package::Program> make_program(const Function& function, const ProgramPlan& plan) {
    package::Program program;
    program.name = plan.name;
    for (size_t i = 0; i < function.block.argument_count(); ++i) {
      const Value* argument = function.block.argument(i);
      RTX_ASSIGN(package::TensorSpec spec, tensor_spec(argument->name, argument->type));
      program.inputs.push_back(std::move(spec));
      if (function.when && function.when->input == argument->name)
        program.when = package::Selector{static_cast<uint32_t>(i), function.when->value};
    }
    if (plan.variant) {
      program.variant = package::Variant{plan.variant->of, {}};
      for (const auto& [name, size] : plan.variant->dims) {
        const auto symbol = std::find(symbols_.begin(), symbols_.end(), name) - symbols_.begin();
        program.variant->dims.push_back({static_cast<uint32_t>(symbol), size});
      }
    }
    const auto& results = function.block.terminator()->operands();
    for (size_t i = 0; i < results.size(); ++i) {
      RTX_ASSIGN(package::TensorSpec spec, tensor_spec(function.output_names[i], results[i]->type));
      program.outputs.push_back(std::move(spec));
    }
    for (const Dim& piece : plan.memory.arena) {
      RTX_ASSIGN(Formula parsed, formula(piece));
      program.arena.push_back(std::move(parsed));
    }
    for (const BufferPlan& buffer : plan.memory.buffers) {
      RTX_ASSIGN(Formula bytes, formula(buffer.bytes));
      program.buffers.push_back({buffer.kind, buffer.index, std::move(bytes)});
    }
    for (const StepPlan& step : plan.steps) {
      std::vector<uint32_t> decisions;
      if (explains_steps_) {
        RTX_ASSIGN(decisions, intern(step.decisions));
      }
      program.steps.push_back(
          {step.kernel, step.operands, step.results, step.scratch, step.origins, std::move(decisions)});
    }
    return program;
  }

  // Positions in the list of decisions, each of which stands there once.
  Result<std::vector<uint32_t>> intern(const std::vector<Decision>& decisions) {
    std::vector<uint32_t> positions;
    for (const Decision& decision : decisions) {
      const auto [known, is_new] =
          known_decisions_.try_emplace(decision.str(), static_cast<uint32_t>(manifest_.decisions.size()));
      if (is_new) {
        RTX_ASSIGN(package::Decision made, make_decision(decision));
        manifest_.decisions.push_back(std::move(made));
      }
      if (std::find(positions.begin(), positions.end(), known->second) == positions.end())
        positions.push_back(known->second);
    }
    return positions;
  }

  Result<package::Decision> make_decision(const Decision& decision) const {
    package::Decision made;
    made.subject = shortened(decision.subject, package::longest_decision_subject);
    if (decision.operand >= 0) made.operand = static_cast<uint32_t>(decision.operand);
    made.chosen = decision.chosen;
    made.reason = shortened(decision.reason, package::longest_decision_reason);
    for (const Work& work : decision.launches) {
      package::PlannedWork planned{work.unit, work.percent, {}, {}};
      RTX_ASSIGN(planned.flops, formula(work.flops));
      RTX_ASSIGN(planned.bytes, formula(work.bytes));
      made.launches.push_back(std::move(planned));
    }
    return made;
  }

  // Reasons are ASCII: names of operations and dims, shapes, numbers.
  static std::string shortened(const std::string& text, size_t longest) {
    return text.size() <= longest ? text : concat(text.substr(0, longest - 3), "...");
  }

  const Module& module_;
  const ModulePlan& plan_;
  bool explains_steps_ = true;
  package::Manifest manifest_;
  std::vector<std::string> symbols_;
  std::map<std::string, uint32_t> known_decisions_;  // by Decision::str()
};

}  // namespace

Result<package::Manifest> make_manifest(const Module& module, const ModulePlan& plan, bool with_launches) {
  return ManifestMaker(module, plan).make(with_launches);
}

}  // namespace rtx::codegen
