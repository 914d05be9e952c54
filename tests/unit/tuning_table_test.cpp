#include "codegen/tuning_table.h"

#include <doctest/doctest.h>

#include "base/sha256.h"
#include "base/text.h"
#include "codegen/build_package.h"
#include "codegen/plan_gemm.h"
#include "ir/text.h"

namespace rtx::codegen {
namespace {

// n rows through two products: with a bias and an activation, then alone.
constexpr std::string_view module_text = R"(rtxir 1
stage canonical
symbol n 1..4096 opt 64
func @main(%0 "x": tensor<[n, 384], f16>, %1 "a": tensor<[384, 1536], f16>, %2 "b": tensor<[1536, 384], f16>) {
  %3 = matmul(%0, %1) {transpose_lhs = false, transpose_rhs = false} : tensor<[n, 1536], f16> from "up"
  %4 = gelu(%3) {approximate = "none"} : tensor<[n, 1536], f16> from "gelu"
  %5 = matmul(%4, %2) {transpose_lhs = false, transpose_rhs = false} : tensor<[n, 384], f16> from "down"
  yield(%5)
} outputs "y"
)";

std::string entry(std::string_view m, int n, int k, std::string_view plan, std::string_view arch = "sm_90a") {
  return concat("  - arch: ", arch, "\n    dtype: f16\n    batch: 1\n    m: ", m, "\n    n: ", n, "\n    k: ", k,
                "\n    plan: ", plan, "\n");
}

std::string table(std::initializer_list<std::string> entries) {
  std::string text = "rtx_tuning: 1\nproducts:\n";
  for (const std::string& one : entries) text += one;
  return text;
}

Result<ModulePlan> plan_with(TuningTable* tuning, std::vector<Diagnostic>* warnings = nullptr,
                             package::Determinism determinism = package::Determinism::run_to_run) {
  std::unique_ptr<Module> module = parse_module(module_text, "m").value();
  BuildOptions options;
  options.archs = {"sm_90a"};
  options.determinism = determinism;
  options.tuning = tuning;
  options.on_warning = [&](const Diagnostic& warning) {
    if (warnings) warnings->push_back(warning);
  };
  return plan(*module, options);
}

// The plan of each step, without its index type.
std::vector<std::string> plans(const ModulePlan& plan) {
  std::vector<std::string> names;
  for (const StepPlan& step : plan.programs[0].steps) {
    const std::string& tile = plan.kernels[step.kernel].key.tile;
    names.push_back(tile.substr(0, tile.find(".i")));
  }
  return names;
}

TuningTable parsed(const std::string& text) {
  Result<TuningTable> table = TuningTable::parse(text, "t.yaml");
  REQUIRE_MESSAGE(table, to_string(table.error().first()));
  return std::move(table).value();
}

TEST_CASE("without a table the estimate decides") {
  const ModulePlan plan = plan_with(nullptr).value();
  CHECK(plans(plan) == std::vector<std::string>{"tensor.64x64x64", "cublaslt"});
  CHECK(plan.tuning_table.empty());
}

TEST_CASE("a table changes plans, by a formula and by the size planned for, and says so") {
  const std::string text = table({entry("\"n\"", 1536, 384, "cublaslt"), entry("64", 384, 1536, "tensor.16x64x64")});
  TuningTable tuning = parsed(text);
  std::vector<Diagnostic> warnings;
  const ModulePlan plan = plan_with(&tuning, &warnings).value();
  CHECK(warnings.empty());
  CHECK(plan.tuning_table == sha256_hex(text));
  CHECK(plans(plan) == std::vector<std::string>{"cublaslt", "v8", "tensor.16x64x64"});
  CHECK(plan.kernels[0].considered[0].str() == "yes cublaslt: tuning table, t.yaml:3");
  CHECK(plan.programs[0].steps[1].decisions[0].str() ==
        "no merge operand 0: no contract kernel: the tuning table wants cublaslt");
  CHECK(plan.kernels[2].considered[0].str() == "yes own kernel, tiles of 16x64x64: tuning table, t.yaml:10");
}

TEST_CASE("a kernel of our own takes what follows the product, whatever the estimate says") {
  TuningTable tuning = parsed(table({entry("\"n\"", 1536, 384, "tensor.128x128x32")}));
  CHECK(plans(plan_with(&tuning).value()) == std::vector<std::string>{"tensor.128x128x32", "cublaslt"});
}

TEST_CASE("entries of other architectures are left out, others that fit nothing are warnings") {
  TuningTable tuning = parsed(table({entry("\"n\"", 1536, 384, "cublaslt", "sm_120"),
                                     entry("\"n\"", 1536, 385, "cublaslt"), entry("63", 1536, 384, "cublaslt")}));
  std::vector<Diagnostic> warnings;
  CHECK(plans(plan_with(&tuning, &warnings).value()) == std::vector<std::string>{"tensor.64x64x64", "cublaslt"});
  REQUIRE(warnings.size() == 2);
  CHECK(warnings[0].id == "W443");
  CHECK(warnings[0].where == "t.yaml:10");
  CHECK(warnings[0].message == "the model has no product of f16, batch 1, m n, n 1536, k 385");
}

TEST_CASE("what the table wants and cannot have is an error") {
  TuningTable library = parsed(table({entry("\"n\"", 384, 1536, "cublaslt")}));
  const auto refused = plan_with(&library, nullptr, package::Determinism::batch_invariant);
  REQUIRE(!refused);
  CHECK(refused.error().first().id == "E441");
  CHECK(refused.error().first().message.find("the tuning table wants cublaslt at t.yaml:3") != std::string::npos);
  TuningTable two = parsed(table({entry("\"n\"", 384, 1536, "cublaslt"), entry("64", 384, 1536, "tensor.16x64x64")}));
  const auto conflict = plan_with(&two);
  REQUIRE(!conflict);
  CHECK(conflict.error().first().id == "E444");
}

TEST_CASE("a table that cannot be read is refused with its place") {
  const auto error = [](const std::string& text) {
    const Result<TuningTable> table = TuningTable::parse(text, "t.yaml");
    REQUIRE(!table);
    return concat(table.error().first().id, " ", table.error().first().where, " ", table.error().first().message);
  };
  const std::string good = table({entry("\"n\"", 1536, 384, "cublaslt")});
  const auto edited = [&](std::string_view from, std::string_view to) {
    std::string text = good;
    REQUIRE(text.find(from) != std::string::npos);
    return error(text.replace(text.find(from), from.size(), to));
  };
  CHECK(edited("cublaslt", "tensor.1x2x3") ==
        "E443 t.yaml:9:11 no planner makes the plan 'tensor.1x2x3' for products of f16");
  CHECK(edited("f16", "i64") == "E443 t.yaml:4:12 no products of 'i64' are planned");
  CHECK(edited("rtx_tuning: 1", "rtx_tuning: 2").starts_with("E443 t.yaml:1:"));
  CHECK(edited("    n: 1536\n", "").starts_with("E443 t.yaml:3:5 expected the keys arch, dtype, batch, m, n, k, plan"));
  CHECK(edited("\"n\"", "\"n +\"").starts_with("E443 t.yaml:6:8 'm' is not a size"));
  CHECK(edited("sm_90a", "sm_1").starts_with("E411 t.yaml:3"));
  CHECK(error("products: []\n").starts_with("E443 t.yaml"));
  CHECK(error("").starts_with("E443 t.yaml"));
}

TEST_CASE("each type has plans of its own") {
  CHECK(own_product_plans(DType::bf16) ==
        std::vector<std::string>{"tensor.16x64x64", "tensor.64x64x64", "tensor.128x128x32"});
  CHECK(own_product_plans(DType::f32) == std::vector<std::string>{"fma.16x64x32", "fma.64x64x16", "fma.128x64x16"});
  CHECK(own_product_plans(DType::f64) == std::vector<std::string>{"fma.16x64x16", "fma.64x64x16"});
  CHECK(own_product_plans(DType::i32).empty());
}

}  // namespace
}  // namespace rtx::codegen
