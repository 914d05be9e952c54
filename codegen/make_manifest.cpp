#include "codegen/make_manifest.h"

#include <algorithm>

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
    for (const KernelPlan& kernel : plan_.kernels) {
      RTX_ASSIGN(package::Kernel made, make_kernel(kernel, with_launches));
      manifest_.determinism = std::min(manifest_.determinism, made.determinism);
      manifest_.kernels.push_back(std::move(made));
    }
    if (plan_.kernels.empty()) manifest_.determinism = package::Determinism::batch_invariant;
    for (size_t i = 0; i < plan_.programs.size(); ++i) {
      RTX_ASSIGN(package::Program program, make_program(*module_.functions[i], plan_.programs[i]));
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

  Result<package::Kernel> make_kernel(const KernelPlan& plan, bool with_launches) const {
    package::Kernel kernel;
    kernel.name = plan.name;
    kernel.kind = plan.key.kind;
    kernel.cache_key = plan.key.sha256();
    kernel.body = plan.body;
    // The CPU device sums in a fixed order, whatever the GPU's library does.
    kernel.determinism = with_launches ? plan.determinism : package::Determinism::batch_invariant;
    RTX_ASSIGN(kernel.flops, formula(plan.flops));
    RTX_ASSIGN(kernel.bytes, formula(plan.bytes));
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

  Result<package::Program> make_program(const Function& function, const ProgramPlan& plan) const {
    package::Program program;
    program.name = plan.name;
    for (size_t i = 0; i < function.block.argument_count(); ++i) {
      const Value* argument = function.block.argument(i);
      RTX_ASSIGN(package::TensorSpec spec, tensor_spec(argument->name, argument->type));
      program.inputs.push_back(std::move(spec));
      if (function.when && function.when->input == argument->name)
        program.when = package::Selector{static_cast<uint32_t>(i), function.when->value};
    }
    const auto& results = function.block.terminator()->operands();
    for (size_t i = 0; i < results.size(); ++i) {
      RTX_ASSIGN(package::TensorSpec spec, tensor_spec(function.output_names[i], results[i]->type));
      program.outputs.push_back(std::move(spec));
    }
    for (const Dim& slot : plan.memory.slots) {
      RTX_ASSIGN(Formula parsed, formula(slot));
      program.slots.push_back(std::move(parsed));
    }
    RTX_ASSIGN(program.arena_lower_bound, formula(plan.memory.arena_lower_bound));
    for (const BufferPlan& buffer : plan.memory.buffers) {
      RTX_ASSIGN(Formula bytes, formula(buffer.bytes));
      program.buffers.push_back({buffer.kind, buffer.index, std::move(bytes)});
    }
    for (const StepPlan& step : plan.steps)
      program.steps.push_back({step.kernel, step.operands, step.results, step.scratch, step.origins});
    return program;
  }

  const Module& module_;
  const ModulePlan& plan_;
  package::Manifest manifest_;
  std::vector<std::string> symbols_;
};

}  // namespace

Result<package::Manifest> make_manifest(const Module& module, const ModulePlan& plan, bool with_launches) {
  return ManifestMaker(module, plan).make(with_launches);
}

}  // namespace rtx::codegen
