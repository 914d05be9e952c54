#include "codegen/make_manifest.h"

#include <doctest/doctest.h>

#include "base/text.h"
#include "codegen/form_fusions.h"
#include "ir/text.h"

namespace rtx::codegen {
namespace {

struct Planned {
  std::unique_ptr<Module> module = parse_module(R"(rtxir 1
stage canonical
symbol n 1..4096
func @main(%0 "x": tensor<[n, 8], f32>) {
  %1 = exp(%0) : tensor<[n, 8], f32>
  yield(%1)
} outputs "y"
)",
                                                "m")
                                       .value();
  ModulePlan plan;

  Planned() {
    REQUIRE(form_fusions(*module));
    plan = plan_module(*module).value();
  }
  package::Manifest manifest() const { return make_manifest(*module, plan, false).value(); }
  StepPlan& step() { return plan.programs[0].steps[0]; }
};

TEST_CASE("equal decisions stand in the manifest once, and long texts are cut") {
  Planned p;
  p.step().decisions = {{"merge", 0, false, "a", {}},
                        {"merge", 0, false, "a", {}},
                        {"merge", 1, false, "a", {}},
                        {std::string(100, 's'), -1, true, std::string(500, 'r'), {}}};
  p.plan.kernels[0].considered = {{"merge", 1, false, "a", {}}};
  const package::Manifest manifest = p.manifest();
  REQUIRE(manifest.decisions.size() == 3);
  CHECK(manifest.kernels[0].decisions == std::vector<uint32_t>{0});
  CHECK(manifest.programs[0].steps[0].decisions == std::vector<uint32_t>{1, 0, 2});
  CHECK(manifest.decisions[2].subject == std::string(77, 's') + "...");
  CHECK(manifest.decisions[2].reason == std::string(397, 'r') + "...");
  CHECK(package::parse_manifest(package::to_yaml(manifest), "m"));
}

TEST_CASE("the steps of a module that is very long are not explained") {
  Planned p;
  p.step().decisions = {{"merge", 0, false, "a", {}}};
  std::vector<StepPlan>& steps = p.plan.programs[0].steps;
  steps.resize(most_explained_steps, steps[0]);
  CHECK(p.manifest().programs[0].steps.back().decisions.size() == 1);
  steps.push_back(steps[0]);
  CHECK(p.manifest().programs[0].steps.back().decisions.empty());
}

}  // namespace
}  // namespace rtx::codegen
