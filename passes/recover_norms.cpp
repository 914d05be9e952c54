// layer_norm and rms_norm: first without scale, which then joins, and the bias after it.

#include "base/text.h"
#include "passes/match.h"
#include "passes/recover_rules.h"

namespace rtx {
namespace {

// x where the product has a factor 1 / sqrt(x), which is taken out; else null.
Value* take_inverse_root(Product& product) {
  for (size_t i = 0; i < product.factors.size(); ++i) {
    if (Operation* root = defined_by(product.factors[i], Op::rsqrt)) {
      product.factors.erase(product.factors.begin() + static_cast<int64_t>(i));
      return root->operand(0);
    }
  }
  for (size_t i = 0; i < product.divisors.size(); ++i) {
    if (Operation* root = defined_by(product.divisors[i], Op::sqrt)) {
      product.divisors.erase(product.divisors.begin() + static_cast<int64_t>(i));
      return root->operand(0);
    }
  }
  return nullptr;
}

// x where `value` is x * x.
Value* squared(Value* value) {
  const Product product = product_of(value);
  return product.constant == 1 && product.divisors.empty() && product.factors.size() == 2 &&
                 product.factors[0] == product.factors[1]
             ? product.factors[0]
             : nullptr;
}

// x / sqrt(mean(x^2) + epsilon) -> rms_norm(x, 1)
// (x - mean(x)) / sqrt(mean((x - mean(x))^2) + epsilon) -> layer_norm(x, 1)
Value* recover_norm(Operation& root, Rewriter& rewriter) {
  Product product = product_of(root.result());
  Value* radicand = take_inverse_root(product);
  if (!radicand || product.constant != 1 || product.factors.size() != 1 || !product.divisors.empty()) return nullptr;
  Value* normalised = product.factors[0];
  if (normalised->type != root.result()->type) return nullptr;
  double epsilon = 0;
  Value* variance = sum_with_constant(radicand, &epsilon);
  std::optional<Mean> mean_square = trailing_mean(variance ? variance : radicand);
  if (!mean_square) return nullptr;
  if (squared(mean_square->of) != normalised)
    return rewriter.miss("norm", "the mean is not of the square of what is divided by its root");
  if (epsilon < 0) return rewriter.miss("norm", "epsilon is negative");
  Value* one = rewriter.filled({normalised->type.dtype, {}}, 1);
  const AttributeList attributes = {{"axis", mean_square->axis}, {"epsilon", epsilon}};
  if (Operation* centred = defined_by(normalised, Op::sub)) {
    std::optional<Mean> mean = trailing_mean(centred->operand(1));
    if (mean && mean->of == centred->operand(0) && mean->axis == mean_square->axis)
      return rewriter.make(Op::layer_norm, {mean->of, one}, attributes);
  }
  return rewriter.make(Op::rms_norm, {normalised, one}, attributes);
}

// Only axes that are normalised: a residual of the shape of x is neither scale nor bias.
bool is_parameter(const Value* value, const Operation& norm) {
  const int64_t normalised = norm.result()->type.rank() - norm.attributes.integer("axis");
  const Shape& shape = value->type.shape;
  const int64_t leading = static_cast<int64_t>(shape.size()) - normalised;
  for (int64_t i = 0; i < leading; ++i) {
    if (!shape[static_cast<size_t>(i)].is(1)) return false;
  }
  return true;
}

bool has_unit_scale(const Operation& norm) { return is_constant(norm.operand(1), 1); }

// The norm behind a value, maybe through a cast to a narrower type.
Operation* norm_behind(Value* value) {
  if (Operation* cast = defined_by(value, Op::cast); cast && value->has_one_use()) value = cast->operand(0);
  Operation* norm = value->def();
  if (!norm || (!norm->is(Op::layer_norm) && !norm->is(Op::rms_norm)) || !value->has_one_use()) return nullptr;
  return norm;
}

// norm(x, 1) * w -> norm(x, w)
// cast(norm(cast(x), 1)) * w -> norm(x, w)   (x, the product and w of one 16-bit type: one rounding in place of two)
Value* join_scale(Operation& root, Rewriter& rewriter) {
  for (size_t i = 0; i < 2; ++i) {
    Operation* norm = norm_behind(root.operand(i));
    Value* scale = root.operand(1 - i);
    if (!norm || !has_unit_scale(*norm) || norm->operand_count() != 2 || !is_parameter(scale, *norm)) continue;
    Value* x = norm->operand(0);
    if (x->type.dtype != scale->type.dtype) {
      Operation* widened = defined_by(x, Op::cast);
      if (!widened || widened->operand(0)->type.dtype != scale->type.dtype) {
        rewriter.miss("norm with scale", concat("the norm is of ", to_string(x->type.dtype), ", the scale ",
                                                to_string(scale->type.dtype)));
        continue;
      }
      x = widened->operand(0);
    }
    return rewriter.make(norm->op, {x, scale}, norm->attributes);
  }
  return nullptr;
}

// layer_norm(x, w) + b -> layer_norm(x, w, b)
Value* join_bias(Operation& root, Rewriter& rewriter) {
  for (size_t i = 0; i < 2; ++i) {
    Operation* norm = defined_by(root.operand(i), Op::layer_norm);
    Value* bias = root.operand(1 - i);
    if (!norm || !root.operand(i)->has_one_use() || norm->operand_count() != 2 || !is_parameter(bias, *norm)) continue;
    return rewriter.make(Op::layer_norm, {norm->operand(0), norm->operand(1), bias}, norm->attributes);
  }
  return nullptr;
}

constexpr Rule rules[] = {
    {Op::mul, recover_norm},
    {Op::div, recover_norm},
    {Op::mul, join_scale},
    {Op::add, join_bias},
};

}  // namespace

std::span<const Rule> norm_recoveries() { return rules; }

}  // namespace rtx
