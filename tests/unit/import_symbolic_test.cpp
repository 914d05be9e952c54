// Arithmetic on elements that are dim expressions.
#include <doctest/doctest.h>

#include "frontend/symbolic.h"

using namespace rtx;
using namespace rtx::onnx;

namespace {

const SymbolRanges& ranges() {
  static const SymbolRanges result = {{"n", {1, 100, 0}}, {"m", {0, 10, 0}}};
  return result;
}

Dim n() { return Dim::symbol("n"); }
Dim m() { return Dim::symbol("m"); }

Element of(Arithmetic arithmetic, std::vector<Element> operands, DType dtype = DType::i64) {
  return arithmetic(operands, {dtype, ranges()});
}
Element dim(Dim value) { return Element::of(std::move(value)); }

}  // namespace

TEST_CASE("comparisons of dims are decided by ranges, or left open") {
  CHECK(of(symbolic_equal, {dim(n()), dim(-1)}) == dim(0));
  CHECK(of(symbolic_equal, {dim(n()), dim(n())}) == dim(1));
  CHECK_FALSE(of(symbolic_equal, {dim(n()), dim(5)}).known());
  CHECK(of(symbolic_less, {dim(n()), dim(n() + 1)}) == dim(1));
  CHECK(of(symbolic_less, {dim(n()), dim(1)}) == dim(0));
  CHECK(of(symbolic_less_equal, {dim(n()), dim(100)}) == dim(1));
  CHECK_FALSE(of(symbolic_less_equal, {dim(n()), dim(99)}).known());
  CHECK(of(symbolic_greater, {dim(n()), dim(0)}) == dim(1));
  CHECK(of(symbolic_greater_equal, {dim(m()), dim(0)}) == dim(1));
  CHECK_FALSE(of(symbolic_greater, {dim(m()), dim(0)}).known());
}

TEST_CASE("integer division truncates and becomes floordiv only where nothing is negative") {
  CHECK(of(symbolic_div, {dim(-7), dim(2)}) == dim(-3));
  CHECK(of(symbolic_div, {dim(n()), dim(2)}) == dim(floordiv(n(), 2)));
  CHECK(of(symbolic_div, {dim(n() * 6), dim(3)}) == dim(n() * 2));
  CHECK_FALSE(of(symbolic_div, {dim(n() - 50), dim(2)}).known());
  CHECK_FALSE(of(symbolic_div, {dim(n()), dim(0)}).known());
}

TEST_CASE("a float division of sizes is known only where it is exact") {
  CHECK(of(symbolic_div, {dim(n() * 4), Element::of_real(2)}, DType::f32) == dim(n() * 2));
  CHECK_FALSE(of(symbolic_div, {dim(n()), Element::of_real(2)}, DType::f32).known());
  CHECK_FALSE(of(symbolic_mul, {dim(n()), Element::of_real(0.5)}, DType::f32).known());
}

TEST_CASE("min and max drop what the ranges rule out") {
  CHECK(min_in_ranges(n(), 100, ranges()) == n());
  CHECK(max_in_ranges(n(), 1, ranges()) == n());
  CHECK(min_in_ranges(n(), 5, ranges()) == min(n(), 5));
  CHECK(max_in_ranges(m() - n(), m(), ranges()) == m());
}

TEST_CASE("logic knows what one operand decides") {
  Element unknown;
  CHECK(of(symbolic_and, {dim(0), unknown}) == dim(0));
  CHECK_FALSE(of(symbolic_and, {dim(1), unknown}).known());
  CHECK(of(symbolic_or, {unknown, dim(1)}) == dim(1));
  CHECK(of(symbolic_where, {dim(1), dim(n()), dim(3)}) == dim(n()));
  CHECK(of(symbolic_where, {unknown, dim(n()), dim(n())}) == dim(n()));
  CHECK_FALSE(of(symbolic_where, {unknown, dim(n()), dim(3)}).known());
}

TEST_CASE("an overflowing product is unknown, not wrong") {
  CHECK_FALSE(of(symbolic_mul, {dim(n() * (int64_t{1} << 62)), dim(4)}).known());
}

TEST_CASE("elementwise arithmetic broadcasts as numpy does") {
  Contents column{DType::i64, {2, 1}, {dim(1), dim(n())}}, row{DType::i64, {2}, {dim(10), dim(20)}};
  const Contents* operands[] = {&column, &row};
  auto sum = apply(symbolic_add, operands, {DType::i64, ranges()});
  REQUIRE(sum.has_value());
  CHECK(sum->shape == std::vector<int64_t>{2, 2});
  CHECK(sum->elements == std::vector<Element>{dim(11), dim(21), dim(n() + 10), dim(n() + 20)});
  Contents three{DType::i64, {3}, {dim(1), dim(2), dim(3)}};
  const Contents* unequal[] = {&row, &three};
  CHECK_FALSE(apply(symbolic_add, unequal, {DType::i64, ranges()}).has_value());
  Contents empty{DType::i64, {0}, {}};
  const Contents* with_empty[] = {&empty, &column};
  auto none = apply(symbolic_add, with_empty, {DType::i64, ranges()});
  REQUIRE(none.has_value());
  CHECK(none->shape == std::vector<int64_t>{2, 0});
}
