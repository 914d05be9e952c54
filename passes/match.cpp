#include "passes/match.h"

#include <algorithm>
#include <cmath>

namespace rtx {

namespace {

constexpr size_t most_factors = 8;

// Of the spacing of numbers relative to their size.
double relative_spacing(DType dtype) {
  switch (dtype) {
    case DType::bf16:
      return 0x1p-7;
    case DType::f16:
      return 0x1p-10;
    default:
      return 0x1p-19;  // f32 and f64: exporters print constants with six or seven digits
  }
}

void multiply(Product& product, Value* value, bool divide, bool is_root) {
  auto& side = divide ? product.divisors : product.factors;
  if (std::optional<double> number = constant_number(value)) {
    product.constant = divide ? product.constant / *number : product.constant * *number;
    return;
  }
  Operation* operation = value->def();
  const bool whole = !operation || (!is_root && !value->has_one_use()) || side.size() >= most_factors;
  if (!whole && operation->is(Op::mul)) {
    multiply(product, operation->operand(0), divide, false);
    multiply(product, operation->operand(1), divide, false);
  } else if (!whole && operation->is(Op::div)) {
    multiply(product, operation->operand(0), divide, false);
    multiply(product, operation->operand(1), !divide, false);
  } else if (!whole && operation->is(Op::reciprocal)) {
    multiply(product, operation->operand(0), !divide, false);
  } else if (!whole && operation->is(Op::pow) && constant_number(operation->operand(1)) == 2) {
    side.insert(side.end(), 2, operation->operand(0));
  } else if (!whole && operation->is(Op::pow) && constant_number(operation->operand(1)) == 3) {
    side.insert(side.end(), 3, operation->operand(0));
  } else {
    side.push_back(value);
  }
}

// The first of the axes if they are all from there to the last.
std::optional<int64_t> first_of_trailing(const Operation& reduction) {
  const std::vector<int64_t>& axes = reduction.attributes.integers("axes");
  const int64_t rank = reduction.operand(0)->type.rank();
  if (axes.empty() || !reduction.attributes.boolean("keepdims")) return std::nullopt;
  for (size_t i = 0; i < axes.size(); ++i) {
    if (axes[i] != rank - static_cast<int64_t>(axes.size() - i)) return std::nullopt;
  }
  return axes.front();
}

}  // namespace

bool nearly(double a, double b, DType dtype) {
  return a == b || std::abs(a - b) <= relative_spacing(dtype) * std::max(std::abs(a), std::abs(b));
}

Product product_of(Value* value) {
  Product product;
  multiply(product, value, false, true);
  return product;
}

Value* sum_with_constant(const Value* value, double* constant) {
  Operation* sum = defined_by(value, Op::add);
  if (!sum) return nullptr;
  for (size_t i = 0; i < 2; ++i) {
    std::optional<double> number = constant_number(sum->operand(i));
    if (!number || sum->operand(1 - i)->type != value->type) continue;
    *constant = *number;
    return sum->operand(1 - i);
  }
  return nullptr;
}

Value* sum_with(const Value* value, double number) {
  double constant = 0;
  Value* rest = sum_with_constant(value, &constant);
  return rest && constant == number ? rest : nullptr;
}

std::optional<Mean> trailing_mean(Value* value) {
  if (Operation* mean = defined_by(value, Op::reduce_mean)) {
    std::optional<int64_t> axis = first_of_trailing(*mean);
    return axis ? std::optional(Mean{mean->operand(0), *axis}) : std::nullopt;
  }
  const Product product = product_of(value);
  Operation* sum = product.factors.size() == 1 && product.divisors.empty()
                       ? defined_by(product.factors[0], Op::reduce_sum)
                       : nullptr;
  std::optional<int64_t> axis = sum ? first_of_trailing(*sum) : std::nullopt;
  if (!axis) return std::nullopt;
  Dim length = 1;
  for (int64_t i = *axis; i < sum->operand(0)->type.rank(); ++i) {
    length = length * sum->operand(0)->type.shape[static_cast<size_t>(i)];
  }
  if (!length.is_constant() || length.is(0)) return std::nullopt;
  if (!nearly(product.constant * static_cast<double>(length.constant()), 1, value->type.dtype)) return std::nullopt;
  return Mean{sum->operand(0), *axis};
}

std::optional<size_t> find(const std::vector<Value*>& list, const Value* value) {
  auto found = std::find(list.begin(), list.end(), value);
  return found == list.end() ? std::nullopt : std::optional(static_cast<size_t>(found - list.begin()));
}

}  // namespace rtx
