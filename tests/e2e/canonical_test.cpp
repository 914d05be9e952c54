// The canonical pipeline keeps, bit by bit, what real exported models compute.

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>

#include "frontend/import.h"
#include "frontend/read_model.h"
#include "passes/pipeline.h"
#include "tests/equivalence.h"

namespace rtx::testing {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> fixture_models() {
  std::vector<fs::path> paths;
  for (const auto& entry : fs::recursive_directory_iterator(fs::path(RTX_TEST_DIR) / "fixtures/models")) {
    if (entry.path().extension() == ".onnx") paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

TEST_CASE("the canonical pipeline keeps what the fixture models compute and makes them smaller") {
  CHECK(fixture_models().size() >= 12);
  for (const fs::path& path : fixture_models()) {
    CAPTURE(path.string());
    auto model = onnx::read_model(path.string());
    REQUIRE(model);
    auto imported = onnx::import_model(*model);
    REQUIRE(imported);
    Module& module = *imported->module;
    std::unique_ptr<Module> before = module.clone();
    PipelineOptions options;
    options.round_trip = true;
    auto report = run_canonical_pipeline(module, options);
    REQUIRE_MESSAGE(report, to_string(report.error().first()));
    CHECK(module.stage == Stage::canonical);
    CHECK(module.functions[0]->block.size() < before->functions[0]->block.size());
    CHECK(find_difference(*before, module, 1).value_or("") == "");
  }
}

size_t count(const Module& module, Op op) {
  size_t found = 0;
  for (const auto& operation : module.functions[0]->block.operations()) found += operation->is(op);
  return found;
}

TEST_CASE("every attention of the fixture models is recovered, within rounding") {
  for (const fs::path& path : fixture_models()) {
    CAPTURE(path.string());
    auto model = onnx::read_model(path.string());
    REQUIRE(model);
    auto imported = onnx::import_model(*model);
    REQUIRE(imported);
    Module& module = *imported->module;
    REQUIRE(run_canonical_pipeline(module));
    std::unique_ptr<Module> before = module.clone();
    const std::vector<std::string> passes = {"recover_composites", "canonicalize"};
    PipelineOptions options;
    options.round_trip = true;
    auto report = run_pipeline(module, passes, options);
    REQUIRE_MESSAGE(report, to_string(report.error().first()));
    // A softmax of a model of this kind is one over keys.
    CHECK(count(module, Op::attention) == count(*before, Op::softmax));
    CHECK(count(module, Op::softmax) == 0);
    CHECK(count(module, Op::erf) == 0);
    const std::string file = path.string();
    const bool narrow = file.find("bf2") != std::string::npos || file.find("half") != std::string::npos;
    CHECK(find_difference(*before, module, 1, narrow ? 2e-2 : 1e-5).value_or("") == "");
  }
}

}  // namespace
}  // namespace rtx::testing
