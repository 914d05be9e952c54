// Runs the files of tests/golden/codegen/<what>/*.rtxir: a canonical module, `# expect:`, and what code generation
// makes of it.

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/file.h"
#include "base/text.h"
#include "codegen/form_fusions.h"
#include "codegen/make_manifest.h"
#include "codegen/merge_fusions.h"
#include "codegen/plan_module.h"
#include "ir/text.h"
#include "ir/verify.h"

namespace rtx::testing {
namespace {

constexpr std::string_view expect_line = "# expect:\n";

std::string text_of(const Error& error) {
  std::string text;
  for (const Diagnostic& diagnostic : error.diagnostics) text += to_string(diagnostic);
  return text;
}

codegen::ModulePlan plan_of(Module& module) {
  Result<codegen::ModulePlan> plan = codegen::plan_module(module);
  REQUIRE_MESSAGE(plan, text_of(plan.error()));
  return std::move(plan).value();
}

std::string print_fused(Module& module) { return print(module); }

std::string print_merged(Module& module) {
  codegen::merge_fusions(module);
  Result<void> verified = verify(module);
  REQUIRE_MESSAGE(verified, text_of(verified.error()));
  return print(module);
}

std::string print_kernels(Module& module) {
  std::string text;
  for (const codegen::KernelPlan& kernel : plan_of(module).kernels) {
    text += concat(kernel.str(), kernel.launch ? kernel.launch->text : std::string(), "\n");
  }
  return text;
}

std::string print_merged_kernels(Module& module) {
  print_merged(module);
  return print_kernels(module);
}

// Each step with what was decided about it and, at the first one of its kernel, about the kernel.
std::string print_decisions(Module& module) {
  codegen::DecisionLog log;
  codegen::merge_fusions(module, package::Determinism::run_to_run, &log);
  Result<codegen::ModulePlan> plan = codegen::plan_module(module, {}, log);
  REQUIRE_MESSAGE(plan, text_of(plan.error()));
  std::string text;
  std::vector<bool> seen(plan->kernels.size());
  for (const codegen::StepPlan& step : plan->programs[0].steps) {
    const codegen::KernelPlan& kernel = plan->kernels[step.kernel];
    text += concat(kernel.key.kind, "/", kernel.key.tile, " from ", join(step.origins, ", "), "\n");
    for (const codegen::Decision& decision : step.decisions) text += concat("  ", decision.str(), "\n");
    if (seen[step.kernel]) continue;
    seen[step.kernel] = true;
    for (const codegen::Decision& decision : kernel.considered) text += concat("  kernel: ", decision.str(), "\n");
  }
  return text;
}

std::string print_memory(Module& module) {
  codegen::ModulePlan plan = plan_of(module);
  std::string text;
  for (const codegen::ProgramPlan& program : plan.programs) {
    text += program.memory.str();
    for (const codegen::StepPlan& step : program.steps) {
      auto number = [](uint32_t n) { return n; };
      text += concat("step (", join(step.operands, ", ", number), ") -> ", join(step.results, ", ", number), "\n");
    }
  }
  return text;
}

std::string print_manifest(Module& module) {
  Result<package::Manifest> manifest = codegen::make_manifest(module, plan_of(module), true);
  REQUIRE_MESSAGE(manifest, text_of(manifest.error()));
  return package::to_yaml(*manifest);
}

std::string print_refusals(Module& module) {
  Result<codegen::ModulePlan> plan = codegen::plan_module(module);
  REQUIRE_MESSAGE(!plan, "nothing was refused");
  return text_of(plan.error());
}

// Where the texts part, with the lines around it.
std::string first_difference(const std::string& expected, const std::string& got) {
  const size_t at = static_cast<size_t>(std::mismatch(expected.begin(), expected.end(), got.begin(), got.end()).first -
                                        expected.begin());
  const size_t line = at == 0 ? 0 : expected.rfind('\n', at - 1) + 1;
  return concat("expected:\n", expected.substr(line, 400), "\n...\ngot:\n", got.substr(std::min(line, got.size()), 400),
                "\n...\n");
}

void check_folder(const std::string& what, std::string (*make)(Module&)) {
  const char* bless = std::getenv("RTX_BLESS");
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(concat(RTX_TEST_DIR, "/golden/codegen/", what))) {
    paths.push_back(entry.path().string());
  }
  std::sort(paths.begin(), paths.end());
  CHECK(!paths.empty());
  for (const std::string& path : paths) {
    CAPTURE(path);
    const std::string text = read_text_file(path, 1 << 24).value();
    CHECK_MESSAGE(text.starts_with("# "), "the first line must say why the case exists");
    const std::string input = text.substr(0, text.find(expect_line));
    Result<std::unique_ptr<Module>> module = parse_module(input, path);
    REQUIRE_MESSAGE(module, text_of(module.error()));
    Result<void> formed = codegen::form_fusions(**module);
    REQUIRE_MESSAGE(formed, text_of(formed.error()));
    const std::string result = concat(input, expect_line, make(**module));
    if (result == text) continue;
    if (bless && std::strcmp(bless, "1") == 0) {
      REQUIRE(write_file(path, result));
      continue;
    }
    FAIL_CHECK(path, " differs\n", first_difference(text, result),
               "to accept: RTX_BLESS=1 ctest --preset dev -L golden");
  }
}

TEST_CASE("form_fusions gives the expected modules") { check_folder("form_fusions", print_fused); }
TEST_CASE("merge_fusions gives the expected modules") { check_folder("merge_fusions", print_merged); }
TEST_CASE("planners give the expected plans and CUDA text") { check_folder("kernels", print_kernels); }
TEST_CASE("merged fusions give the expected plans and CUDA text") {
  check_folder("merged_kernels", print_merged_kernels);
}
TEST_CASE("every choice is in the plan with its reason") { check_folder("decisions", print_decisions); }
TEST_CASE("plan_memory gives the expected buffers and slots") { check_folder("memory", print_memory); }
TEST_CASE("make_manifest gives the expected manifests") { check_folder("manifest", print_manifest); }
TEST_CASE("planners refuse with the expected reasons") { check_folder("refused", print_refusals); }

}  // namespace
}  // namespace rtx::testing
