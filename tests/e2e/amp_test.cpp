// Mixed precision on the fixture models: how far outputs are from those of f32, under the evaluator; and that the CPU
// device computes what the evaluator does of the converted module.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/npy.h"
#include "base/text.h"
#include "codegen/build_package.h"
#include "frontend/import.h"
#include "frontend/read_model.h"
#include "ir/evaluate.h"
#include "passes/pipeline.h"
#include "runtime/cpu/cpu_device.h"
#include "runtime/session.h"
#include "tests/temp_folder.h"

namespace rtx::testing {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> fixture_models() {
  std::vector<fs::path> folders;
  for (const auto& entry : fs::directory_iterator(fs::path(RTX_TEST_DIR) / "fixtures/models")) {
    if (fs::exists(entry.path() / "model.onnx")) folders.push_back(entry.path());
  }
  std::sort(folders.begin(), folders.end());
  return folders;
}

std::unique_ptr<Module> import(const fs::path& folder) {
  auto model = onnx::read_model((folder / "model.onnx").string());
  REQUIRE(model);
  auto imported = onnx::import_model(*model);
  REQUIRE(imported);
  return std::move(imported->module);
}

std::vector<Tensor> recorded_inputs(const fs::path& folder, const Function& function) {
  const auto npz = NpzFile::open(File::open((folder / "inputs.npz").string()).value()).value();
  std::vector<Tensor> inputs;
  for (size_t i = 0; i < function.block.argument_count(); ++i) {
    NpyArray array = npz->read(function.block.argument(i)->name).value();
    Tensor recorded;
    recorded.dtype = array.dtype;
    recorded.shape = std::move(array.shape);
    recorded.bytes = std::move(array.bytes);
    const DType dtype = function.block.argument(i)->type.dtype;
    if (recorded.dtype != dtype) {  // 16-bit inputs are recorded as f32
      Tensor tensor(dtype, recorded.shape);
      for (int64_t e = 0; e < tensor.element_count(); ++e) tensor.set_f64(e, recorded.f64(e));
      recorded = std::move(tensor);
    }
    inputs.push_back(std::move(recorded));
  }
  return inputs;
}

// |got - want| / |want| of the worst output; infinite where one is finite and the other is not.
double error_of(const std::vector<Tensor>& got, const std::vector<Tensor>& want) {
  REQUIRE(got.size() == want.size());
  double worst = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    REQUIRE(got[i].dtype == want[i].dtype);
    REQUIRE(got[i].shape == want[i].shape);
    double error = 0, norm = 0;
    for (int64_t e = 0; e < want[i].element_count(); ++e) {
      const double a = got[i].f64(e), b = want[i].f64(e);
      if (a == b || (std::isnan(a) && std::isnan(b))) {
        norm += std::isfinite(b) ? b * b : 0;
        continue;
      }
      if (!std::isfinite(a) || !std::isfinite(b)) return INFINITY;
      error += (a - b) * (a - b);
      norm += b * b;
    }
    worst = std::max(worst, error == 0 ? 0 : std::sqrt(error / std::max(norm, 1e-300)));
  }
  return worst;
}

std::vector<Tensor> run_on_cpu(const fs::path& folder, DType half, const std::vector<Tensor>& inputs) {
  const TempFolder temporary;
  codegen::BuildOptions options;
  options.amp = half;
  const std::unique_ptr<Module> module = import(folder);
  REQUIRE(codegen::build_package(*module, temporary / "p", options));
  const auto device = runtime::make_cpu_device(2);
  const auto model = runtime::Model::load(temporary / "p", *device).value();
  const auto session = runtime::Session::create(*model).value();
  std::vector<runtime::HostTensor> given;
  for (const Tensor& input : inputs) given.push_back({input.dtype, input.shape, input.bytes});
  const auto results = session->run(given);
  REQUIRE(results);
  std::vector<Tensor> outputs;
  for (const runtime::HostTensor& output : *results) {
    Tensor& tensor = outputs.emplace_back();
    tensor.dtype = output.dtype;
    tensor.shape = output.shape;
    tensor.bytes = output.bytes;
  }
  return outputs;
}

bool has_product(const Module& module, DType dtype) {
  for (const auto& operation : module.functions[0]->block.operations()) {
    if (operation->is(Op::matmul) && operation->result()->type.dtype == dtype) return true;
  }
  return false;
}

// One rounding to f16 is off by 2^-12 of a number at most on average, one to bf16 by 2^-9: the goals differ by 8.
void check_models(DType half, double goal) {
  size_t converted = 0;
  for (const fs::path& folder : fixture_models()) {
    CAPTURE(folder.filename().string());
    const std::unique_ptr<Module> wide = import(folder);
    REQUIRE(run_canonical_pipeline(*wide));
    REQUIRE(run_optimize_pipeline(*wide));
    const std::unique_ptr<Module> narrow = wide->clone();
    PipelineOptions options;
    options.round_trip = true;
    options.context.half = half;
    PrecisionReport report;
    options.context.precision_report = &report;
    const auto ran = run_pipeline(*narrow, precision_pipeline(), options);
    REQUIRE_MESSAGE(ran, to_string(ran.error().first()));

    const Function &before = *wide->functions[0], &after = *narrow->functions[0];
    const std::vector<Tensor> inputs = recorded_inputs(folder, before);
    const std::vector<Tensor> want = evaluate(before, inputs, *wide->weights, wide->symbols).value();
    const std::vector<Tensor> got = evaluate(after, inputs, *narrow->weights, narrow->symbols).value();
    CHECK(error_of(got, want) <= goal);
    // Weights are products' operands in every model that is not in half, or in int8, already.
    CHECK(has_product(*narrow, half) == (has_product(*wide, DType::f32) || has_product(*wide, half)));
    converted += report.changed();
    if (!report.changed()) continue;
    CHECK(error_of(run_on_cpu(folder, half, inputs), got) <= 1e-3);
  }
  CHECK(converted >= 18);
}

TEST_CASE("fixture models in f16 are within 1e-3 of f32, and the CPU device computes them") {
  check_models(DType::f16, 1e-3);
}
TEST_CASE("fixture models in bf16 are within 8e-3 of f32, and the CPU device computes them") {
  check_models(DType::bf16, 8e-3);
}

}  // namespace
}  // namespace rtx::testing
