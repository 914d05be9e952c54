// Every fixture model, imported and run by the reference evaluator, gives the outputs recorded from PyTorch.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <string>

#include <doctest/doctest.h>
#include "base/npy.h"
#include "frontend/import.h"
#include "frontend/onnx_types.h"
#include "frontend/read_model.h"
#include "ir/evaluate.h"

namespace {

using namespace rtx;
namespace fs = std::filesystem;

std::string describe(const Error& error) {
  std::string text;
  for (const Diagnostic& diagnostic : error.diagnostics) text += to_string(diagnostic);
  return text;
}

Tensor tensor(NpyArray array) {
  Tensor result;
  result.dtype = array.dtype;
  result.shape = std::move(array.shape);
  result.bytes = std::move(array.bytes);
  return result;
}

// numpy has no bf16 and no 4-bit integers: such inputs are recorded in a wider type.
Tensor as(DType dtype, Tensor from) {
  if (from.dtype == dtype) return from;
  REQUIRE(is_float(from.dtype) == is_float(dtype));
  Tensor result(dtype, from.shape);
  for (int64_t i = 0; i < from.element_count(); ++i) result.set_f64(i, from.f64(i));
  return result;
}

// The coarsest float type that a model computes in decides how close its outputs must be.
double relative_tolerance(const Module& module) {
  double tolerance = 1e-5;
  for (const auto& operation : module.functions.at(0)->block.operations()) {
    for (const Type& type : operation->result_types()) {
      if (type.dtype == DType::f16) tolerance = std::max(tolerance, 5e-3);
      if (type.dtype == DType::bf16 || type.dtype == DType::i8 || type.dtype == DType::u8) tolerance = 2e-2;
    }
  }
  return tolerance;
}

std::unique_ptr<NpzFile> open_npz(const fs::path& path) {
  auto file = File::open(path.string());
  REQUIRE_MESSAGE(file.ok(), describe(file.error()));
  auto npz = NpzFile::open(*file);
  REQUIRE_MESSAGE(npz.ok(), describe(npz.error()));
  return std::move(npz).value();
}

struct Difference {
  double max_abs = 0, relative = 0;
};

Difference compare(const Tensor& got, const Tensor& expected) {
  Difference result;
  double error = 0, norm = 0;
  for (int64_t i = 0; i < expected.element_count(); ++i) {
    double a = got.f64(i), b = expected.f64(i);
    if (a == b || (std::isnan(a) && std::isnan(b))) continue;
    result.max_abs = std::max(result.max_abs, std::isfinite(a - b) ? std::abs(a - b) : INFINITY);
    error += (a - b) * (a - b);
  }
  for (int64_t i = 0; i < expected.element_count(); ++i) norm += expected.f64(i) * expected.f64(i);
  result.relative = error == 0 ? 0 : std::sqrt(error / std::max(norm, 1e-300));
  return result;
}

// inputs.npz with outputs.npz, and every further pair inputs.NAME.npz, outputs.NAME.npz: other sizes of the same model.
void check_recorded(const Module& module, const fs::path& folder, const std::string& suffix) {
  CAPTURE(suffix);
  auto inputs = open_npz(folder / ("inputs" + suffix + ".npz")),
       outputs = open_npz(folder / ("outputs" + suffix + ".npz"));
  const Function& function = *module.functions.at(0);
  std::vector<Tensor> arguments;
  for (size_t i = 0; i < function.block.argument_count(); ++i) {
    const Value* argument = function.block.argument(i);
    auto array = inputs->read(argument->name);
    REQUIRE_MESSAGE(array.ok(), describe(array.error()));
    arguments.push_back(as(argument->type.dtype, tensor(std::move(array).value())));
  }
  auto results = evaluate(function, std::move(arguments), *module.weights);
  REQUIRE_MESSAGE(results.ok(), describe(results.error()));
  for (size_t i = 0; i < results->size(); ++i) {
    CAPTURE(function.output_names[i]);
    auto array = outputs->read(function.output_names[i]);
    REQUIRE_MESSAGE(array.ok(), describe(array.error()));
    Tensor expected = tensor(std::move(array).value());
    REQUIRE((*results)[i].shape == expected.shape);
    double tolerance = relative_tolerance(module);
    Difference difference = compare((*results)[i], expected);
    CHECK(difference.relative <= tolerance);
    if (tolerance == 1e-5) CHECK(difference.max_abs <= 2e-5);
  }
}

std::map<std::string, Tensor> parameter_inputs(const onnx::Model& model, const fs::path& folder) {
  std::map<std::string, Tensor> constants;
  auto inputs = open_npz(folder / "inputs.npz");
  for (const onnx::ValueInfo& input : model.graph.inputs) {
    auto array = inputs->read(input.name);
    if (array.ok() && onnx::dtype_of(input.elem_type) && input.shape && input.shape->size() <= 1)
      constants.emplace(input.name, as(*onnx::dtype_of(input.elem_type), tensor(std::move(array).value())));
  }
  return constants;
}

void check_model(const fs::path& folder) {
  CAPTURE(folder.filename().string());
  auto model = onnx::read_model((folder / "model.onnx").string());
  REQUIRE_MESSAGE(model.ok(), describe(model.error()));
  onnx::ImportOptions options;
  auto imported = onnx::import_model(*model, options);
  if (!imported && (imported.error().first().id == "E402" || imported.error().first().id == "E405")) {
    // Operator cases give axes and shapes as inputs of the graph; a compiler needs them as constants.
    options.constants = parameter_inputs(*model, folder);
    imported = onnx::import_model(*model, options);
  }
  REQUIRE_MESSAGE(imported.ok(), describe(imported.error()));
  for (const Diagnostic& warning : imported->warnings) MESSAGE(to_string(warning));
  check_recorded(*imported->module, folder, "");
  for (const auto& entry : fs::directory_iterator(folder)) {
    std::string name = entry.path().filename().string();
    if (name.starts_with("inputs.") && name != "inputs.npz")
      check_recorded(*imported->module, folder, name.substr(6, name.size() - 6 - 4));
  }
}

fs::path models() { return fs::path(RTX_TEST_DIR) / "fixtures" / "models"; }

}  // namespace

