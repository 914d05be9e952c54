#include "runtime/bind_symbols.h"

#include <doctest/doctest.h>

#include "base/text.h"

namespace rtx::runtime {
namespace {

using package::Formula;
using package::Manifest;
using package::Program;
using package::TensorSpec;

struct Case {
  Manifest manifest;
  Program program;

  Case(std::vector<package::Symbol> symbols, std::vector<std::vector<std::string>> shapes) {
    manifest.symbols = std::move(symbols);
    program.name = "main";
    for (size_t i = 0; i < shapes.size(); ++i) {
      TensorSpec spec{.name = concat("in", i), .dtype = DType::f32, .shape = {}};
      for (const std::string& text : shapes[i])
        spec.shape.push_back(Formula::parse(text, manifest.symbol_names()).value());
      program.inputs.push_back(std::move(spec));
    }
  }

  Result<std::vector<int64_t>> bind(std::vector<std::vector<int64_t>> shapes, const SymbolValues& given = {}) const {
    std::vector<TensorType> types;
    for (auto& shape : shapes) types.push_back({DType::f32, std::move(shape)});
    return bind_symbols(manifest, program, types, given);
  }
};

const std::vector<package::Symbol> past_seq = {{.name = "past", .min = 0, .max = 100},
                                               {.name = "seq", .min = 1, .max = 64}};

TEST_CASE("an axis that is one symbol binds it") {
  const Case c(past_seq, {{"seq", "8"}, {"past"}});
  CHECK(c.bind({{5, 8}, {7}}).value() == std::vector<int64_t>{7, 5});
}

TEST_CASE("an axis that is an expression is checked by evaluation") {
  const Case c(past_seq, {{"seq"}, {"past"}, {"past + seq"}});
  CHECK(c.bind({{5}, {7}, {12}}).ok());
  const auto wrong = c.bind({{5}, {7}, {13}});
  REQUIRE(!wrong.ok());
  CHECK(wrong.error().first().id == "E375");
  CHECK(wrong.error().first().where == "input 'in2'");
  CHECK(wrong.error().first().expected == "past + seq = 12 (past = 7, seq = 5)");
  CHECK(wrong.error().first().got == "13");
}

TEST_CASE("a symbol that stands only in expressions is solved for") {
  CHECK(Case(past_seq, {{"seq"}, {"past + seq"}}).bind({{5}, {12}}).value() == std::vector<int64_t>{7, 5});
  CHECK(Case(past_seq, {{"2*seq"}, {"past + 1"}}).bind({{10}, {1}}).value() == std::vector<int64_t>{0, 5});
  // 2*seq = 11 has no solution.
  CHECK(!Case(past_seq, {{"2*seq"}, {"past"}}).bind({{11}, {0}}).ok());
  // Two unknowns in one expression.
  const auto open = Case(past_seq, {{"past + seq"}}).bind({{12}});
  REQUIRE(!open.ok());
  CHECK(open.error().first().id == "E378");
  CHECK(Case(past_seq, {{"past + seq"}}).bind({{12}}, {{"past", 4}}).value() == std::vector<int64_t>{4, 8});
}

TEST_CASE("a solved value that does not fit the whole expression is refused") {
  // Not a straight line: solving takes the slope at 0, the check catches it.
  const auto bent = Case(past_seq, {{"seq*seq"}, {"past"}}).bind({{10}, {0}});
  REQUIRE(!bent.ok());
  CHECK(bent.error().first().id == "E375");
}

TEST_CASE("two values for one symbol are an error that names both places") {
  const auto wrong = Case(past_seq, {{"seq"}, {"past"}, {"seq"}}).bind({{5}, {1}, {6}});
  REQUIRE(!wrong.ok());
  CHECK(wrong.error().first().id == "E376");
  CHECK(wrong.error().first().where == "input 'in2' axis 0");
  CHECK(wrong.error().first().expected == "seq = 5, from input 'in0' axis 0");
}

TEST_CASE("values outside a symbol's range are errors at both ends") {
  const Case c(past_seq, {{"seq"}, {"past"}});
  CHECK(c.bind({{1}, {0}}).ok());
  CHECK(c.bind({{64}, {100}}).ok());
  for (const auto& shapes : std::vector<std::vector<std::vector<int64_t>>>{{{0}, {0}}, {{65}, {0}}, {{1}, {101}}}) {
    const auto wrong = c.bind(shapes);
    REQUIRE(!wrong.ok());
    CHECK(wrong.error().first().id == "E377");
  }
}

TEST_CASE("a constant axis must match") {
  const auto wrong = Case(past_seq, {{"seq", "8"}, {"past"}}).bind({{5, 9}, {7}});
  REQUIRE(!wrong.ok());
  CHECK(wrong.error().first().id == "E375");
  CHECK(wrong.error().first().expected == "8");
}

TEST_CASE("a symbol that the program does not use needs no value") {
  CHECK(Case(past_seq, {{"seq"}}).bind({{5}}).value() == std::vector<int64_t>{0, 5});
}

TEST_CASE("an unknown dim given by name is a usage error") {
  const auto wrong = Case(past_seq, {{"seq"}}).bind({{5}}, {{"sequence", 5}});
  REQUIRE(!wrong.ok());
  CHECK(wrong.error().first().id == "E004");
  CHECK(wrong.error().first().kind == ErrorKind::usage);
}

TEST_CASE("chosen symbols are those given, else opt, else the least that is not 0") {
  Manifest manifest;
  manifest.symbols = {{.name = "a", .min = 0, .max = 9},
                      {.name = "b", .min = 2, .max = 9, .opt = 4},
                      {.name = "c", .min = 1, .max = 9, .opt = 4},
                      {.name = "d", .min = 0, .max = 0}};
  CHECK(choose_symbols(manifest, {{"c", 7}}).value() == std::vector<int64_t>{1, 4, 7, 0});
  CHECK(!choose_symbols(manifest, {{"c", 10}}).ok());
}

TEST_CASE("sizes that overflow are errors, not wrapped") {
  const auto huge =
      Case({{.name = "n", .min = 0, .max = int64_t{1} << 40}}, {{"n"}, {"n*n*n"}}).bind({{int64_t{1} << 40}, {0}});
  REQUIRE(!huge.ok());
}

}  // namespace
}  // namespace rtx::runtime
