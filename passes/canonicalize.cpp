#include "passes/canonicalize.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <deque>
#include <unordered_map>

#include "base/text.h"
#include "passes/canonicalize_rules.h"

namespace rtx {

Value* Rewriter::make(Op op, std::vector<Value*> operands, AttributeList attributes) {
  Result<Operation*> created = builder_.create(op, std::move(operands), std::move(attributes));
  if (!created) return nullptr;
  created_.push_back(*created);
  return (*created)->result();
}

Value* Rewriter::filled(const Type& type, double value) {
  Tensor scalar(type.dtype, {});
  is_float(type.dtype) ? scalar.set_f64(0, value) : scalar.set_i64(0, static_cast<int64_t>(value));
  Value* constant = make(Op::constant, {}, {{"value", std::move(scalar)}});
  if (type.shape.empty() || !constant) return constant;
  return make(Op::broadcast, {constant}, {{"shape", type.shape}});
}

const Tensor* constant_tensor(const Value* value) {
  Operation* operation = defined_by(value, Op::constant);
  return operation ? &operation->attributes.tensor("value") : nullptr;
}

std::optional<double> constant_number(const Value* value) {
  const Tensor* tensor = constant_tensor(value);
  if (!tensor || tensor->element_count() == 0) return std::nullopt;
  double first = tensor->f64(0);
  for (int64_t i = 1; i < tensor->element_count(); ++i) {
    double other = tensor->f64(i);
    if (std::memcmp(&first, &other, sizeof first) != 0) return std::nullopt;
  }
  return first;
}

bool is_constant(const Value* value, double number) {
  std::optional<double> constant = constant_number(value);
  return constant && *constant == number && std::signbit(*constant) == std::signbit(number);
}

Operation* defined_by(const Value* value, Op op) {
  Operation* operation = value->def();
  return operation && operation->is(op) ? operation : nullptr;
}

namespace {

// --- rules that hold for every op with a trait ---

// 2 for a constant, 1 for a weight, 0 for a computed value.
int rank_as_data(const Value* value) {
  if (constant_tensor(value)) return 2;
  return defined_by(value, Op::weight) ? 1 : 0;
}

// c + x -> x + c   (commutative ops: data stands on the right, constants after weights)
Value* order_operands(Operation& root, Rewriter&) {
  if (!root.spec().has(trait_commutative)) return nullptr;
  Value *lhs = root.operand(0), *rhs = root.operand(1);
  if (rank_as_data(lhs) <= rank_as_data(rhs)) return nullptr;
  root.set_operand(0, rhs);
  root.set_operand(1, lhs);
  return root.result();
}

// relu(relu(x)) -> relu(x)   (idempotent ops)
Value* drop_repetition(Operation& root, Rewriter&) {
  if (!root.spec().has(trait_idempotent) || !defined_by(root.operand(0), root.op)) return nullptr;
  return root.operand(0);
}

// broadcast(x) + y -> x + y   (ops that broadcast; where y alone gives the result its shape)
Value* drop_broadcast(Operation& root, Rewriter&) {
  if (!root.spec().has(trait_broadcasts)) return nullptr;
  for (size_t i = 0; i < root.operand_count(); ++i) {
    Operation* broadcast = defined_by(root.operand(i), Op::broadcast);
    if (!broadcast) continue;
    std::vector<Type> types = root.operand_types();
    types[i] = broadcast->operand(0)->type;
    AttributeList attributes = root.attributes;
    Result<std::vector<Type>> inferred = infer_types(root.op, types, attributes);
    if (!inferred || *inferred != root.result_types()) continue;
    root.set_operand(i, broadcast->operand(0));
    return root.result();
  }
  return nullptr;
}

// exp(broadcast(x)) -> broadcast(exp(x))   (elementwise ops; where the operands without their broadcasts give fewer
// elements, so that a mask is computed once and not once a row)
Value* sink_broadcast(Operation& root, Rewriter& rewriter) {
  if (root.spec().family != OpFamily::elementwise) return nullptr;
  std::vector<Value*> operands = root.operands();
  bool found = false;
  for (Value*& operand : operands) {
    if (Operation* broadcast = defined_by(operand, Op::broadcast)) {
      operand = broadcast->operand(0);
      found = true;
    }
  }
  if (!found) return nullptr;
  Value* smaller = rewriter.make(root.op, std::move(operands), root.attributes);
  return smaller ? rewriter.make(Op::broadcast, {smaller}, {{"shape", root.result()->type.shape}}) : nullptr;
}

// transpose(x) * c -> transpose(x * c)   (elementwise ops with one operand that is not a scalar; scaled keys then reach
// their matmul, which reads them transposed without a copy)
Value* sink_transpose(Operation& root, Rewriter& rewriter) {
  if (root.spec().family != OpFamily::elementwise) return nullptr;
  std::vector<Value*> operands = root.operands();
  Operation* transpose = nullptr;
  for (Value*& operand : operands) {
    if (operand->type.shape.empty() || (operand->type.element_count().is(1) && constant_tensor(operand))) continue;
    Operation* definition = defined_by(operand, Op::transpose);
    if (transpose || !definition || !operand->has_one_use()) return nullptr;
    transpose = definition;
    operand = definition->operand(0);
  }
  if (!transpose || transpose->result()->type.shape != root.result()->type.shape) return nullptr;
  Value* moved = rewriter.make(root.op, std::move(operands), root.attributes);
  return moved ? rewriter.make(Op::transpose, {moved}, transpose->attributes) : nullptr;
}

// --- driver ---

class Canonicalizer {
 public:
  explicit Canonicalizer(Module& module) : module_(module), rules_(all_ops().size()) {
    for (std::span<const Rule> family : {arithmetic_rules(), movement_rules()}) {
      for (const Rule& rule : family) rules_[static_cast<size_t>(rule.root)].push_back(rule.apply);
    }
  }

