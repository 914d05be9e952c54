#include "runtime/package/formula.h"

#include <doctest/doctest.h>

#include <limits>
#include <random>

#include "base/text.h"

namespace rtx::package {
namespace {

const std::vector<std::string> symbols = {"batch", "seq", "min"};
constexpr int64_t least = std::numeric_limits<int64_t>::min(), most = std::numeric_limits<int64_t>::max();

Result<int64_t> evaluate(std::string_view text, std::vector<int64_t> values = {3, 128, 5}) {
  auto formula = Formula::parse(text, symbols);
  if (!formula) return std::move(formula).error();
  return formula->evaluate(values);
}

std::string outcome(std::string_view text) {
  const auto result = evaluate(text);
  return result ? "ok" : result.error().first().id;
}

TEST_CASE("formulas have the usual precedence and exact integer division") {
  CHECK(*evaluate("2 + 3*4") == 14);
  CHECK(*evaluate("(2 + 3)*4") == 20);
  CHECK(*evaluate("10 - 3 - 4") == 3);
  CHECK(*evaluate("-batch*seq + 1") == -383);
  CHECK(*evaluate("2*-3") == -6);
  CHECK(*evaluate("--3") == 3);
  CHECK(*evaluate("min(seq, 7) + max(batch, min)") == 12);  // a name before '(' is a function, else a symbol
  CHECK(*evaluate("floordiv(seq + 31, 32)*32") == 128);
  for (const auto& [x, y, quotient, rest] :
       {std::array{7, 2, 3, 1}, std::array{-7, 2, -4, 1}, std::array{7, -2, -4, -1}, std::array{-7, -2, 3, -1},
        std::array{6, -3, -2, 0}}) {
    CHECK(*evaluate(concat("floordiv(", x, ", ", y, ")")) == quotient);
    CHECK(*evaluate(concat("mod(", x, ", ", y, ")")) == rest);
  }
}

TEST_CASE("formulas know whether they are constant, and keep their text") {
  CHECK(Formula(least).text() == "-9223372036854775808");
  CHECK(*Formula::parse(Formula(least).text(), {})->evaluate({}) == least);
  CHECK(Formula(7).is_constant());
  CHECK(!Formula::parse("batch", symbols)->is_constant());
  CHECK(Formula::parse("seq * 2", symbols)->text() == "seq * 2");
  CHECK(Formula() == Formula(0));
}

TEST_CASE("overflow and division by zero are errors, at the ends of the range too") {
  CHECK(*evaluate(concat(most, " + 0")) == most);
  for (const std::string& text :
       {concat(most, " + 1"), concat(least, " - 1"), concat(most, "*2"), concat("-(", least, ")"),
        concat("floordiv(", least, ", -1)"), std::string("floordiv(1, 0)"), std::string("mod(batch, 0)")}) {
    CAPTURE(text);
    CHECK(outcome(text) == "E604");
  }
  CHECK(*evaluate(concat("mod(", least, ", -1)")) == 0);
  CHECK(Formula::parse("seq", symbols)->evaluate(std::vector<int64_t>{1}).error().first().id == "E604");
}

TEST_CASE("malformed formulas are refused with the column") {
  for (const char* text : {"",
                           " ",
                           "1 +",
                           "1 2",
                           "(1",
                           "1)",
                           "batch seq",
                           "unknown",
                           "pow(1, 2)",
                           "min(1)",
                           "min(1, 2, 3)",
                           "min(1 2)",
                           "9223372036854775808",
                           "1e3",
                           "0x10",
                           "1.5",
                           "a%b",
                           "1//2",
                           "\xff",
                           "batch\n",
                           "*"}) {
    CAPTURE(text);
    CHECK(outcome(text) == "E603");
  }
  CHECK(outcome(std::string_view("1\0", 2)) == "E603");
  CHECK(Formula::parse("batch + x", symbols).error().first().message ==
        "formula 'batch + x', column 9: unknown symbol");
}

TEST_CASE("deep and long formulas are refused, not followed") {
  CHECK(outcome(std::string(60, '(') + "1" + std::string(60, ')')) == "ok");
  CHECK(outcome(std::string(2000, '(') + "1" + std::string(2000, ')')) == "E603");
  CHECK(outcome(std::string(4000, '-') + "1") == "E603");
  CHECK(outcome("1" + std::string(4096, ' ')) == "E603");
  std::string nested = "1", sum = "0";
  for (int i = 0; i < 60; ++i) nested = concat("1 + 2*min(3, ", nested, ")");
  CHECK(outcome(nested) == "ok");  // the deepest stack there is
  for (int i = 0; i < 1000; ++i) sum += "+1";
  CHECK(*evaluate(sum) == 1000);
}

// A random expression, its text and its value; values stay small enough not to overflow.
struct Sample {
  std::string text;
  __int128 value;
};
Sample sample(std::mt19937& random, int depth) {
  static constexpr int64_t values[] = {3, 128, 5};
  const unsigned kind = depth == 0 ? random() % 2 : random() % 9;
  if (kind == 0) {
    const int64_t value = static_cast<int64_t>(random() % 100);
    return {std::to_string(value), value};
  }
  if (kind == 1) {
    const size_t index = random() % 2;
    return {symbols[index], values[index]};
  }
  const Sample a = sample(random, depth - 1), b = sample(random, depth - 1);
  auto floor_div = [](__int128 x, __int128 y) { return x / y - (x % y != 0 && (x < 0) != (y < 0) ? 1 : 0); };
  switch (kind) {
    case 2:
      return {concat("(", a.text, " + ", b.text, ")"), a.value + b.value};
    case 3:
      return {concat("(", a.text, " - ", b.text, ")"), a.value - b.value};
    case 4:
      return {concat("(", a.text, ")*(", b.text, ")"), a.value * b.value};
    case 5:
      return {concat("min(", a.text, ", ", b.text, ")"), std::min(a.value, b.value)};
    case 6:
      return {concat("max(", a.text, ", ", b.text, ")"), std::max(a.value, b.value)};
    default:
      break;
  }
  if (b.value == 0) return a;
  const __int128 quotient = floor_div(a.value, b.value);
  if (kind == 7) return {concat("floordiv(", a.text, ", ", b.text, ")"), quotient};
  return {concat("mod(", a.text, ", ", b.text, ")"), a.value - quotient * b.value};
}

TEST_CASE("random formulas have the value that 128-bit arithmetic gives") {
  std::mt19937 random(11);
  for (int i = 0; i < 5000; ++i) {
    const Sample s = sample(random, static_cast<int>(random() % 5));
    CAPTURE(s.text);
    if (s.text.size() > 4096) continue;
    const auto value = evaluate(s.text);
    if (value) {
      REQUIRE(*value == s.value);
    } else {
      REQUIRE(value.error().first().id == "E604");  // some step on the way overflows
    }
  }
}

}  // namespace
}  // namespace rtx::package
