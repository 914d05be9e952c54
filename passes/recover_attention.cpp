// attention: from the product of the weights and v back through softmax, masks and scale to q and k.

#include <cmath>

#include "base/text.h"
#include "passes/attention_masks.h"
#include "passes/match.h"
#include "passes/recover_rules.h"

namespace rtx {
namespace {

// A masked score of this size or below leaves nothing of a score that is added to it, so that setting and adding agree.
constexpr double overwhelming = -6e4;

class AttentionMatch {
 public:
  AttentionMatch(Operation& root, Rewriter& rewriter) : root_(root), rewriter_(rewriter), masks_(rewriter) {}

  Value* run() {
    if (root_.attributes.boolean("transpose_lhs") || root_.attributes.boolean("transpose_rhs")) return nullptr;
    Value* scores = find_scores(root_.operand(0));
    if (!scores || !find_product(scores)) return reason_.empty() ? nullptr : rewriter_.miss("attention", reason_);
    Value* q = four_axes(unscaled(product_->operand(0)));
    Value* k = unscaled(product_->operand(1));
    if (!product_->attributes.boolean("transpose_rhs")) k = swapped(k);
    k = four_axes(ungrouped(k));
    Value* v = root_.operand(1);
    if (Operation* widened = defined_by(v, Op::cast); widened && q && v->type.dtype != q->type.dtype)
      v = widened->operand(0);
    v = four_axes(ungrouped(v));
    if (!q || !k || !v) return rewriter_.miss("attention", "q, k or v has neither 3 nor 4 axes");
    AttributeList attributes = {{"scale", scale_}, {"softcap", softcap_}, {"guard", guard_}};
    masks_.describe(attributes);
    std::vector<Value*> operands = {q, k, v};
    operands.insert(operands.end(), masks_.operands().begin(), masks_.operands().end());
    Value* attention = rewriter_.make(Op::attention, std::move(operands), std::move(attributes));
    if (!attention) {
      return rewriter_.miss("attention", concat("q, k, v and masks do not fit together: ", q->type.str(), ", ",
                                                k->type.str(), ", ", v->type.str()));
    }
    const Type& type = root_.result()->type;
    if (attention->type.dtype != type.dtype) attention = rewriter_.make(Op::cast, {attention}, {{"to", type.dtype}});
    if (!attention || attention->type == type) return attention;
    return rewriter_.make(Op::reshape, {attention}, {{"shape", type.shape}});
  }

 private:
  // The input of the softmax behind the weights: through casts, the guard of rows without keys, and a reshape that
  // merges batch and heads.
  Value* find_scores(Value* weights) {
    while (Operation* operation = weights->def()) {
      if (operation->is(Op::softmax)) return scores_of(*operation);
      if (!weights->has_one_use()) return nullptr;
      if (operation->is(Op::select)) {
        guard_ = true;
        Operation* softmax = behind_guard(*operation);
        return softmax ? scores_of(*softmax) : nullptr;
      }
      if (!operation->is(Op::cast) && !(operation->is(Op::reshape) && keeps_rows(*operation))) return nullptr;
      weights = operation->operand(0);
    }
    return nullptr;
  }

  Value* scores_of(const Operation& softmax) {
    const Shape& shape = softmax.result()->type.shape;
    if (shape.size() < 3 || shape.size() > 4) return refuse(concat("the scores have ", shape.size(), " axes"));
    if (softmax.attributes.integer("axis") != static_cast<int64_t>(shape.size()) - 1)
      return refuse("the softmax is not over the last axis");
    batch_ = shape[0];
    heads_ = shape.size() == 4 ? shape[1] : Dim(1);
    // The scores, and the weights where they are guarded, are read by the guard too.
    const size_t uses = softmax.operand(0)->uses().size() + softmax.result()->uses().size();
    return uses == (guard_ ? 3 : 2) ? softmax.operand(0) : refuse("scores or weights are read elsewhere too");
  }

  // Notes why this is no attention; null.
  Value* refuse(std::string reason) {
    if (reason_.empty()) reason_ = std::move(reason);
    return nullptr;
  }
  bool fail(std::string reason) {
    refuse(std::move(reason));
    return false;
  }

  // The softmax of select(is_nan(softmax(x)), 0, softmax(x)) or select(max(x) == -inf, 0, softmax(x)). Only rows of
  // -inf alone are meant; what NaN in q or k gives is not kept apart.
  static Operation* behind_guard(const Operation& select) {
    Operation* softmax = defined_by(select.operand(2), Op::softmax);
    if (!softmax || !is_constant(select.operand(1), 0)) return nullptr;
    if (Operation* test = defined_by(select.operand(0), Op::is_nan))
      return test->operand(0) == softmax->result() && test->result()->has_one_use() ? softmax : nullptr;
    Operation* test = defined_by(select.operand(0), Op::equal);
    Operation* top = test ? defined_by(test->operand(0), Op::reduce_max) : nullptr;
    const bool fits = top && is_constant(test->operand(1), -INFINITY) && top->operand(0) == softmax->operand(0) &&
                      top->attributes.integers("axes") == std::vector<int64_t>{softmax->attributes.integer("axis")} &&
                      top->attributes.boolean("keepdims") && test->result()->has_one_use();
    return fits ? softmax : nullptr;
  }

