#include "passes/merge_products.h"

#include <algorithm>
#include <map>

#include "passes/canonicalize_rules.h"

namespace rtx {

namespace {

// x w, and the bias that is added to it if there is one.
struct Product {
  Operation* matmul = nullptr;
  Operation* weight = nullptr;
  Operation* sum = nullptr;  // matmul + bias, the only use of the matmul
  Value* bias = nullptr;     // a weight or constant [n]
  Value* result() const { return sum ? sum->result() : matmul->result(); }
  const Dim& columns() const { return weight->result()->type.shape[1]; }
};

bool is_stored(const Value* value) { return defined_by(value, Op::weight) || defined_by(value, Op::constant); }

std::optional<Product> product_at(Operation& matmul) {
  Product product;
  product.matmul = &matmul;
  product.weight = defined_by(matmul.operand(1), Op::weight);
  const bool plain = !matmul.attributes.boolean("transpose_lhs") && !matmul.attributes.boolean("transpose_rhs");
  if (!product.weight || !plain || !is_float(matmul.result()->type.dtype)) return std::nullopt;
  if (product.weight->result()->type.rank() != 2) return std::nullopt;
  if (!matmul.result()->has_one_use()) return product;
  Operation* user = matmul.result()->uses()[0].user;
  if (!user->is(Op::add) || user->result()->type != matmul.result()->type) return product;
  Value* bias = user->operand(user->operand(0) == matmul.result() ? 1 : 0);
  if (is_stored(bias) && bias->type.shape == Shape{product.columns()}) {
    product.sum = user;
    product.bias = bias;
  }
  return product;
}

// The attention, or else the elementwise product, that a value reaches through operations that keep its elements apart:
// moves, norms of heads, rope, activations, appending to a cache.
const Operation* destination(const Value* value, int depth = 0) {
  const Operation* gate = nullptr;
  for (const Use& use : value->uses()) {
    const Operation* user = use.user;
    if (user->is(Op::attention)) return user;
    if (user->is(Op::mul) && !is_stored(user->operand(1 - use.index))) {
      gate = user;
      continue;
    }
    const OpFamily family = user->spec().family;
    const bool passes = family == OpFamily::movement || family == OpFamily::elementwise ||
                        (family == OpFamily::composite && use.index == 0);
    if (!passes || depth >= 12) continue;
    if (const Operation* found = destination(user->result(), depth + 1)) {
      if (found->is(Op::attention)) return found;
      gate = gate ? gate : found;
    }
  }
  return gate;
}

class Merger {
 public:
  Merger(Module& module, PassContext& context, Block& block) : module_(module), context_(context), block_(block) {}

  Result<bool> run() {
    // By left operand and destination, in program order.
    std::map<std::pair<const Value*, const Operation*>, size_t> group_of;
    std::vector<std::vector<Product>> groups;
    for (const auto& operation : block_.operations()) {
      if (!operation->is(Op::matmul)) continue;
      std::optional<Product> product = product_at(*operation);
      const Operation* target = product ? destination(product->result()) : nullptr;
      if (!target) continue;
      auto [found, is_new] = group_of.try_emplace({operation->operand(0), target}, groups.size());
      if (is_new) groups.emplace_back();
      groups[found->second].push_back(*product);
    }
    // Layers may share weights. A group is merged only if that happens wherever its weights are read, in equal groups.
    std::map<std::vector<const Operation*>, size_t> reads_of;
    for (const std::vector<Product>& group : groups) ++reads_of[weights_of(group)];
    bool changed = false;
    for (const std::vector<Product>& group : groups) {
      const std::vector<const Operation*> weights = weights_of(group);
      const size_t reads = reads_of.at(weights);
      const bool elsewhere = std::any_of(weights.begin(), weights.end(), [&](const Operation* weight) {
        return merged_.count(weights) == 0 && weight->result()->uses().size() != reads;
      });
      if (group.size() < 2 || elsewhere || (merged_.count(weights) == 0 && !take_budget(group))) continue;
      RTX_TRY(merge(group, weights));
      changed = true;
    }
    return changed;
  }

 private:
  bool take_budget(const std::vector<Product>& group) {
    int64_t bytes = 0;
    for (const Product& product : group) {
      const WeightEntry* entry = module_.weights->find(product.weight->attributes.string("name"));
      bytes += entry ? entry->bytes : 0;
    }
    if (bytes > context_.max_folded_value_bytes || total_bytes_ + bytes > context_.max_folded_total_bytes) return false;
    total_bytes_ += bytes;
    return true;
  }

  static std::vector<const Operation*> weights_of(const std::vector<Product>& group) {
    std::vector<const Operation*> weights;
    for (const Product& product : group) weights.push_back(product.weight);
    return weights;
  }

  // Everything before the first product: weights, constants and biases have no operands.
  Result<void> merge(const std::vector<Product>& group, const std::vector<const Operation*>& key) {
    Operation* first = group[0].matmul;
    Builder builder(block_, first);
    std::vector<Value*> weights, biases;
    Value*& weight = merged_[key];
    const bool biased = std::any_of(group.begin(), group.end(), [](const Product& product) { return product.bias; });
    for (const Product& product : group) {
      if (!weight) {
        block_.move_before(product.weight, first);
        weights.push_back(product.weight->result());
      }
      for (const std::string& origin : product.matmul->origins) builder.origins.push_back(origin);
      if (!biased) continue;
      if (product.bias) {
        Operation* stored = product.bias->def();
        Operation* copy = block_.insert(first, stored->op, {}, stored->attributes, stored->result_types());
        copy->origins = stored->origins;
        copy->result()->name = product.bias->name;
        biases.push_back(copy->result());
      } else {
        RTX_ASSIGN(Value * zero, builder.constant(Tensor::scalar(product.matmul->result()->type.dtype, 0)));
        RTX_ASSIGN(zero, builder.value(Op::broadcast, {zero}, {{"shape", Shape{product.columns()}}}));
        biases.push_back(zero);
      }
    }
    if (!weight) {
      RTX_ASSIGN(weight, builder.value(Op::concat, weights, {{"axis", int64_t{1}}}));
    }
    RTX_ASSIGN(Value * y, builder.value(Op::matmul, {first->operand(0), weight}));
    if (biased) {
      RTX_ASSIGN(Value * bias, builder.value(Op::concat, biases, {{"axis", int64_t{0}}}));
      RTX_ASSIGN(y, builder.value(Op::add, {y, bias}));
    }
    Dim start = 0;
    for (const Product& product : group) {
      Shape starts(y->type.shape.size(), Dim(0)), sizes = y->type.shape;
      starts.back() = start;
      sizes.back() = product.columns();
      start = start + product.columns();
      RTX_ASSIGN(Value * slice, builder.value(Op::slice, {y},
                                              {{"starts", std::move(starts)},
                                               {"sizes", std::move(sizes)},
                                               {"steps", std::vector<int64_t>(y->type.shape.size(), 1)}}));
      slice->name = product.result()->name;
      product.result()->replace_all_uses_with(slice);
    }
    return Ok{};  // the products are dead now
  }

  Module& module_;
  PassContext& context_;
  Block& block_;
  int64_t total_bytes_ = 0;
  std::map<std::vector<const Operation*>, Value*> merged_;  // joined weights, by what they are made of
};

}  // namespace

Result<bool> merge_products(Module& module, PassContext& context) {
  bool changed = false;
  for (auto& function : module.functions) {
    RTX_ASSIGN(const bool merged, Merger(module, context, function->block).run());
    changed = changed || merged;
  }
  return changed;
}

}  // namespace rtx
