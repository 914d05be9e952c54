// What fusing, planning and text generation promise for every module, tried on random ones. A failure prints the seed.

#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>

#include "base/text.h"
#include "codegen/form_fusions.h"
#include "codegen/make_manifest.h"
#include "codegen/merge_fusions.h"
#include "codegen/plan_module.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "passes/pipeline.h"
#include "tests/equivalence.h"
#include "tests/kernels/emulator.h"
#include "tests/property/plan_runner.h"
#include "tests/property/random_module.h"

namespace rtx::testing {
namespace {

constexpr uint64_t module_count = 120;

std::string text_of(const Error& error) { return to_string(error.first()); }

// A random module in stage canonical, and the same fused. Empty where the module has no binding to run with.
struct Sample {
  std::unique_ptr<Module> canonical, fused;
  std::optional<codegen::ModulePlan> plan;
  SymbolValues symbols;
  std::vector<Tensor> inputs, outputs;  // of the canonical module
};

std::vector<Tensor> inputs_for(const Function& function, const SymbolValues& symbols, Random& random) {
  std::vector<Tensor> inputs;
  for (size_t i = 0; i < function.block.argument_count(); ++i) {
    const Type& type = function.block.argument(i)->type;
    std::vector<int64_t> shape;
    for (const Dim& dim : type.shape) shape.push_back(*dim.evaluate(symbols));
    inputs.push_back(random_tensor(type.dtype, shape, random, random.chance(2)));
  }
  return inputs;
}

// Kernels that share bytes between threads are the one thing planners refuse of valid modules.
bool refused_for_4_bits(const Error& error) {
  return error.first().id == "E441" && error.first().message.find("shares bytes") != std::string::npos;
}

std::optional<Sample> make_sample(uint64_t seed) {
  Random random(seed);
  Sample sample;
  sample.canonical = random_module(random, static_cast<int>(random.between(1, 30)));
  fill_weights(*sample.canonical);
  Result<PipelineReport> ran = run_canonical_pipeline(*sample.canonical);
  REQUIRE_MESSAGE(ran, text_of(ran.error()));
  sample.fused = sample.canonical->clone();
  sample.fused->weights = std::make_shared<WeightStore>(*sample.canonical->weights);
  Result<void> formed = codegen::form_fusions(*sample.fused);
  REQUIRE_MESSAGE(formed, text_of(formed.error()));
  codegen::merge_fusions(*sample.fused);
  Result<void> verified = verify(*sample.fused);
  REQUIRE_MESSAGE(verified, text_of(verified.error()), "\n", print(*sample.fused));
  Result<codegen::ModulePlan> plan = codegen::plan_module(*sample.fused);
  if (!plan) {
    REQUIRE_MESSAGE(refused_for_4_bits(plan.error()), text_of(plan.error()));
    return std::nullopt;
  }
  sample.plan = std::move(plan).value();
  for (int attempt = 0; attempt < 8; ++attempt) {
    sample.symbols.clear();
    for (const auto& [name, range] : sample.canonical->symbols) {
      sample.symbols[name] = random.between(range.min, std::min(range.max, range.min + 6));
    }
    sample.inputs = inputs_for(*sample.canonical->functions[0], sample.symbols, random);
    Result<std::vector<Tensor>> outputs =
        evaluate(*sample.canonical->functions[0], sample.inputs, *sample.canonical->weights, sample.canonical->symbols);
    if (!outputs) continue;  // a slice may leave its axis under this binding
    sample.outputs = std::move(outputs).value();
    return sample;
  }
  return std::nullopt;
}

bool same(const Tensor& a, const Tensor& b) {
  if (a.dtype != b.dtype || a.shape != b.shape) return false;
  for (int64_t i = 0; i < a.element_count(); ++i) {
    const bool equal = is_float(a.dtype) ? a.f64(i) == b.f64(i) || (std::isnan(a.f64(i)) && std::isnan(b.f64(i)))
                                         : a.i64(i) == b.i64(i);
    if (!equal) return false;
  }
  return true;
}

KernelFunction evaluator_kernels(const Sample& sample) {
  return [&](uint32_t, const Block& body, const std::vector<Tensor>& operands) {
    return evaluate(body, operands, sample.symbols, nullptr);
  };
}

TEST_CASE("a fused module computes what the canonical one does") {
  for (uint64_t seed = 1; seed <= module_count; ++seed) {
    CAPTURE(seed);
    const std::optional<Sample> sample = make_sample(seed);
    if (!sample) continue;
    CHECK(find_difference(*sample->canonical, *sample->fused, seed).value_or("") == "");
  }
}

TEST_CASE("steps that share an arena as planned give the outputs of the module") {
  size_t ran = 0;
  for (uint64_t seed = 1; seed <= module_count; ++seed) {
    CAPTURE(seed);
    const std::optional<Sample> sample = make_sample(seed);
    if (!sample) continue;
    Result<std::vector<Tensor>> got =
        run_plan(*sample->fused, *sample->plan, sample->inputs, sample->symbols, evaluator_kernels(*sample));
    REQUIRE_MESSAGE(got, text_of(got.error()));
    for (size_t i = 0; i < got->size(); ++i) CHECK(same((*got)[i], sample->outputs[i]));
    ++ran;
  }
  CHECK(ran > module_count / 2);
}

// Negative control of the test above. Few random modules have two values alive in the arena, so more are drawn.
TEST_CASE("values that share a place while both are alive change the outputs") {
  size_t changed = 0;
  for (uint64_t seed = 1; seed <= 3 * module_count; ++seed) {
    std::optional<Sample> sample = make_sample(seed);
    if (!sample) continue;
    codegen::MemoryPlan& memory = sample->plan->programs[0].memory;
    if (memory.arena.size() < 2) continue;
    Dim all(0);
    for (const Dim& piece : memory.arena) all = all + piece;
    memory.arena = {all};
    memory.lives = {{0, 1}};
    for (codegen::BufferPlan& buffer : memory.buffers) {
      if (buffer.kind == package::BufferKind::arena) buffer.index = 0;
    }
    Result<std::vector<Tensor>> got =
        run_plan(*sample->fused, *sample->plan, sample->inputs, sample->symbols, evaluator_kernels(*sample));
    bool all_same = got.ok();
    for (size_t i = 0; all_same && i < got->size(); ++i) all_same = same((*got)[i], sample->outputs[i]);
    changed += !all_same;
  }
  CHECK(changed > 3);
}

TEST_CASE("planning twice gives the same plan, texts and manifest, wherever the module lies in memory") {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    CAPTURE(seed);
    const std::optional<Sample> sample = make_sample(seed);
    if (!sample) continue;
    std::unique_ptr<Module> again = parse_module(print(*sample->canonical), "again").value();
    again->weights = std::make_shared<WeightStore>(*sample->canonical->weights);
    REQUIRE(codegen::form_fusions(*again));
    codegen::merge_fusions(*again);
    const codegen::ModulePlan plan = codegen::plan_module(*again).value();
    CHECK(plan.str() == sample->plan->str());
    CHECK(plan.kernels == sample->plan->kernels);
    CHECK(package::to_yaml(codegen::make_manifest(*again, plan, true).value()) ==
          package::to_yaml(codegen::make_manifest(*sample->fused, *sample->plan, true).value()));
  }
}

bool close(const Tensor& got, const Tensor& want, std::string& where) {
  double unit = 1e-5;
  if (want.dtype == DType::f16) unit = 2e-3;
  if (want.dtype == DType::bf16) unit = 1.6e-2;
  if (want.dtype == DType::f8e4m3 || want.dtype == DType::f8e5m2) unit = 0.26;
  for (int64_t i = 0; i < want.element_count(); ++i) {
    if (!is_float(want.dtype)) {
      if (got.i64(i) == want.i64(i)) continue;
    } else {
      const double a = got.f64(i), b = want.f64(i);
      if (a == b || (std::isnan(a) && std::isnan(b)) || std::fabs(a - b) <= unit * (std::fabs(b) + 1)) continue;
      // Near the largest value one side may round to infinity.
      if (std::isinf(a) != std::isinf(b) && std::fabs(std::isinf(a) ? b : a) > 5e4) continue;
    }
    where = concat("element ", i, " is ", got.f64(i), ", not ", want.f64(i));
    return false;
  }
  return true;
}

TEST_CASE("the generated text of every kernel computes what its body says, under random dims") {
  if (!Emulator::available()) {
    MESSAGE("skipped: no C++ compiler to run generated text with");
    return;
  }
  std::vector<Sample> samples;
  std::vector<std::vector<size_t>> numbers;  // of the kernels of each sample in the emulator
  Emulator emulator;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    std::optional<Sample> sample = make_sample(seed);
    if (!sample) continue;
    std::vector<size_t> known(sample->plan->kernels.size(), SIZE_MAX);
    size_t step = 0;
    for (const auto& operation : sample->fused->functions[0]->block.operations()) {
      if (!operation->is(Op::fusion)) continue;
      const uint32_t kernel = sample->plan->programs[0].steps[step++].kernel;
      const codegen::KernelPlan& plan = sample->plan->kernels[kernel];
      if (plan.launch && known[kernel] == SIZE_MAX) known[kernel] = emulator.add(plan, *operation->body());
    }
    numbers.push_back(std::move(known));
    samples.push_back(std::move(*sample));
  }
  Result<void> built = emulator.build();
  REQUIRE_MESSAGE(built, text_of(built.error()));
  for (size_t s = 0; s < samples.size(); ++s) {
    const Sample& sample = samples[s];
    auto both = [&](uint32_t kernel, const Block& body,
                    const std::vector<Tensor>& operands) -> Result<std::vector<Tensor>> {
      Result<std::vector<Tensor>> want = evaluate(body, operands, sample.symbols, nullptr);
      if (!want || !sample.plan->kernels[kernel].launch) return want;
      RTX_ASSIGN(const std::vector<Tensor> got, emulator.run(numbers[s][kernel], operands, sample.symbols));
      for (size_t i = 0; i < got.size(); ++i) {
        std::string where;
        if (!close(got[i], (*want)[i], where)) FAIL_CHECK(where, " in\n", print_body(body));
      }
      return want;
    };
    Result<std::vector<Tensor>> ran = run_plan(*sample.fused, *sample.plan, sample.inputs, sample.symbols, both);
    CHECK_MESSAGE(ran, text_of(ran.error()));
  }
}

}  // namespace
}  // namespace rtx::testing
