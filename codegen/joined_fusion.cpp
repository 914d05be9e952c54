#include "codegen/joined_fusion.h"

#include <algorithm>

#include "passes/eliminate_common_subexpressions.h"

namespace rtx::codegen {
namespace {

bool is_fusion(const Operation* operation) { return operation && operation->is(Op::fusion); }

void add_origins(Operation& to, const Operation& from) {
  for (const std::string& origin : from.origins) {
    if (std::find(to.origins.begin(), to.origins.end(), origin) == to.origins.end()) to.origins.push_back(origin);
  }
}

}  // namespace

Source source_of(const Value* operand) {
  Source source;
  Operation* def = operand->def();
  if (def && def->is(Op::reshape)) {
    source.reshape = def;
    def = def->operand(0)->def();
  }
  if (is_fusion(def)) source.fusion = def;
  return source;
}

std::optional<std::vector<Reader>> readers_of(const Value* value) {
  std::vector<Reader> readers;
  auto add_users = [&](const Value* read, Operation* reshape) {
    for (const Use& use : read->uses()) {
      if (!is_fusion(use.user)) return false;
      readers.push_back({use.user, use.index, reshape});
    }
    return true;
  };
  for (const Use& use : value->uses()) {
    if (use.user->is(Op::reshape)) {
      if (!add_users(use.user->result(), use.user)) return std::nullopt;
    } else if (is_fusion(use.user)) {
      readers.push_back({use.user, use.index, nullptr});
    } else {
      return std::nullopt;
    }
  }
  return readers;
}

Value* JoinedFusion::argument(Value* operand) {
  auto [found, is_new] = arguments_.try_emplace(operand, nullptr);
  if (is_new) {
    operands_.push_back(operand);
    found->second = body_->add_argument(operand->type);
  }
  return found->second;
}

std::vector<Value*> JoinedFusion::take(const Operation& fusion, size_t index, Value* known) {
  std::vector<Value*> arguments;
  for (size_t i = 0; i < fusion.operand_count(); ++i) {
    arguments.push_back(i == index ? known : argument(fusion.operand(i)));
  }
  taken_.push_back(&fusion);
  return inline_block(*fusion.body(), *body_, nullptr, arguments);
}

Value* JoinedFusion::reshaped(const Operation* reshape, Value* value) {
  if (!reshape) return value;
  return body_->insert(nullptr, Op::reshape, {value}, reshape->attributes, reshape->result_types())->result();
}

Operation* JoinedFusion::finish(const std::vector<Value*>& results) {
  std::vector<Type> types;
  for (const Value* result : results) types.push_back(result->type);
  body_->insert(nullptr, Op::yield, results, {}, {});
  eliminate_common_subexpressions(*body_);
  Operation* fusion = block_.insert(before_, Op::fusion, operands_, attributes_, types, std::move(body_));
  for (const Operation* taken : taken_) add_origins(*fusion, *taken);
  return fusion;
}

}  // namespace rtx::codegen
