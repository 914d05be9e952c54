#include "codegen/merge_fusions.h"

#include <algorithm>
#include <map>

#include "base/text.h"
#include "codegen/emit/scalar_ops.h"
#include "codegen/plan_kernel.h"

namespace rtx::codegen {
namespace {

// Above this, more registers would be needed than what is saved.
constexpr size_t most_operations = 24;
constexpr size_t most_operands = 10;

bool is_kind(const Operation* operation, std::string_view kind) {
  return operation && operation->is(Op::fusion) && operation->attributes.string("kind") == kind;
}

bool is_elementwise(const Block& body) {
  for (const auto& operation : body.operations()) {
    if (!is_scalar_op(operation->op) && !operation->is(Op::constant) && !operation->is(Op::yield)) return false;
  }
  return true;
}

// Whether `value` has one reader, which is not the end of the function.
Verdict is_read_once(const Value& value) {
  for (const Use& use : value.uses()) {
    if (use.user->is(Op::yield)) return may_not("it is an output of the model");
  }
  if (!value.has_one_use()) return may_not(concat("it is read ", value.uses().size(), " times"));
  return may();
}

// Why only a kernel of its own makes what this fusion makes.
Verdict stands_alone(const Operation& producer) {
  const std::string& kind = producer.attributes.string("kind");
  if (kind == "contract")
    return may_not("blocks of a product make parts of rows, and only elementwise work follows them");
  return may_not(concat("a kernel of kind ", kind, " makes it, not elementwise work"));
}

// A pointwise fusion with one result that is read once.
Verdict can_move(const Value* value) {
  const Operation* producer = value->def();
  if (!producer || !producer->is(Op::fusion)) return may_not("it lies in memory");
  if (!is_kind(producer, "pointwise")) return stands_alone(*producer);
  if (producer->result_count() != 1) return may_not("the kernel that makes it has other results");
  return is_read_once(*value);
}

// Whether element i of `value` is read for element i of what depends on it, and for nothing else: only elementwise
// operations of this shape stand between it and the results, or the row operation's row.
Verdict is_read_in_place(const Value* value, const Shape& shape) {
  for (const Use& use : value->uses()) {
    const Operation& user = *use.user;
    if (user.is(Op::yield)) continue;
    if (is_scalar_op(user.op)) {
      if (user.result()->type.shape != shape)
        return may_not(concat("'", to_string(user.op), "' reads each of its elements several times"));
      if (Verdict verdict = is_read_in_place(user.result(), shape); !verdict) return verdict;
      continue;
    }
    const OpFamily family = user.spec().family;
    const bool row = family == OpFamily::composite || family == OpFamily::reduction;
    if (!row || use.index != 0 || user.operand(0)->type.shape != shape)
      return may_not(concat("'", to_string(user.op), "' does not read it element by element"));
  }
  return may();
}

// One transpose, maybe of a reshape: each element of the operand is read once.
bool is_transpose(const Block& body) {
  for (const auto& operation : body.operations()) {
    if (!operation->is(Op::transpose) && !operation->is(Op::reshape) && !operation->is(Op::yield)) return false;
  }
  return body.argument_count() == 1 && body.size() > 1;
}

Verdict fits(const Operation& consumer, const Operation& producer) {
  if (consumer.body()->size() + producer.body()->size() > most_operations)
    return may_not(concat("together they have more than ", most_operations, " operations"));
  if (consumer.operand_count() + producer.operand_count() > most_operands)
    return may_not(concat("together they have more than ", most_operands, " operands"));
  return may();
}

// Whether operand `index` of `consumer` may be computed inside it.
Verdict accepts(const Operation& consumer, size_t index) {
  const Block& body = *consumer.body();
  const Value* value = consumer.operand(index);
  const std::string& kind = consumer.attributes.string("kind");
  if (kind != "pointwise" && kind != "row") {
    for (const Use& use : body.argument(index)->uses()) {
      if (!is_scalar_op(use.user->op))
        return may_not(concat("'", to_string(use.user->op), "' reads each of its elements several times"));
    }
    return may_not(concat("nothing is computed for what follows the ", kind, " operation"));
  }
  if (Verdict verdict = can_move(value); !verdict) return verdict;
  const Shape& shape = value->type.shape;
  if (kind == "pointwise") {
    if (is_transpose(body)) return may();
    if (Verdict verdict = is_read_in_place(body.argument(index), shape); !verdict) return verdict;
    for (size_t i = 0; i < consumer.result_count(); ++i) {
      if (consumer.result(i)->type.shape != shape) return may_not("the results have another shape");
    }
    return may();
  }
  if (!is_elementwise(*value->def()->body()))
    return may_not("a row is read several times, so only elementwise work goes before it");
  return is_read_in_place(body.argument(index), shape);
}

// Whether the one reader of a pointwise fusion will take it in, maybe through a reshape.
bool reader_takes(const Operation& fusion) {
  if (fusion.result_count() != 1 || !fusion.result(0)->has_one_use()) return false;
  const Use* use = &fusion.result(0)->uses().front();
  if (use->user->is(Op::reshape) && use->user->result()->has_one_use()) {
    use = &use->user->result()->uses().front();
    return is_kind(use->user, "pointwise") && is_transpose(*use->user->body()) && bool(fits(*use->user, fusion));
  }
  return use->user->is(Op::fusion) && bool(accepts(*use->user, use->index)) && bool(fits(*use->user, fusion));
}

class Merger {
 public:
  Merger(Block& block, const PlanContext& context) : block_(block), context_(context) {}

