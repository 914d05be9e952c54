#include <doctest/doctest.h>

#include <random>

#include "ir/dim.h"

using namespace rtx;

namespace {
Dim d(std::string_view text) {
  Result<Dim> parsed = parse_dim(text);
  REQUIRE_MESSAGE(parsed.ok(), std::string(text));
  return *parsed;
}
std::string round_trip(std::string_view text) { return d(text).str(); }
}  // namespace

TEST_CASE("a dim has one canonical form however it was written") {
  CHECK(d("(a + b)*2") == d("2*b + a*2"));
  CHECK(d("(a + b)*(a - b)") == d("a*a - b*b"));
  CHECK(d("a - a") == Dim(0));
  CHECK(d("a*b") != d("a + b"));
  CHECK(round_trip("1 + past*2 + seq*batch") == "batch*seq + 2*past + 1");
  CHECK(round_trip("-x + 3") == "-x + 3");
  CHECK(round_trip("0*x") == "0");
  CHECK(round_trip("min(b, a)") == "min(a, b)");
  CHECK(round_trip("max(a + 1, a)") == "a + 1");
}

TEST_CASE("floor division and remainder reduce where they are exact") {
  CHECK(floordiv(d("batch*seq*768"), d("batch*12")) == d("64*seq"));
  CHECK(floordiv(d("4*x + 6"), 4) == d("x + 1"));
  CHECK(floordiv(d("4*x + y"), 4) == d("x + floordiv(y, 4)"));
  CHECK(mod(d("4*x + y + 9"), 4) == d("mod(y + 1, 4)"));
  CHECK(mod(d("6*x"), 3) == Dim(0));
  CHECK(floordiv(-7, 2) == Dim(-4));
  CHECK(mod(-7, 2) == Dim(1));
  CHECK(ceildiv(d("2*x + 1"), 2) == d("x + 1"));
  CHECK_FALSE(d("a*b + 1").divided_by(d("a")).has_value());
  CHECK(d("a*b + a*c").divided_by(d("a")) == d("b + c"));
  CHECK(d("a*a - b*b").divided_by(d("a + b")) == d("a - b"));
}

TEST_CASE("text of random expressions reads back to the same dim and value") {
  std::mt19937_64 random(20261201);
  const char* names[] = {"batch", "seq", "past"};
  auto make = [&](auto& self, int depth) -> Dim {
    switch (depth == 0 ? random() % 2 : random() % 8) {
      case 0: return Dim(static_cast<int64_t>(random() % 7) - 3);
      case 1: return Dim::symbol(names[random() % 3]);
      case 2: return self(self, depth - 1) + self(self, depth - 1);
      case 3: return self(self, depth - 1) - self(self, depth - 1);
      case 4: return self(self, depth - 1) * self(self, depth - 1);
      case 5: return floordiv(self(self, depth - 1), Dim(static_cast<int64_t>(random() % 5) + 1));
      case 6: return mod(self(self, depth - 1), Dim(static_cast<int64_t>(random() % 5) + 1));
      default: return min(self(self, depth - 1), self(self, depth - 1));
    }
  };
  for (int i = 0; i < 2000; ++i) {
    Dim made = make(make, 4);
    if (made.overflowed()) continue;
    CAPTURE(made.str());
    CHECK(d(made.str()) == made);
    SymbolValues values{{"batch", 3}, {"seq", 5}, {"past", 2}};
    Result<int64_t> before = made.evaluate(values);
    Dim bound = made.substituted("batch", 3).substituted("seq", 5).substituted("past", 2);
    if (before && !bound.overflowed()) {
      REQUIRE(bound.is_constant());
      CHECK(bound.constant() == *before);
      SymbolRanges ranges{{"batch", {1, 4}}, {"seq", {1, 8}}, {"past", {0, 9}}};
      CHECK(made.lower_bound(ranges) <= *before);
      CHECK(made.upper_bound(ranges) >= *before);
    }
  }
}

TEST_CASE("an equation is solved for a symbol, sums before differences") {
  std::optional<Dim::Solution> solution = Dim::solve(d("total"), d("past + seq"));
  REQUIRE(solution.has_value());
  CHECK(solution->symbol == "total");
  CHECK(solution->value == d("past + seq"));
  solution = Dim::solve(d("s21 + s29"), d("s21 + s71"));
  REQUIRE(solution.has_value());
  CHECK(solution->symbol == "s71");
  CHECK(solution->value == Dim::symbol("s29"));
  CHECK_FALSE(Dim::solve(d("2*a"), d("3")).has_value());
  CHECK_FALSE(Dim::solve(d("a*a"), d("b*b")).has_value());
}

TEST_CASE("leaving int64 is noticed and kept") {
  Dim huge = Dim(INT64_MAX) * Dim::symbol("x");
  CHECK_FALSE(huge.overflowed());
  CHECK((huge * 2).overflowed());
  CHECK((huge * 2 - huge).overflowed());
  CHECK((Dim(INT64_MAX) + 1).overflowed());
  CHECK_FALSE(d("x*x*x").evaluate({{"x", int64_t{1} << 40}}).ok());
  CHECK_FALSE(d("floordiv(y, x)").evaluate({{"x", 0}, {"y", 1}}).ok());
  CHECK_FALSE(d("x").evaluate({}).ok());
}

TEST_CASE("bad dim text is refused with its column") {
  for (const char* text : {"", "1 +", "a b", "foo(1, 2)", "min(1)", "99999999999999999999", "a**2", "[1]", "((1)"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_dim(text).ok());
  }
  CHECK_FALSE(parse_dim(std::string(1000, '(') + "1" + std::string(1000, ')')).ok());
  CHECK_FALSE(parse_dim(std::string(100000, '-') + "1").ok());
  Result<Dim> bad = parse_dim("a + ");
  REQUIRE_FALSE(bad.ok());
  CHECK(bad.error().first().message.find("column 5") != std::string::npos);
}