  // The last two axes stay as they are.
  static bool keeps_rows(const Operation& reshape) {
    const Shape &from = reshape.operand(0)->type.shape, &to = reshape.result()->type.shape;
    return from.size() >= 3 && to.size() >= 3 && from.size() <= 4 && to.size() <= 4 && from.back() == to.back() &&
           from[from.size() - 2] == to[to.size() - 2];
  }

  // From the scores inwards to q k^T, taking note of masks, softcap and scale on the way.
  bool find_product(Value* scores) {
    for (bool outermost = true;; outermost = false) {
      Operation* operation = scores->def();
      if (!operation) return fail("the scores are not made by a product");
      if (!(outermost || scores->has_one_use())) return fail("what the scores are made of is read elsewhere too");
      switch (operation->op) {
        case Op::matmul:
          product_ = operation;
          if (operation->attributes.boolean("transpose_lhs")) return fail("q is transposed");
          return scores->type.rank() >= 3 || fail("the scores have fewer than 3 axes");
        case Op::cast:
          if (!is_float(operation->operand(0)->type.dtype)) return fail("the scores are cast from integers");
          scores = operation->operand(0);
          break;
        case Op::reshape:
          if (!keeps_rows(*operation)) return fail("a reshape between product and softmax changes the rows");
          scores = operation->operand(0);
          break;
        case Op::add: {
          const size_t inner = leads_to_product(operation->operand(0)) ? 0 : 1;
          if (softcap_ != 0 || scale_ != 1) return fail("a mask is added before scale or softcap");
          if (operation->operand(inner)->type != scores->type) return fail("a mask is larger than the scores");
          Value* bias = mask_axes(operation->operand(1 - inner), scores);
          if (!bias) return fail("a mask has more than 4 axes");
          masks_.add_bias(bias);
          scores = operation->operand(inner);
          break;
        }
        case Op::select: {
          const size_t inner = leads_to_product(operation->operand(1)) ? 1 : 2;
          std::optional<double> fill = constant_number(operation->operand(3 - inner));
          Value* keep = mask_axes(operation->operand(0), scores);
          if (softcap_ != 0 || scale_ != 1) return fail("a mask is set before scale or softcap");
          if (!fill || !(*fill <= overwhelming)) return fail("masked scores become a number that still counts");
          if (!keep) return fail("a mask has more than 4 axes");
          if (operation->operand(inner)->type != scores->type) return fail("a mask is larger than the scores");
          if (!masks_.add_mask(keep, inner == 1, *fill)) return fail("two masks set different numbers");
          scores = operation->operand(inner);
          break;
        }
        case Op::mul:
        case Op::div:
          if (!take_factor(*operation, &scores)) return fail("the scores are scaled by no constant");
          break;
        default:
          return fail(concat("'", to_string(operation->op), "' stands between product and softmax"));
      }
    }
  }

  // c * x or x / c, or the softcap c * tanh(x / c).
  bool take_factor(const Operation& operation, Value** scores) {
    std::optional<double> factor = constant_number(operation.operand(1));
    size_t inner = 0;
    if (!factor && operation.is(Op::mul)) {
      factor = constant_number(operation.operand(0));
      inner = 1;
    }
    if (!factor || operation.operand(inner)->type != (*scores)->type) return false;
    Value* x = operation.operand(inner);
    const double number = operation.is(Op::div) ? 1 / *factor : *factor;
    if (Operation* tanh = defined_by(x, Op::tanh)) {
      const Product capped = product_of(tanh->operand(0));
      const bool fits = x->has_one_use() && tanh->operand(0)->has_one_use() && softcap_ == 0 && scale_ == 1 &&
                        capped.divisors.empty() && capped.factors.size() == 1 && number > 0;
      if (!fits) return false;
      // The scale may have joined the inner factor.
      softcap_ = number;
      scale_ = capped.constant * number;
      *scores = capped.factors[0];
      return true;
    }
    scale_ *= number;
    *scores = x;
    return true;
  }