  bool run() {
    bool changed = false;
    for (Operation* operation = block_.operations().front().get(); operation;) {
      Operation* next = block_.next(operation);
      if (operation->is(Op::fusion)) changed = merge_into(operation) || changed;
      operation = next;
    }
    return changed;
  }

  void explain(DecisionLog& log) {
    for (Operation* operation = block_.operations().front().get(); operation; operation = block_.next(operation)) {
      if (!operation->is(Op::fusion)) continue;
      for (size_t i = 0; i < operation->operand_count(); ++i) {
        const Operation* producer = operation->operand(i)->def();
        if (producer && producer->is(Op::reshape)) producer = producer->operand(0)->def();
        if (!producer || !producer->is(Op::fusion)) continue;
        Verdict why = why_apart(operation, i);
        log[operation].push_back({"merge", static_cast<int>(i), false, std::move(why.reason), std::move(why.launches)});
      }
    }
  }

 private:
  // Merges producers into `consumer` (and what it becomes) until none fits.
  bool merge_into(Operation* consumer) {
    bool changed = false;
    for (size_t i = 0; i < consumer->operand_count();) {
      take_reshape_inside(consumer, i);
      if (!accepts(*consumer, i) || !fits(*consumer, *consumer->operand(i)->def())) {
        ++i;
        continue;
      }
      Operation* taken = consumer->operand(i)->def();
      consumer = replace(consumer, join(consumer, i, nullptr, consumer->attributes), taken);
      changed = true;
      i = 0;
    }
    return merge_product(consumer) || changed;
  }

  // Merges one product that `consumer` reads in place.
  bool merge_product(Operation* consumer) {
    if (!is_kind(consumer, "pointwise") || reader_takes(*consumer)) return false;
    for (size_t i = 0; i < consumer->operand_count(); ++i) {
      Operation* joined = nullptr;
      if (!takes_product(consumer, i, &joined)) continue;
      replace(consumer, joined, consumer->operand(i)->def());
      return true;
    }
    return false;
  }

  // Whether the product behind operand `index`, maybe through a reshape, gets `consumer` as its epilogue. If so
  // `joined` is the fusion that does both; not used by anything yet.
  Verdict takes_product(Operation* consumer, size_t index, Operation** joined) {
    const Value* value = consumer->operand(index);
    Operation* reshape = value->def() && value->def()->is(Op::reshape) ? value->def() : nullptr;
    if (reshape) {
      if (Verdict once = is_read_once(*value); !once) return once;
      value = reshape->operand(0);
    }
    const Operation* product = value->def();
    if (!is_kind(product, "contract")) return may_not("it is not made by a product");
    if (product->result_count() != 1) return may_not("the product has other results");
    if (Verdict once = is_read_once(*value); !once) return once;
    if (Verdict verdict = fits(*consumer, *product); !verdict) return verdict;
    *joined = join(consumer, index, reshape, product->attributes);
    const Result<KernelPlan> plan = plan_kernel("contract", *(*joined)->body(), context_);
    if (plan && (!plan->product_cost || plan->product_cost->own_ns <= plan->product_cost->library_ns)) return may();
    block_.erase(*joined);
    *joined = nullptr;
    if (!plan) return may_not(plan.error().first().message);
    Verdict slower = may_not("estimated slower than cublaslt and this kernel");
    slower.launches = {{plan->unit, plan->percent, plan->flops, plan->bytes}};
    return slower;
  }

