#include "passes/attention_masks.h"

#include <limits>

#include "passes/affine_index.h"
#include "passes/match.h"

namespace rtx {

namespace {

// The condition behind a float that is 1 where it holds and else 0; products are conjunctions. Null for others.
Value* condition_of(Value* value, Rewriter& rewriter) {
  if (Operation* cast = defined_by(value, Op::cast)) {
    return cast->operand(0)->type.dtype == DType::boolean ? cast->operand(0) : nullptr;
  }
  if (Operation* product = defined_by(value, Op::mul)) {
    Value* a = condition_of(product->operand(0), rewriter);
    Value* b = a ? condition_of(product->operand(1), rewriter) : nullptr;
    return b ? rewriter.make(Op::logical_and, {a, b}) : nullptr;
  }
  if (Operation* move = value->def(); move && (move->is(Op::reshape) || move->is(Op::broadcast))) {
    Value* inner = condition_of(move->operand(0), rewriter);
    return inner ? rewriter.make(move->op, {inner}, move->attributes) : nullptr;
  }
  return nullptr;
}

}  // namespace

bool AttentionMasks::accepts(double fill) {
  if (!fill_) fill_ = fill;
  return *fill_ == fill;
}

void AttentionMasks::add_condition(Value* keep, bool when) {
  if (!when) keep = rewriter_.make(Op::logical_not, {keep});
  if (!find(operands_, keep)) operands_.push_back(keep);
}

void AttentionMasks::add_bias(Value* bias) {
  if (Operation* broadcast = defined_by(bias, Op::broadcast)) return add_bias(broadcast->operand(0));
  if (Operation* sum = defined_by(bias, Op::add)) {
    add_bias(sum->operand(0));
    return add_bias(sum->operand(1));
  }
  if (Operation* select = defined_by(bias, Op::select)) {
    for (size_t i = 0; i < 2; ++i) {
      std::optional<double> kept = constant_number(select->operand(1 + i)),
                            masked = constant_number(select->operand(2 - i));
      if (kept && masked && *kept == 0 && *masked < 0 && accepts(*masked))
        return split_mask(select->operand(0), i == 0);
    }
  }
  // (1 - condition) * fill
  const Product product = product_of(bias);
  Operation* complement = product.factors.size() == 1 && product.divisors.empty() && product.constant < 0
                              ? defined_by(product.factors[0], Op::sub)
                              : nullptr;
  if (complement && is_constant(complement->operand(0), 1)) {
    Value* condition = condition_of(complement->operand(1), rewriter_);
    if (condition && accepts(product.constant)) return split_mask(condition, true);
  }
  operands_.push_back(bias);
}

bool AttentionMasks::add_mask(Value* keep, bool when, double fill) {
  if (!accepts(fill)) return false;
  split_mask(keep, when);
  return true;
}

void AttentionMasks::split_mask(Value* keep, bool when) {
  Operation* operation = keep->def();
  if (operation && operation->is(Op::broadcast)) return split_mask(operation->operand(0), when);
  if (operation && operation->is(Op::logical_not)) return split_mask(operation->operand(0), !when);
  if (operation && operation->is(when ? Op::logical_and : Op::logical_or)) {
    split_mask(operation->operand(0), when);
    return split_mask(operation->operand(1), when);
  }
  if (!add_limits(keep, when)) add_condition(keep, when);
}

// Comparisons of positions: j <= i + c, or j >= i - c, with query i and key j on the last two axes.
bool AttentionMasks::add_limits(Value* keep, bool when) {
  const Operation* comparison = keep->def();
  if (!comparison || (!comparison->is(Op::less) && !comparison->is(Op::less_equal))) return false;
  auto left = affine_index(comparison->operand(0)), right = affine_index(comparison->operand(1));
  const size_t rank = keep->type.shape.size();
  if (!left || !right || rank < 2) return false;
  // Kept where distance >= 0: right - left, minus 1 for a strict comparison; the other way round where it must not
  // hold.
  auto factor = [&](const AffineIndex& index, size_t axis) {
    const size_t missing = rank - index.factors.size();
    return axis < missing ? Dim(0) : index.factors[axis - missing];
  };
  const Dim sign = when ? 1 : -1;
  Dim base = sign * (right->base - left->base);
  if (comparison->is(Op::less) == when) base = base - 1;
  for (size_t axis = 0; axis + 2 < rank; ++axis) {
    if (factor(*left, axis) != factor(*right, axis)) return false;
  }
  const Dim of_query = sign * (factor(*right, rank - 2) - factor(*left, rank - 2));
  const Dim of_key = sign * (factor(*right, rank - 1) - factor(*left, rank - 1));
  if (of_query.is(1) && of_key.is(-1) && (!upper_ || *upper_ == base)) {
    upper_ = base;
    return true;
  }
  if (of_query.is(-1) && of_key.is(1) && (!lower_ || *lower_ == base)) {
    lower_ = base;
    lower_mask_ = keep;
    lower_when_ = when;
    return true;
  }
  return false;
}

void AttentionMasks::describe(AttributeList& attributes) {
  const Dim offset = upper_.value_or(0);
  // j >= i - lower is j > i + offset - window. A window of 0 would be none.
  Dim window = lower_ ? *lower_ + offset + 1 : Dim(0);
  if (lower_ && window.lower_bound(rewriter_.symbols()) < 1) {
    add_condition(lower_mask_, lower_when_);
    window = 0;
  }
  attributes.set("causal", upper_.has_value());
  attributes.set("offset", offset);
  attributes.set("window", window);
  attributes.set("fill", fill_.value_or(-std::numeric_limits<double>::infinity()));
}

}  // namespace rtx