  // True if the value is the scores, not a mask: its elements come from a product of two computed values.
  static bool leads_to_product(const Value* value) {
    for (int depth = 0; depth < 12; ++depth) {
      const Operation* operation = value->def();
      if (!operation || value->type.rank() < 3) return false;
      if (operation->is(Op::matmul)) return value->has_one_use();
      const bool passes = operation->is(Op::add) || operation->is(Op::mul) || operation->is(Op::div) ||
                          operation->is(Op::reshape) || operation->is(Op::cast) || operation->is(Op::tanh);
      if (operation->is(Op::select)) {
        value = operation->operand(constant_number(operation->operand(1)) ? 2 : 1);
      } else if (passes) {
        const bool first = operation->operand_count() == 1 || leads_to_product(operation->operand(0));
        value = operation->operand(first ? 0 : 1);
      } else {
        return false;
      }
    }
    return false;
  }

  // A mask of scores that have batch and heads merged, with both axes.
  Value* mask_axes(Value* mask, const Value* scores) {
    if (mask->type.rank() > 4) return nullptr;
    if (scores->type.rank() == 4 || mask->type.rank() < 3) return mask;
    Shape shape = mask->type.shape;
    if (shape[0].is(1)) {
      shape.insert(shape.begin(), Dim(1));
    } else {
      shape[0] = heads_;
      shape.insert(shape.begin(), batch_);
    }
    return rewriter_.make(Op::reshape, {mask}, {{"shape", std::move(shape)}});
  }

  Value* four_axes(Value* value) {
    if (!value || value->type.rank() == 4) return value;
    if (value->type.rank() != 3) return nullptr;
    Shape shape = {batch_, heads_, value->type.shape[1], value->type.shape[2]};
    return rewriter_.make(Op::reshape, {value}, {{"shape", std::move(shape)}});
  }

  Value* swapped(Value* value) {
    std::vector<int64_t> perm;
    for (int64_t axis = 0; axis < value->type.rank(); ++axis) perm.push_back(axis);
    std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
    if (Operation* inner = defined_by(value, Op::transpose)) {
      for (int64_t& axis : perm) axis = inner->attributes.integers("perm")[static_cast<size_t>(axis)];
      value = inner->operand(0);
    }
    return rewriter_.make(Op::transpose, {value}, {{"perm", std::move(perm)}});
  }

  // Moves a factor of q or k, which may stand before moves of its elements, into the scale.
  Value* unscaled(Value* value) {
    std::vector<Operation*> moves;
    Value* inner = value;
    while (Operation* operation = inner->def()) {
      const bool move = operation->is(Op::reshape) || operation->is(Op::transpose) || operation->is(Op::broadcast);
      if (!move || moves.size() > 6) break;
      moves.push_back(operation);
      inner = operation->operand(0);
    }
    Operation* product = inner->def();
    if (!product || (!product->is(Op::mul) && !product->is(Op::div))) return value;
    std::optional<double> factor = constant_number(product->operand(1));
    if (!factor || !std::isfinite(*factor) || product->operand(0)->type != inner->type) return value;
    Value* result = product->operand(0);
    for (size_t i = moves.size(); i-- > 0 && result;)
      result = rewriter_.make(moves[i]->op, {result}, moves[i]->attributes);
    if (!result) return value;
    scale_ *= product->is(Op::div) ? 1 / *factor : *factor;
    return unscaled(result);
  }

  // k or v before its heads were repeated for the heads of q: reshape(broadcast([batch, kv_heads, 1, keys, size])).
  Value* ungrouped(Value* value) {
    Operation* merge = value ? defined_by(value, Op::reshape) : nullptr;
    Operation* repeat = merge ? defined_by(merge->operand(0), Op::broadcast) : nullptr;
    if (!repeat || repeat->result()->type.rank() != 5 || repeat->operand(0)->type.rank() != 5) return value;
    const Shape &from = repeat->operand(0)->type.shape, &to = repeat->result()->type.shape;
    const bool repeats = from[0] == to[0] && from[1] == to[1] && from[2].is(1) && from[3] == to[3] && from[4] == to[4];
    const Shape merged = value->type.rank() == 4 ? Shape{to[0], to[1] * to[2], to[3], to[4]}
                                                 : Shape{to[0] * to[1] * to[2], to[3], to[4]};
    if (!repeats || value->type.shape != merged) return value;
    return rewriter_.make(Op::reshape, {repeat->operand(0)}, {{"shape", Shape{from[0], from[1], from[3], from[4]}}});
  }

  Operation& root_;
  Rewriter& rewriter_;
  AttentionMasks masks_;
  Operation* product_ = nullptr;  // q k^T
  Dim batch_, heads_;
  double scale_ = 1, softcap_ = 0;
  bool guard_ = false;
  std::string reason_;  // why not, once the softmax is found
};

// softmax(scale * q k^T + masks) v -> attention(q, k, v, masks)
Value* recover_attention(Operation& root, Rewriter& rewriter) { return AttentionMatch(root, rewriter).run(); }

constexpr Rule rules[] = {
    {Op::matmul, recover_attention},
};

}  // namespace

std::span<const Rule> attention_recoveries() { return rules; }

}  // namespace rtx