  // Why the fusion behind operand `index` is still a kernel of its own.
  Verdict why_apart(Operation* consumer, size_t index) {
    const Value* value = consumer->operand(index);
    const bool reshaped = value->def()->is(Op::reshape);
    const Operation* producer = reshaped ? value->def()->operand(0)->def() : value->def();
    if (is_kind(producer, "contract") && is_kind(consumer, "pointwise")) {
      Operation* joined = nullptr;
      Verdict verdict = takes_product(consumer, index, &joined);
      if (!joined) return verdict;
      block_.erase(joined);
      return may_not("what this kernel does goes into the one after it");
    }
    if (reshaped) {
      const Verdict movable = can_move(value->def()->operand(0));
      return movable ? may_not("a reshape stands between, which only a transpose takes in") : movable;
    }
    Verdict verdict = accepts(*consumer, index);
    return verdict ? fits(*consumer, *producer) : verdict;
  }

  // elementwise -> reshape -> transpose: the reshape moves into the body of the transpose.
  void take_reshape_inside(Operation* consumer, size_t index) {
    Operation* reshape = consumer->operand(index)->def();
    if (!is_kind(consumer, "pointwise") || !is_transpose(*consumer->body())) return;
    if (!reshape || !reshape->is(Op::reshape) || !reshape->result()->has_one_use()) return;
    Value* from = reshape->operand(0);
    if (!can_move(from) || !fits(*consumer, *from->def())) return;
    Block& body = *consumer->body();
    Value* argument = body.argument(0);
    Operation* first = body.operations().front().get();
    argument->type = from->type;
    Operation* inside = body.insert(first, Op::reshape, {argument}, reshape->attributes, reshape->result_types());
    first->set_operand(0, inside->result());
    consumer->set_operand(index, from);
    block_.erase(reshape);
  }

  // A fusion that computes what `consumer` does from the operands of the fusion behind its operand `index`, maybe
  // through `reshape`; not used by anything yet.
  Operation* join(Operation* consumer, size_t index, Operation* reshape, const AttributeList& attributes) {
    Operation* producer = (reshape ? reshape->operand(0) : consumer->operand(index))->def();
    std::vector<Value*> operands;
    std::map<const Value*, size_t> position;
    auto add = [&](Value* value) {
      if (position.try_emplace(value, operands.size()).second) operands.push_back(value);
    };
    for (size_t i = 0; i < consumer->operand_count(); ++i) {
      if (i != index) {
        add(consumer->operand(i));
      } else {
        for (Value* operand : producer->operands()) add(operand);
      }
    }

    Operation* merged = block_.insert(consumer, Op::fusion, operands, attributes, consumer->result_types());
    Block& body = *merged->body();
    for (const Value* operand : operands) body.add_argument(operand->type);
    auto inner = [&](const Value* value) { return body.argument(position.at(value)); };

    std::vector<Value*> arguments;
    for (const Value* operand : producer->operands()) arguments.push_back(inner(operand));
    Value* moved = inline_block(*producer->body(), body, nullptr, arguments)[0];
    if (reshape)
      moved = body.insert(nullptr, Op::reshape, {moved}, reshape->attributes, reshape->result_types())->result();
    arguments.clear();
    for (size_t i = 0; i < consumer->operand_count(); ++i) {
      arguments.push_back(i == index ? moved : inner(consumer->operand(i)));
    }
    body.insert(nullptr, Op::yield, inline_block(*consumer->body(), body, nullptr, arguments), {}, {});

    merged->origins = producer->origins;
    for (const std::string& origin : consumer->origins) {
      if (std::find(merged->origins.begin(), merged->origins.end(), origin) == merged->origins.end()) {
        merged->origins.push_back(origin);
      }
    }
    return merged;
  }

  // Puts `joined` in the place of `consumer` and erases the fusion, and the reshape before it, that it took in.
  Operation* replace(Operation* consumer, Operation* joined, Operation* taken) {
    for (size_t i = 0; i < consumer->result_count(); ++i) {
      joined->result(i)->name = consumer->result(i)->name;
      consumer->result(i)->replace_all_uses_with(joined->result(i));
    }
    block_.erase(consumer);
    if (taken->is(Op::reshape)) {
      Operation* reshape = taken;
      taken = reshape->operand(0)->def();
      block_.erase(reshape);
    }
    block_.erase(taken);
    return joined;
  }

  Block& block_;
  const PlanContext& context_;
};

}  // namespace

bool merge_fusions(Module& module, package::Determinism determinism, DecisionLog* log) {
  const PlanContext context{module.symbols, determinism};
  bool changed = false;
  for (const auto& function : module.functions) {
    Merger merger(function->block, context);
    changed = merger.run() || changed;
    if (log) merger.explain(*log);
  }
  return changed;
}

}  // namespace rtx::codegen
