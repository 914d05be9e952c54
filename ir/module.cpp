#include "ir/module.h"

#include <algorithm>
#include <unordered_map>

#include "base/text.h"

namespace rtx {

// --- Value and Operation --------------------------------------------------------------------------------------------

void Value::replace_all_uses_with(Value* other) {
  assert(other != this);
  // From the back, so that set_operand removes the last entry in constant time.
  while (!uses_.empty()) uses_.back().user->set_operand(uses_.back().index, other);
}

Operation::~Operation() {
  for (size_t i = 0; i < operands_.size(); ++i) set_operand(i, nullptr);
}

void Operation::set_operand(size_t index, Value* value) {
  Value*& slot = operands_[index];
  if (slot == value) return;
  if (slot) {
    // The last use moves into the gap, and its user learns the new position.
    auto& uses = slot->uses_;
    const size_t gap = use_positions_[index];
    uses[gap] = uses.back();
    uses[gap].user->use_positions_[uses[gap].index] = gap;
    uses.pop_back();
  }
  slot = value;
  if (value) {
    use_positions_[index] = value->uses_.size();
    value->uses_.push_back({this, static_cast<unsigned>(index)});
  }
}

std::vector<Type> Operation::operand_types() const {
  std::vector<Type> types;
  for (const Value* value : operands_) types.push_back(value->type);
  return types;
}

std::vector<Type> Operation::result_types() const {
  std::vector<Type> types;
  for (const auto& value : results_) types.push_back(value->type);
  return types;
}

bool Operation::unused() const {
  return std::all_of(results_.begin(), results_.end(), [](const auto& value) { return value->uses().empty(); });
}

// --- Block ----------------------------------------------------------------------------------------------------------

Block::~Block() {
  // Last to first, so that no value dies before its users.
  while (!operations_.empty()) operations_.pop_back();
}

Value* Block::add_argument(Type type, std::string name) {
  auto value = std::make_unique<Value>();
  value->type = std::move(type);
  value->name = std::move(name);
  value->index_ = static_cast<unsigned>(arguments_.size());
  arguments_.push_back(std::move(value));
  return arguments_.back().get();
}

void Block::erase_argument(size_t index) {
  assert(arguments_[index]->uses().empty());
  arguments_.erase(arguments_.begin() + static_cast<ptrdiff_t>(index));
  for (size_t i = index; i < arguments_.size(); ++i) arguments_[i]->index_ = static_cast<unsigned>(i);
}

Operation* Block::insert(Operation* before, Op op, std::vector<Value*> operands, AttributeList attributes,
                         std::vector<Type> result_types, std::unique_ptr<Block> body) {
  std::unique_ptr<Operation> created(new Operation(op));
  created->attributes = std::move(attributes);
  created->block_ = this;
  created->operands_.resize(operands.size(), nullptr);
  created->use_positions_.resize(operands.size(), 0);
  for (size_t i = 0; i < operands.size(); ++i) created->set_operand(i, operands[i]);
  for (size_t i = 0; i < result_types.size(); ++i) {
    auto value = std::make_unique<Value>();
    value->type = std::move(result_types[i]);
    value->def_ = created.get();
    value->index_ = static_cast<unsigned>(i);
    created->results_.push_back(std::move(value));
  }
  if (created->spec().has(trait_has_body)) created->body_ = body ? std::move(body) : std::make_unique<Block>();
  Operation* raw = created.get();
  raw->position_ = operations_.insert(before ? before->position_ : operations_.end(), std::move(created));
  return raw;
}

void Block::erase(Operation* operation) {
  assert(operation->unused());
  operations_.erase(operation->position_);
}

void Block::move_before(Operation* operation, Operation* before) {
  operations_.splice(before ? before->position_ : operations_.end(), operations_, operation->position_);
}

Operation* Block::terminator() const {
  if (operations_.empty() || !operations_.back()->is(Op::yield)) return nullptr;
  return operations_.back().get();
}

Operation* Block::next(Operation* operation) const {
  auto after = std::next(operation->position_);
  return after == operations_.end() ? nullptr : after->get();
}

std::vector<Value*> inline_block(const Block& from, Block& to, Operation* before, std::span<Value* const> arguments) {
  std::unordered_map<const Value*, Value*> mapped;
  for (size_t i = 0; i < from.argument_count(); ++i) mapped[from.argument(i)] = arguments[i];
  std::vector<Value*> yielded;
  for (const auto& op : from.operations()) {
    std::vector<Value*> operands;
    for (const Value* operand : op->operands()) operands.push_back(mapped.at(operand));
    if (op->is(Op::yield)) return operands;
    Operation* copy = to.insert(before, op->op, std::move(operands), op->attributes, op->result_types());
    copy->origins = op->origins;
    for (size_t i = 0; i < op->result_count(); ++i) {
      copy->result(i)->name = op->result(i)->name;
      mapped[op->result(i)] = copy->result(i);
    }
    if (const Block* body = op->body()) {
      std::vector<Value*> body_arguments;
      for (size_t i = 0; i < body->argument_count(); ++i)
        body_arguments.push_back(copy->body()->add_argument(body->argument(i)->type, body->argument(i)->name));
      std::vector<Value*> results = inline_block(*body, *copy->body(), nullptr, body_arguments);
      copy->body()->insert(nullptr, Op::yield, std::move(results), {}, {});
    }
  }
  return yielded;
}

// --- Module ---------------------------------------------------------------------------------------------------------

std::string_view to_string(Stage stage) {
  constexpr std::string_view names[] = {"imported", "canonical", "fused", "planned"};
  return names[static_cast<size_t>(stage)];
}

std::optional<Stage> parse_stage(std::string_view text) {
  for (Stage stage : {Stage::imported, Stage::canonical, Stage::fused, Stage::planned})
    if (to_string(stage) == text) return stage;
  return std::nullopt;
}

Function* Module::find(std::string_view name) const {
  for (const auto& function : functions)
    if (function->name == name) return function.get();
  return nullptr;
}

Function* Module::add_function(std::string name) {
  functions.push_back(std::make_unique<Function>());
  functions.back()->name = std::move(name);
  return functions.back().get();
}

namespace {

void substitute_in(Block& block, std::string_view symbol, const Dim& replacement) {
  auto in_type = [&](Type& type) {
    for (Dim& d : type.shape) d = d.substituted(symbol, replacement);
  };
  for (size_t i = 0; i < block.argument_count(); ++i) in_type(block.argument(i)->type);
  for (const auto& op : block.operations()) {
    for (size_t i = 0; i < op->result_count(); ++i) in_type(op->result(i)->type);
    AttributeList attributes;
    for (const auto& [name, value] : op->attributes.entries()) {
      AttributeValue copy = value;
      if (Dim* dim = std::get_if<Dim>(&copy)) *dim = dim->substituted(symbol, replacement);
      if (auto* dims = std::get_if<std::vector<Dim>>(&copy))
        for (Dim& d : *dims) d = d.substituted(symbol, replacement);
      attributes.set(name, std::move(copy));
    }
    op->attributes = std::move(attributes);
    if (op->body()) substitute_in(*op->body(), symbol, replacement);
  }
}

}  // namespace

void Module::substitute(std::string_view symbol, const Dim& replacement) {
  for (const auto& function : functions) substitute_in(function->block, symbol, replacement);
  if (auto found = symbols.find(symbol); found != symbols.end()) symbols.erase(found);
}

std::unique_ptr<Module> Module::clone() const {
  auto copy = std::make_unique<Module>();
  copy->stage = stage;
  copy->symbols = symbols;
  copy->weights = weights;
  for (const auto& function : functions) {
    Function* to = copy->add_function(function->name);
    to->output_names = function->output_names;
    to->when = function->when;
    std::vector<Value*> arguments;
    for (size_t i = 0; i < function->block.argument_count(); ++i) {
      const Value* argument = function->block.argument(i);
      arguments.push_back(to->block.add_argument(argument->type, argument->name));
    }
    std::vector<Value*> results = inline_block(function->block, to->block, nullptr, arguments);
    to->block.insert(nullptr, Op::yield, std::move(results), {}, {});
  }
  return copy;
}

// --- Builder --------------------------------------------------------------------------------------------------------

Result<Operation*> Builder::create(Op op, std::vector<Value*> operands, AttributeList attributes) {
  // When unify substitutes a symbol, the operand types change under us: infer again until nothing more was unified.
  // Each round removes a symbol, so this ends.
  while (true) {
    bool unified = false;
    std::function<bool(const Dim&, const Dim&)> hook = [&](const Dim& a, const Dim& b) {
      if (unified) return true;  // decide one equality at a time; the next round sees the new types
      unified = unify && unify(a, b);
      return unified;
    };
    std::vector<Type> types;
    for (const Value* operand : operands) types.push_back(operand->type);
    AttributeList filled = attributes;
    RTX_ASSIGN(std::vector<Type> results, infer_types(op, types, filled, unify ? &hook : nullptr));
    if (unified) {
      if (rewrite_attributes) rewrite_attributes(attributes);
      continue;
    }
    Operation* created = block_->insert(before_, op, std::move(operands), std::move(filled), std::move(results));
    created->origins = origins;
    return created;
  }
}

Result<Value*> Builder::value(Op op, std::vector<Value*> operands, AttributeList attributes) {
  RTX_ASSIGN(Operation * created, create(op, std::move(operands), std::move(attributes)));
  assert(created->result_count() == 1);
  return created->result();
}

Result<Value*> Builder::constant(Tensor tensor) { return value(Op::constant, {}, {{"value", std::move(tensor)}}); }

}  // namespace rtx
