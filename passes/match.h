// Looking at a value as what it computes, whatever order and form an exporter wrote it in. For the rules that recover
// composite operations.
#pragma once

#include <optional>
#include <vector>

#include "passes/canonicalize_rules.h"

namespace rtx {

// True if the numbers are equal but for their rounding to `dtype`.
bool nearly(double a, double b, DType dtype);

// A value as constant * product(factors) / product(divisors). Products that are used elsewhere too stay whole, but for
// the value itself; powers of 2 and 3 are repeated factors.
struct Product {
  double constant = 1;
  std::vector<Value*> factors;
  std::vector<Value*> divisors;

  bool is(double number, DType dtype, size_t factor_count) const {
    return factors.size() == factor_count && divisors.empty() && nearly(constant, number, dtype);
  }
};
Product product_of(Value* value);

// x where `value` is x + c or c + x with a constant c, which goes to `constant`; else null.
Value* sum_with_constant(const Value* value, double* constant);
// x where `value` is x + number.
Value* sum_with(const Value* value, double number);

// The mean of a value over its last axes, which stay with length 1.
struct Mean {
  Value* of = nullptr;
  int64_t axis = 0;  // the first of the axes
};
std::optional<Mean> trailing_mean(Value* value);

// The position of `value` in the list, or nullopt.
std::optional<size_t> find(const std::vector<Value*>& list, const Value* value);

}  // namespace rtx
