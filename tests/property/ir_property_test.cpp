// Properties that hold for every module, tried on random ones. A failure prints the seed; RTX_SEED=n runs that one
// only, RTX_PROPERTY_CASES=n as many.

#include <doctest/doctest.h>

#include <cstdlib>
#include <map>

#include "base/text.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "passes/pipeline.h"
#include "tests/property/random_module.h"

namespace rtx::testing {
namespace {

uint64_t number_from_environment(const char* name, uint64_t fallback) {
  const char* text = std::getenv(name);
  return text ? std::strtoull(text, nullptr, 10) : fallback;
}

template <typename Property>
void for_each_module(Property property) {
  uint64_t only = number_from_environment("RTX_SEED", 0);
  uint64_t first = only ? only : 1, last = only ? only : number_from_environment("RTX_PROPERTY_CASES", 150);
  for (uint64_t seed = first; seed <= last; ++seed) {
    Random random(seed);
    std::unique_ptr<Module> module = random_module(random, static_cast<int>(random.between(1, 40)));
    CAPTURE(seed);
    property(*module, seed);
  }
}

std::string error_text(const Error& error) { return to_string(error.first()); }

TEST_CASE("random modules are valid and use most of the op list") {
  std::map<Op, int> seen;
  for_each_module([&](const Module& module, uint64_t) {
    Result<void> verified = verify(module);
    CHECK_MESSAGE(verified, error_text(verified.error()));
    for (const auto& operation : module.functions[0]->block.operations()) ++seen[operation->op];
  });
  if (!std::getenv("RTX_SEED")) CHECK(seen.size() > 55);
}

TEST_CASE("printing and parsing gives the same text again") {
  for_each_module([](const Module& module, uint64_t) {
    std::string text = print(module);
    auto parsed = parse_module(text, "printed");
    REQUIRE_MESSAGE(parsed, error_text(parsed.error()));
    CHECK(print(**parsed) == text);
  });
}

TEST_CASE("a parsed module computes what the printed one did") {
  for_each_module([](Module& module, uint64_t seed) {
    fill_weights(module);
    auto parsed = parse_module(print(module), "printed");
    REQUIRE(parsed);
    (*parsed)->weights = module.weights;
    CHECK(find_difference(module, **parsed, seed).value_or("") == "");
  });
}

void check_pass(const std::string& list) {
  std::vector<std::string> names = parse_pass_list(list).value();
  for_each_module([&](Module& module, uint64_t seed) {
    fill_weights(module);
    std::unique_ptr<Module> before = module.clone();
    auto report = run_pipeline(module, names);
    REQUIRE_MESSAGE(report, error_text(report.error()), "\n", print(*before));
    std::string difference = find_difference(*before, module, seed).value_or("");
    CHECK_MESSAGE(difference == "", difference, "\nbefore:\n", print(*before), "after:\n", print(module));
  });
}

TEST_CASE("canonicalize keeps what a module computes") { check_pass("canonicalize"); }
TEST_CASE("fold_constants keeps what a module computes") { check_pass("fold_constants"); }
TEST_CASE("eliminate_common_subexpressions keeps what a module computes") {
  check_pass("eliminate_common_subexpressions");
}
TEST_CASE("eliminate_dead_values keeps what a module computes") { check_pass("eliminate_dead_values"); }
TEST_CASE("the canonical pipeline keeps what a module computes") { check_pass("canonical"); }

// Values may be far apart: random modules compare, round and take differences.
TEST_CASE("convert_precision gives valid modules with the same inputs and outputs, and does nothing twice") {
  const std::vector<std::string> names = {"convert_precision"};
  for_each_module([&](Module& module, uint64_t seed) {
    fill_weights(module);
    const std::unique_ptr<Module> before = module.clone();
    PipelineOptions options;
    options.round_trip = true;
    options.context.half = seed % 2 == 0 ? DType::f16 : DType::bf16;
    auto report = run_pipeline(module, names, options);
    REQUIRE_MESSAGE(report, error_text(report.error()), "\n", print(*before));
    const Block &was = before->functions[0]->block, &is = module.functions[0]->block;
    REQUIRE(was.argument_count() == is.argument_count());
    for (size_t i = 0; i < is.argument_count(); ++i) CHECK(was.argument(i)->type == is.argument(i)->type);
    for (size_t i = 0; i < is.terminator()->operand_count(); ++i) {
      CHECK(was.terminator()->operand(i)->type == is.terminator()->operand(i)->type);
    }
    auto again = run_pipeline(module, names, options);
    REQUIRE(again);
    CHECK_FALSE(again->timings[0].changed);
  });
}

TEST_CASE("canonicalize has nothing left to do after it ran") {
  std::vector<std::string> names = {"canonicalize"};
  for_each_module([&](Module& module, uint64_t) {
    REQUIRE(run_pipeline(module, names));
    auto again = run_pipeline(module, names);
    REQUIRE(again);
    CHECK_FALSE(again->timings[0].changed);
  });
}

TEST_CASE("the same module gives the same text wherever it lies in memory") {
  std::vector<std::string> names = parse_pass_list("canonical").value();
  for_each_module([&](Module& module, uint64_t) {
    fill_weights(module);
    std::unique_ptr<Module> one = module.clone(), two = module.clone();
    std::vector<std::unique_ptr<Module>> between;  // moves the second run to other addresses
    one->weights = std::make_shared<WeightStore>(*module.weights);
    two->weights = std::make_shared<WeightStore>(*module.weights);
    REQUIRE(run_pipeline(*one, names));
    for (int i = 0; i < 3; ++i) between.push_back(module.clone());
    REQUIRE(run_pipeline(*two, names));
    CHECK(print(*one) == print(*two));
  });
}

}  // namespace
}  // namespace rtx::testing
