// The reducer on passes with planted bugs: what is left is small, valid, and fails as the whole did.

#include "passes/reduce_module.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "base/text.h"
#include "ir/text.h"
#include "ir/verify.h"

namespace rtx {
namespace {

constexpr uint64_t seed = 7;

// Twelve layers of products, norms and sums; the tenth has a tanh of a difference.
std::unique_ptr<Module> deep_module() {
  std::string text =
      "rtxir 1\nstage imported\nsymbol n 1..64\nsymbol m 2..9\n"
      "func @main(%0 \"x\": tensor<[n, 24], f32>, %1 \"mask\": tensor<[n, m], bool>) {\n"
      "  %w = weight() {name = \"w\", dtype = f32, shape = [24, 24]} : tensor<[24, 24], f32>\n"
      "  %g = weight() {name = \"g\", dtype = f32, shape = [24]} : tensor<[24], f32>\n";
  std::string x = "%0";
  for (int i = 0; i < 12; ++i) {
    const std::string n = concat("%n", i), y = concat("%y", i), d = concat("%d", i), z = concat("%z", i);
    text += concat("  ", n, " = rms_norm(", x, ", %g) {axis = 1} : tensor<[n, 24], f32>\n");
    text += concat("  ", y, " = matmul(", n, ", %w) : tensor<[n, 24], f32>\n");
    text += concat("  ", d, " = ", i == 9 ? "sub" : "add", "(", y, ", ", n, ") : tensor<[n, 24], f32>\n");
    text += concat("  ", z, " = ", i == 9 ? "tanh" : "gelu", "(", d, ") : tensor<[n, 24], f32>\n");
    x = z;
  }
  text += concat("  yield(", x, ", %1, %d9, %n3)\n} outputs \"y\", \"mask_out\", \"d\", \"n\"\n");
  auto module = parse_module(text, "deep");
  REQUIRE_MESSAGE(module, to_string(module.error().first()));
  fill_weights(**module, 0.2);
  return std::move(*module);
}

size_t count(const Module& module, Op op) {
  size_t found = 0;
  for (const auto& function : module.functions) {
    for (const auto& operation : function->block.operations()) found += operation->is(op);
  }
  return found;
}

size_t operations(const Module& module) {
  size_t found = 0;
  for (const auto& function : module.functions) found += function->block.size() - 1;
  return found;
}

// x - y -> y - x   where a tanh reads it
Result<void> swap_below_tanh(Module& module) {
  for (const auto& function : module.functions) {
    for (const auto& operation : function->block.operations()) {
      if (!operation->is(Op::tanh)) continue;
      Operation* sub = operation->operand(0)->def();
      if (!sub || !sub->is(Op::sub)) continue;
      Value* lhs = sub->operand(0);
      sub->set_operand(0, sub->operand(1));
      sub->set_operand(1, lhs);
    }
  }
  return Ok{};
}

std::unique_ptr<Module> reduced(const Module& module, const FailureCheck& check) {
  const std::string before = print(module);
  Result<std::unique_ptr<Module>> result = reduce_module(module, check);
  REQUIRE_MESSAGE(result, to_string(result.error().first()));
  CHECK(print(module) == before);
  CHECK(verify(**result));
  return std::move(*result);
}

TEST_CASE("a wrong rewrite is reduced to the operations it needs, on inputs of the least size") {
  const FailureCheck check = failure_of_passes({swap_below_tanh, seed, 1e-6});
  const std::unique_ptr<Module> small = reduced(*deep_module(), check);
  CAPTURE(print(*small));
  CHECK(operations(*small) == 2);
  CHECK(count(*small, Op::sub) == 1);
  CHECK(count(*small, Op::tanh) == 1);
  CHECK(small->functions[0]->output_names.size() == 1);
  CHECK(small->functions[0]->block.argument_count() == 2);
  CHECK(small->symbols.empty());
  CHECK(small->functions[0]->block.argument(0)->type.str() == "tensor<[1, 1], f32>");
  CHECK(check(*small).value()->kind == "outputs differ");
}

TEST_CASE("the same module and check are reduced to the same text") {
  const FailureCheck check = failure_of_passes({swap_below_tanh, seed, 1e-6});
  std::vector<std::string> first, second;
  const auto note = [](std::vector<std::string>& steps) {
    return [&steps](const ReduceStep& step) { steps.push_back(concat(step.operations, " ", step.what)); };
  };
  const auto one = reduce_module(*deep_module(), check, note(first)).value();
  const auto two = reduce_module(*deep_module(), check, note(second)).value();
  CHECK(print(*one) == print(*two));
  CHECK(first == second);
  CHECK(first.size() > 3);
}

TEST_CASE("a pass that fails is reduced by the id of its error, and another error is another failure") {
  const auto run = [](Module& module) -> Result<void> {
    // Two errors: the one that the whole module gives must be the one that is left.
    if (count(module, Op::tanh) > 0 && count(module, Op::matmul) >= 2)
      return make_error(ErrorKind::internal, "E991", "planted");
    if (count(module, Op::rms_norm) > 0) return make_error(ErrorKind::internal, "E992", "planted too");
    return Ok{};
  };
  const FailureCheck check = failure_of_passes({run, {}, 0});
  const std::unique_ptr<Module> small = reduced(*deep_module(), check);
  CAPTURE(print(*small));
  CHECK(check(*small).value()->kind == "E991");
  CHECK(count(*small, Op::tanh) == 1);
  CHECK(count(*small, Op::matmul) == 2);
  CHECK(operations(*small) <= 4);
}

TEST_CASE("a pass whose output the verifier refuses is reduced to what it breaks") {
  const auto run = [](Module& module) -> Result<void> {
    for (const auto& operation : module.functions[0]->block.operations()) {
      if (operation->is(Op::sub)) operation->result()->type.dtype = DType::f16;
    }
    return Ok{};
  };
  const FailureCheck check = failure_of_passes({run, seed, 0});
  const std::unique_ptr<Module> small = reduced(*deep_module(), check);
  CAPTURE(print(*small));
  CHECK(check(*small).value()->kind == "E158 of the verifier");
  CHECK(operations(*small) == 1);
}

TEST_CASE("a failure that needs a size keeps it, and weights keep their first numbers") {
  const auto run = [](Module& module) -> Result<void> {
    for (const auto& operation : module.functions[0]->block.operations()) {
      if (operation->is(Op::weight) && operation->result()->type.shape.back().constant() >= 3)
        return make_error(ErrorKind::internal, "E991", "planted");
    }
    return Ok{};
  };
  std::unique_ptr<Module> module = deep_module();
  const Tensor whole = module->weights->load("g").value();
  const std::unique_ptr<Module> small = reduced(*module, failure_of_passes({run, {}, 0}));
  CAPTURE(print(*small));
  REQUIRE(count(*small, Op::weight) == 1);
  for (const auto& operation : small->functions[0]->block.operations()) {
    if (!operation->is(Op::weight)) continue;
    CHECK(operation->result()->type.shape.back().constant() == 3);
    const Tensor data = small->weights->load(operation->attributes.string("name")).value();
    CHECK(data.shape.back() == 3);
    if (data.shape.size() == 1) CHECK(data.f64(2) == whole.f64(2));
  }
}

TEST_CASE("of several functions one is left") {
  std::unique_ptr<Module> module = deep_module();
  const std::string text = print(*module);
  std::string again = text.substr(text.find("func @main"));
  again.replace(0, 10, "func @step");
  auto both = parse_module(text + again, "both");
  REQUIRE(both);
  (*both)->weights = module->weights;
  const std::unique_ptr<Module> small = reduced(**both, failure_of_passes({swap_below_tanh, seed, 1e-6}));
  CHECK(small->functions.size() == 1);
  CHECK(operations(*small) == 2);
}

TEST_CASE("a module that does not fail is not reduced") {
  const auto run = [](Module&) -> Result<void> { return Ok{}; };
  const auto result = reduce_module(*deep_module(), failure_of_passes({run, seed, 0}));
  REQUIRE_FALSE(result);
  CHECK(result.error().first().id == "E016");
}

}  // namespace
}  // namespace rtx
