// Negative controls of the golden tests: passes that are wrong on purpose, known to this binary alone, must be caught.

#include <doctest/doctest.h>

#include "base/file.h"
#include "base/text.h"
#include "tests/golden/golden_check.h"
#include "tests/temp_folder.h"

namespace rtx::testing {
namespace {

constexpr std::string_view input =
    "# x - y with two uses, so that nothing of it is dead\nrtxir 1\nstage imported\nsymbol n 1..8\n\n"
    "func @main(%0 \"x\": tensor<[n, 4], f32>, %1 \"y\": tensor<[n, 4], f32>) {\n"
    "  %2 = sub(%0, %1) : tensor<[n, 4], f32>\n  %3 = mul(%2, %2) : tensor<[n, 4], f32>\n"
    "  yield(%2, %3)\n} outputs \"d\", \"e\"\n";

Operation* first_of(Module& module, Op op) {
  for (const auto& operation : module.functions[0]->block.operations()) {
    if (operation->is(op)) return operation.get();
  }
  return nullptr;
}

// x - y -> y - x
Result<void> swap_operands(Module& module, const PassContext&) {
  Operation* sub = first_of(module, Op::sub);
  Value* lhs = sub->operand(0);
  sub->set_operand(0, sub->operand(1));
  sub->set_operand(1, lhs);
  return Ok{};
}

// x - y -> x + (-y), which is right
Result<void> add_negated(Module& module, const PassContext&) {
  Operation* sub = first_of(module, Op::sub);
  Builder builder(module.functions[0]->block, sub);
  RTX_ASSIGN(Value * negated, builder.value(Op::neg, {sub->operand(1)}));
  RTX_ASSIGN(Value * sum, builder.value(Op::add, {sub->operand(0), negated}));
  sub->result()->replace_all_uses_with(sum);
  module.functions[0]->block.erase(sub);
  return Ok{};
}

// One output less than there are names.
Result<void> drop_output(Module& module, const PassContext&) {
  Block& block = module.functions[0]->block;
  Value* kept = block.terminator()->operand(0);
  block.erase(block.terminator());
  block.insert(nullptr, Op::yield, {kept}, {}, {});
  return Ok{};
}

Result<void> do_nothing(Module&, const PassContext&) { return Ok{}; }

struct Golden {
  TempFolder folder;
  std::string path;
  explicit Golden(const std::string& text) : path(folder.file("case.rtxir", text)) {}
  std::string text() const { return read_text_file(path, 1 << 20).value(); }
  std::string failure(const RunPasses& run, bool bless, double tolerance = 0) const {
    return check_pass_file(path, run, tolerance, bless).value_or("");
  }
};

TEST_CASE("a right rewrite is blessed, and passes from then on") {
  const Golden golden{std::string(input)};
  const std::string before = golden.failure(add_negated, false);
  CHECK(before.find("+   %2 = neg(%1) : tensor<[n, 4], f32>\n") != std::string::npos);
  CHECK(before.find("RTX_BLESS=1") != std::string::npos);
  CHECK(golden.text() == input);
  CHECK(golden.failure(add_negated, true) == "");
  CHECK(golden.text().find("# expect:\nrtxir 1\n") != std::string::npos);
  CHECK(golden.failure(add_negated, false) == "");
}

TEST_CASE("a planted wrong rewrite fails with what it computes otherwise, and cannot be blessed") {
  const Golden golden{std::string(input)};
  REQUIRE(golden.failure(add_negated, true) == "");
  const std::string expected = golden.text();
  for (double tolerance : {0.0, 2e-6}) {
    for (bool bless : {false, true}) {
      const std::string failure = golden.failure(swap_operands, bless, tolerance);
      CAPTURE(failure);
      CHECK(failure.find("case.rtxir: the pass changes what is computed: output \"d\" of 'main'") != std::string::npos);
      CHECK(golden.text() == expected);
    }
  }
}

TEST_CASE("an expected output that a wrong rewrite once made is not enough") {
  std::string swapped(input);
  swapped.replace(swapped.find("sub(%0, %1) :"), 13, "sub(%1, %0) :");
  const Golden golden{concat(input, "# expect:\n", swapped.substr(swapped.find("rtxir 1")))};
  CHECK(golden.failure(swap_operands, false).find("changes what is computed") != std::string::npos);
}

TEST_CASE("a right rewrite that gives another text fails with the difference of the texts") {
  const Golden golden{concat(input, "# expect: unchanged\n")};
  CHECK(golden.failure(do_nothing, false) == "");
  const std::string failure = golden.failure(add_negated, false);
  CHECK(failure.find("case.rtxir differs:\n") != std::string::npos);
  CHECK(failure.find("- # expect: unchanged\n") != std::string::npos);
  CHECK(failure.find("+ # expect:\n") != std::string::npos);
}

TEST_CASE("a rewrite that loses an output fails") {
  const Golden golden{std::string(input)};
  const std::string failure = golden.failure(drop_output, true);
  CAPTURE(failure);
  CHECK(failure.find("the verifier refuses the output") != std::string::npos);
  CHECK(golden.text() == input);
}

TEST_CASE("a case without a reason fails") {
  const Golden golden{std::string(input.substr(input.find("rtxir 1")))};
  CHECK(golden.failure(do_nothing, true).find("must say why the case exists") != std::string::npos);
}

}  // namespace
}  // namespace rtx::testing
