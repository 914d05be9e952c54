// gelu, silu and softmax.

#include <cmath>

#include "passes/match.h"
#include "passes/recover_rules.h"

namespace rtx {
namespace {

// The inner value of 1 + f(inner), else null.
Value* one_plus(const Value* value, Op f) {
  Value* rest = sum_with(value, 1);
  Operation* function = rest ? defined_by(rest, f) : nullptr;
  return function ? function->operand(0) : nullptr;
}

// `value` is x / sqrt(2).
bool is_erf_argument(Value* value, const Value* x) {
  const Product product = product_of(value);
  return product.is(M_SQRT1_2, value->type.dtype, 1) && product.factors[0] == x;
}

// `value` is x^count * constant.
bool is_power(Value* value, const Value* x, size_t count, double constant) {
  const Product product = product_of(value);
  if (!product.is(constant, value->type.dtype, count)) return false;
  for (const Value* factor : product.factors) {
    if (factor != x) return false;
  }
  return true;
}

// `value` is sqrt(2 / pi) * (x + 0.044715 x^3), or that with x or both constants multiplied out.
bool is_tanh_argument(Value* value, Value* x) {
  const DType dtype = value->type.dtype;
  const double root = std::sqrt(2 / M_PI), cubic = 0.044715;
  const Product product = product_of(value);
  if (product.is(root, dtype, 1)) {
    Operation* sum = defined_by(product.factors[0], Op::add);
    for (size_t i = 0; sum && i < 2; ++i) {
      if (sum->operand(i) != x) continue;
      const Product rest = product_of(sum->operand(1 - i));
      if (is_power(sum->operand(1 - i), x, 3, cubic)) return true;
      // 0.044715 (x x x) with the powers kept apart: x * (x * x)
      if (rest.is(cubic, dtype, 2) && find(rest.factors, x) &&
          is_power(rest.factors[1 - *find(rest.factors, x)], x, 2, 1)) {
        return true;
      }
    }
  }
  std::optional<size_t> at = find(product.factors, x);
  if (product.factors.size() != 2 || !at || !product.divisors.empty()) return false;
  Value* other = product.factors[1 - *at];
  // x * root * (1 + 0.044715 x^2)
  if (nearly(product.constant, root, dtype)) {
    Value* square = sum_with(other, 1);
    return square && is_power(square, x, 2, cubic);
  }
  // x * (root + root * 0.044715 x^2)
  double constant = 0;
  Value* square = sum_with_constant(other, &constant);
  return nearly(product.constant, 1, dtype) && square && nearly(constant, root, dtype) &&
         is_power(square, x, 2, root * cubic);
}

// 0.5 * x * (1 + erf(x / sqrt(2))) -> gelu(x)   and the same with tanh
Value* recover_gelu(Operation& root, Rewriter& rewriter) {
  const Product product = product_of(root.result());
  if (!product.is(0.5, root.result()->type.dtype, 2)) return nullptr;
  for (size_t i = 0; i < 2; ++i) {
    Value* x = product.factors[1 - i];
    if (x->type != root.result()->type) continue;
    if (Value* inner = one_plus(product.factors[i], Op::erf)) {
      if (is_erf_argument(inner, x)) return rewriter.make(Op::gelu, {x}, {{"approximate", std::string("none")}});
      rewriter.miss("gelu", "the argument of erf is not x / sqrt(2)");
    }
    if (Value* inner = one_plus(product.factors[i], Op::tanh)) {
      if (is_tanh_argument(inner, x)) return rewriter.make(Op::gelu, {x}, {{"approximate", std::string("tanh")}});
      rewriter.miss("gelu", "the argument of tanh is not sqrt(2 / pi) (x + 0.044715 x^3)");
    }
  }
  return nullptr;
}

// x * sigmoid(x) -> silu(x)
Value* recover_silu(Operation& root, Rewriter& rewriter) {
  for (size_t i = 0; i < 2; ++i) {
    Operation* sigmoid = defined_by(root.operand(i), Op::sigmoid);
    if (sigmoid && sigmoid->operand(0) == root.operand(1 - i)) return rewriter.make(Op::silu, {root.operand(1 - i)});
  }
  return nullptr;
}

// x / (1 + exp(-x)) -> silu(x)
Value* recover_silu_quotient(Operation& root, Rewriter& rewriter) {
  Value* exponential = one_plus(root.operand(1), Op::exp);
  Operation* negated = exponential ? defined_by(exponential, Op::neg) : nullptr;
  return negated && negated->operand(0) == root.operand(0) ? rewriter.make(Op::silu, {root.operand(0)}) : nullptr;
}

// exp(x - max(x)) / sum(exp(x - max(x))) -> softmax(x)   (one axis, the same in both)
Value* recover_softmax(Operation& root, Rewriter& rewriter) {
  Operation* exponential = defined_by(root.operand(0), Op::exp);
  Operation* sum = defined_by(root.operand(1), Op::reduce_sum);
  if (!exponential || !sum || sum->operand(0) != root.operand(0) || !sum->attributes.boolean("keepdims"))
    return nullptr;
  Operation* difference = defined_by(exponential->operand(0), Op::sub);
  Operation* top = difference ? defined_by(difference->operand(1), Op::reduce_max) : nullptr;
  if (!top || top->operand(0) != difference->operand(0) || !top->attributes.boolean("keepdims")) return nullptr;
  const std::vector<int64_t>& axes = sum->attributes.integers("axes");
  if (axes.size() != 1 || top->attributes.integers("axes") != axes) return nullptr;
  return rewriter.make(Op::softmax, {difference->operand(0)}, {{"axis", axes[0]}});
}

constexpr Rule rules[] = {
    {Op::mul, recover_gelu},
    {Op::mul, recover_silu},
    {Op::div, recover_silu_quotient},
    {Op::div, recover_softmax},
};

}  // namespace

std::span<const Rule> activation_recoveries() { return rules; }

}  // namespace rtx
