// The whole way from an imported module to planned kernels, on random transformers: each step keeps what the one before
// it computes. A failure prints the seed; RTX_SEED=n runs that one only and prints its module, RTX_PROPERTY_CASES=n as
// many.

#include <doctest/doctest.h>

#include <cstdlib>

#include "base/text.h"
#include "codegen/build_package.h"
#include "codegen/form_fusions.h"
#include "codegen/merge_fusions.h"
#include "codegen/plan_module.h"
#include "ir/evaluate.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "passes/pipeline.h"
#include "runtime/cpu/cpu_device.h"
#include "runtime/session.h"
#include "tests/equivalence.h"
#include "tests/kernels/emulator.h"
#include "tests/property/plan_runner.h"
#include "tests/property/random_transformer.h"
#include "tests/temp_folder.h"

namespace rtx::testing {
namespace {

// Small enough that softmax does not turn roundings of large scores into choices.
constexpr double weight_scale = 0.2, weight_scale_of_half = 0.1;
constexpr int rounds = 3;

uint64_t number_from_environment(const char* name, uint64_t fallback) {
  const char* text = std::getenv(name);
  return text ? std::strtoull(text, nullptr, 10) : fallback;
}

std::string text_of(const Error& error) { return to_string(error.first()); }

// The coarsest float of the module decides how close is close: composites round once, pieces at each value.
double tolerance_of(const Module& module) {
  double tolerance = 2e-5;
  for (const auto& operation : module.functions[0]->block.operations()) {
    for (const Type& type : operation->result_types()) {
      if (type.dtype == DType::f16) tolerance = std::max(tolerance, 2e-2);
      if (type.dtype == DType::bf16) tolerance = 1.5e-1;
    }
  }
  return tolerance;
}

template <typename Property>
void for_each_module(uint64_t count, Property property) {
  const uint64_t only = number_from_environment("RTX_SEED", 0);
  const uint64_t first = only ? only : 1, last = only ? only : number_from_environment("RTX_PROPERTY_CASES", count);
  for (uint64_t seed = first; seed <= last; ++seed) {
    Random random(seed);
    std::unique_ptr<Module> module = random_transformer(random);
    if (only) MESSAGE(print(*module));  // for rtx-opt --reduce
    fill_weights(*module, tolerance_of(*module) > 1e-3 ? weight_scale_of_half : weight_scale);
    CAPTURE(seed);
    property(std::move(module), seed);
  }
}

std::unique_ptr<Module> copy_of(const Module& module) {
  std::unique_ptr<Module> copy = module.clone();
  copy->weights = std::make_shared<WeightStore>(*module.weights);
  return copy;
}

void check_same(const Module& before, const Module& after, uint64_t seed, double tolerance, std::string_view step) {
  const std::string difference = find_difference(before, after, seed, tolerance, rounds, make_valid_input).value_or("");
  CHECK_MESSAGE(difference == "", step, ": ", difference);
}

// Fused and planned; `check` sees the module between the steps.
codegen::ModulePlan fuse(Module& module, uint64_t seed, double tolerance) {
  std::unique_ptr<Module> before = copy_of(module);
  const Result<void> formed = codegen::form_fusions(module);
  REQUIRE_MESSAGE(formed, text_of(formed.error()));
  Result<void> verified = verify(module);
  REQUIRE_MESSAGE(verified, text_of(verified.error()));
  check_same(*before, module, seed, tolerance, "form_fusions");
  before = copy_of(module);
  codegen::merge_fusions(module);
  verified = verify(module);
  REQUIRE_MESSAGE(verified, text_of(verified.error()));
  check_same(*before, module, seed, 0, "merge_fusions");
  Result<codegen::ModulePlan> plan = codegen::plan_module(module);
  REQUIRE_MESSAGE(plan, text_of(plan.error()));
  return std::move(*plan);
}

struct Call {
  SymbolValues symbols;
  std::vector<Tensor> inputs, outputs;
};

Call call_of(const Module& module, uint64_t seed) {
  Random random(seed);
  Call call;
  for (const auto& [name, range] : module.symbols) call.symbols[name] = random.between(range.min, range.max);
  const Function& function = *module.functions[0];
  for (size_t i = 0; i < function.block.argument_count(); ++i) {
    const Type& type = function.block.argument(i)->type;
    std::vector<int64_t> shape;
    for (const Dim& dim : type.shape) shape.push_back(*dim.evaluate(call.symbols));
    call.inputs.push_back(random_tensor(type.dtype, shape, random, false));
    make_valid_input(function.block.argument(i)->name, call.inputs.back());
  }
  Result<std::vector<Tensor>> outputs = evaluate(function, call.inputs, *module.weights, module.symbols);
  REQUIRE_MESSAGE(outputs, text_of(outputs.error()));
  call.outputs = std::move(*outputs);
  return call;
}

void check_close(const std::vector<Tensor>& got, const std::vector<Tensor>& want, double tolerance,
                 std::string_view what) {
  REQUIRE(got.size() == want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    const std::string difference = describe_difference(want[i], got[i], tolerance).value_or("");
    CHECK_MESSAGE(difference == "", what, ", output ", i, ": ", difference);
  }
}

void check_plan(const Module& module, const codegen::ModulePlan& plan, uint64_t seed) {
  const Call call = call_of(module, seed);
  const auto kernels = [&](uint32_t, const Block& body, const std::vector<Tensor>& operands) {
    return evaluate(body, operands, call.symbols, nullptr);
  };
  const Result<std::vector<Tensor>> got = run_plan(module, plan, call.inputs, call.symbols, kernels);
  REQUIRE_MESSAGE(got, text_of(got.error()));
  check_close(*got, call.outputs, 0, "the plan");
}

void check_cpu_device(const Module& imported, const Module& expected, uint64_t seed, double tolerance) {
  const Call call = call_of(expected, seed);
  const TempFolder folder;
  const std::unique_ptr<Module> module = copy_of(imported);
  const Result<void> built = codegen::build_package(*module, folder / "p", {});
  REQUIRE_MESSAGE(built, text_of(built.error()));
  const auto device = runtime::make_cpu_device(1);
  const auto model = runtime::Model::load(folder / "p", *device);
  REQUIRE_MESSAGE(model, text_of(model.error()));
  const auto session = runtime::Session::create(**model);
  REQUIRE_MESSAGE(session, text_of(session.error()));
  std::vector<runtime::HostTensor> inputs;
  for (const Tensor& input : call.inputs) inputs.push_back({input.dtype, input.shape, input.bytes});
  const auto outputs = (*session)->run(inputs);
  REQUIRE_MESSAGE(outputs, text_of(outputs.error()));
  std::vector<Tensor> got;
  for (const runtime::HostTensor& output : *outputs) {
    Tensor& tensor = got.emplace_back();
    tensor.dtype = output.dtype;
    tensor.shape = output.shape;
    tensor.bytes = output.bytes;
  }
  check_close(got, call.outputs, tolerance, "the CPU device");
}

TEST_CASE("random transformers compute the same after every pass, fused, planned and on the CPU device") {
  size_t recovered = 0;
  for_each_module(500, [&](std::unique_ptr<Module> module, uint64_t seed) {
    const Result<void> verified = verify(*module);
    REQUIRE_MESSAGE(verified, text_of(verified.error()));
    const std::unique_ptr<Module> imported = copy_of(*module);
    const double tolerance = tolerance_of(*module);
    const auto canonical = run_canonical_pipeline(*module);
    REQUIRE_MESSAGE(canonical, text_of(canonical.error()));
    check_same(*imported, *module, seed, 0, "canonical");
    std::unique_ptr<Module> before = copy_of(*module);
    const auto optimized = run_optimize_pipeline(*module);
    REQUIRE_MESSAGE(optimized, text_of(optimized.error()));
    check_same(*before, *module, seed, tolerance, "optimize");
    for (const auto& operation : module->functions[0]->block.operations()) recovered += operation->is(Op::attention);
    const codegen::ModulePlan plan = fuse(*module, seed, tolerance);
    check_plan(*module, plan, seed);
    if (seed % 10 == 0) check_cpu_device(*imported, *module, seed, tolerance);
  });
  if (!std::getenv("RTX_SEED")) CHECK(recovered > 300);
}

TEST_CASE("random transformers in half precision stay close to f32, and fuse and plan") {
  for_each_module(150, [&](std::unique_ptr<Module> module, uint64_t seed) {
    if (tolerance_of(*module) > 1e-3) return;  // in half already
    REQUIRE(run_canonical_pipeline(*module));
    REQUIRE(run_optimize_pipeline(*module));
    const std::unique_ptr<Module> before = copy_of(*module);
    PipelineOptions options;
    options.context.half = seed % 2 == 0 ? DType::f16 : DType::bf16;
    const double tolerance = seed % 2 == 0 ? 2e-2 : 1.5e-1;
    const auto converted = run_pipeline(*module, precision_pipeline(), options);
    REQUIRE_MESSAGE(converted, text_of(converted.error()));
    check_same(*before, *module, seed, tolerance, "precision");
    const codegen::ModulePlan plan = fuse(*module, seed, tolerance);
    check_plan(*module, plan, seed);
  });
}

struct Emulated {
  std::unique_ptr<Module> fused;
  codegen::ModulePlan plan;
  Call call;
  std::vector<size_t> numbers;  // of its kernels in the emulator
  uint64_t seed = 0;
};

// Rounded to the type of each value, sums in f32 in another order.
double tolerance_of_kernel(DType dtype) { return dtype == DType::f16 ? 2e-3 : dtype == DType::bf16 ? 1.6e-2 : 2e-5; }

TEST_CASE("the generated text of the kernels of random transformers computes their bodies, in half precision too") {
  if (!Emulator::available()) {
    MESSAGE("skipped: no C++ compiler to run generated text with");
    return;
  }
  Emulator emulator;
  std::vector<Emulated> all;
  const uint64_t count = number_from_environment("RTX_SEED", 0) ? 1 : 16;
  for_each_module(count, [&](std::unique_ptr<Module> module, uint64_t seed) {
    if (all.size() >= count) return;  // RTX_PROPERTY_CASES is for the other tests
    const double tolerance = tolerance_of(*module);
    REQUIRE(run_canonical_pipeline(*module));
    REQUIRE(run_optimize_pipeline(*module));
    if (seed % 2 == 0) {
      PipelineOptions options;
      options.context.half = seed % 4 == 0 ? DType::f16 : DType::bf16;
      REQUIRE(run_pipeline(*module, precision_pipeline(), options));
    }
    codegen::ModulePlan plan = fuse(*module, seed, std::max(tolerance, seed % 2 == 0 ? 1.5e-1 : 0));
    Emulated one{std::move(module), std::move(plan), {}, {}, seed};
    one.call = call_of(*one.fused, seed);
    one.numbers.assign(one.plan.kernels.size(), SIZE_MAX);
    size_t step = 0;
    for (const auto& operation : one.fused->functions[0]->block.operations()) {
      if (!operation->is(Op::fusion)) continue;
      const uint32_t kernel = one.plan.programs[0].steps[step++].kernel;
      if (one.plan.kernels[kernel].launch && one.numbers[kernel] == SIZE_MAX)
        one.numbers[kernel] = emulator.add(one.plan.kernels[kernel], *operation->body());
    }
    all.push_back(std::move(one));
  });
  const Result<void> built = emulator.build();
  REQUIRE_MESSAGE(built, text_of(built.error()));
  for (const Emulated& one : all) {
    CAPTURE(one.seed);
    const auto both = [&](uint32_t kernel, const Block& body,
                          const std::vector<Tensor>& operands) -> Result<std::vector<Tensor>> {
      Result<std::vector<Tensor>> want = evaluate(body, operands, one.call.symbols, nullptr);
      if (!want || !one.plan.kernels[kernel].launch) return want;
      RTX_ASSIGN(const std::vector<Tensor> got, emulator.run(one.numbers[kernel], operands, one.call.symbols));
      for (size_t i = 0; i < got.size(); ++i) {
        const double tolerance = tolerance_of_kernel((*want)[i].dtype);
        const std::string difference = describe_difference((*want)[i], got[i], tolerance).value_or("");
        CHECK_MESSAGE(difference == "", difference, " in\n", print_body(body));
      }
      return want;
    };
    const Result<std::vector<Tensor>> ran = run_plan(*one.fused, one.plan, one.call.inputs, one.call.symbols, both);
    CHECK_MESSAGE(ran, text_of(ran.error()));
  }
}

}  // namespace
}  // namespace rtx::testing