#define FIXTURE(name) \
  TEST_CASE("the fixture " name " evaluates to its recorded outputs") { check_model(models() / name); }

FIXTURE("bert.ts14")
FIXTURE("bert.ts17")
FIXTURE("bert.ort17")
FIXTURE("bert.int8dyn17")
FIXTURE("bert.dyn20")
FIXTURE("bert.bf20")
FIXTURE("bert.dyn23")
FIXTURE("distilbert.dyn20")
FIXTURE("gemma2.ts17")
FIXTURE("gpt2.ts17")
FIXTURE("gpt2_step.dyn20")
FIXTURE("llama.ts17")
FIXTURE("llama.dyn20")
FIXTURE("llama_step.ts17")
FIXTURE("llama_step.dyn23")
FIXTURE("qwen3.dyn20")
FIXTURE("swin.ts17")
FIXTURE("t5_seq2seq.ts17")
FIXTURE("vit.dyn20")
FIXTURE("wav2vec2.ts17")
FIXTURE("whisper_encoder.ts17")
FIXTURE("whisper_encoder.half17")

TEST_CASE("every fixture folder has its case above") {
  int folders = 0;
  for (const auto& entry : fs::directory_iterator(models())) folders += entry.is_directory();
  CHECK(folders == 22);
}

// Not a fixture: RTX_MODELS=FOLDER runs every model below it, RTX_MODEL_FILTER=TEXT those whose name has the text.
TEST_CASE("the models of RTX_MODELS evaluate to their recorded outputs" * doctest::skip(!std::getenv("RTX_MODELS"))) {
  std::vector<fs::path> folders;
  const char* filter = std::getenv("RTX_MODEL_FILTER");
  for (const auto& entry : fs::directory_iterator(std::getenv("RTX_MODELS")))
    if (fs::exists(entry.path() / "model.onnx") &&
        (!filter || entry.path().filename().string().find(filter) != std::string::npos))
      folders.push_back(entry.path());
  std::sort(folders.begin(), folders.end());
  for (const fs::path& folder : folders) {
    try {
      check_model(folder);
    } catch (const doctest::detail::TestFailureException&) {
      // Reported already; the other models are still to be seen.
    }
  }
}