  Result<bool> run(Block& block) {
    for (const auto& operation : block.operations()) push(operation.get());
    while (!worklist_.empty()) {
      auto [operation, ticket] = worklist_.front();
      worklist_.pop_front();
      // Erased meanwhile, or erased and a new operation at the same address: tickets keep the order independent of
      // where the allocator puts things.
      if (auto found = waiting_.find(operation); found == waiting_.end() || found->second != ticket) continue;
      waiting_.erase(operation);
      if (operation->is(Op::yield) || operation->body()) continue;
      if (operation->unused()) {
        erase(*operation);
        continue;
      }
      // A rule may apply again to what another one made. Each rule makes the operation simpler, so this ends; the
      // limit only turns a mistake in a rule into an error.
      if (++steps_ > 1000 + 64 * block.size() + 64 * initial_size_) return too_many_steps(*operation);
      rewrite(*operation);
    }
    return changed_;
  }

  void start(const Block& block) { initial_size_ = block.size(), steps_ = 0; }

 private:
  void push(Operation* operation) {
    if (waiting_.emplace(operation, next_ticket_).second) worklist_.emplace_back(operation, next_ticket_++);
  }
  void push_users(const Value* value) {
    for (const Use& use : value->uses()) push(use.user);
  }

  // An operation that lost a use: it may be dead now, or its last user may be the only one left, which some rules need.
  void push_less_used(Operation* operation) {
    push(operation);
    if (operation->result_count() == 1 && operation->result()->has_one_use()) push_users(operation->result());
  }

  void erase(Operation& operation) {
    std::vector<Operation*> definitions;
    for (Value* operand : operation.operands()) {
      if (operand->def()) definitions.push_back(operand->def());
    }
    waiting_.erase(&operation);
    operation.block()->erase(&operation);
    for (Operation* definition : definitions) push_less_used(definition);
    changed_ = true;
  }

  void rewrite(Operation& operation) {
    Rewriter rewriter(module_, operation);
    std::vector<Operation*> definitions;  // of the operands as they were: one may lose its last use in place
    for (Value* operand : operation.operands()) {
      if (operand->def()) definitions.push_back(operand->def());
    }
    Value* replacement = apply_rules(operation, rewriter);
    for (Operation* created : rewriter.created()) push(created);  // also drops what a failed attempt left behind
    if (!replacement) return;
    changed_ = true;
    Value* result = operation.result();
    if (replacement == result) {
      push(&operation);
      push_users(result);
      for (Operation* definition : definitions) push_less_used(definition);
      return;
    }
    if (replacement->name.empty()) replacement->name = result->name;
    push_users(result);
    result->replace_all_uses_with(replacement);
    erase(operation);
  }

  Value* apply_rules(Operation& operation, Rewriter& rewriter) {
    auto accepts = [&](Value* replacement) {
      return replacement && (replacement == operation.result() || replacement->type == operation.result()->type);
    };
    for (auto* rule : {order_operands, drop_repetition, drop_broadcast, sink_broadcast, sink_transpose}) {
      if (Value* replacement = rule(operation, rewriter); accepts(replacement)) return replacement;
    }
    for (auto* rule : rules_[static_cast<size_t>(operation.op)]) {
      if (Value* replacement = rule(operation, rewriter); accepts(replacement)) return replacement;
    }
    return nullptr;
  }

  static Error too_many_steps(const Operation& operation) {
    return make_error(ErrorKind::internal, "E991",
                      concat("canonicalize does not come to an end at '", to_string(operation.op), "'"));
  }

  Module& module_;
  std::vector<std::vector<Value* (*)(Operation&, Rewriter&)>> rules_;
  std::deque<std::pair<Operation*, size_t>> worklist_;
  std::unordered_map<Operation*, size_t> waiting_;  // operation -> its ticket in the worklist
  size_t next_ticket_ = 0;
  size_t initial_size_ = 0, steps_ = 0;
  bool changed_ = false;
};

}  // namespace

Result<bool> canonicalize(Module& module, PassContext&) {
  Canonicalizer canonicalizer(module);
  bool changed = false;
  for (auto& function : module.functions) {
    canonicalizer.start(function->block);
    RTX_ASSIGN(changed, canonicalizer.run(function->block));
  }
  return changed;
}

}  // namespace rtx
