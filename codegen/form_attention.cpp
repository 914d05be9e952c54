#include "codegen/form_attention.h"

#include <algorithm>
#include <map>

#include "codegen/emit/element_emitter.h"
#include "codegen/plan_kernel.h"
#include "codegen/strided_view.h"
#include "ir/expand.h"
#include "passes/canonicalize.h"
#include "passes/eliminate_common_subexpressions.h"
#include "passes/eliminate_dead_values.h"

namespace rtx::codegen {
namespace {

bool is_one_element(const Value* value) {
  return value->def() && value->def()->is(Op::constant) && value->type.element_count().is(1);
}

size_t wide_axes(const Value* value) {
  const Shape& shape = value->type.shape;
  return static_cast<size_t>(std::count_if(shape.begin(), shape.end(), [](const Dim& dim) { return !dim.is(1); }));
}

// Whether each element of `value` is computed from values of fewer wide axes than `axes`, by elementwise operations.
bool is_spread(const Value* value, size_t axes, int depth) {
  if (wide_axes(value) < axes) return true;
  const Operation* operation = value->def();
  if (!operation || depth == 0) return false;
  const bool passes = ElementEmitter::handles(operation->op) &&
                      (operation->is(Op::broadcast) || spec(operation->op).family == OpFamily::elementwise);
  return passes && std::all_of(operation->operands().begin(), operation->operands().end(),
                               [&](const Value* operand) { return is_spread(operand, axes, depth - 1); });
}

// A mask of queries and keys that is spread from smaller values, such as a bias that padding cuts off: the kernel
// computes its elements, so that it never lies in memory.
bool is_computed_inside(const Value* mask) {
  constexpr int deepest = 8;
  const Shape& shape = mask->type.shape;
  return shape.size() >= 2 && !shape.back().is(1) && !shape[shape.size() - 2].is(1) &&
         is_spread(mask, wide_axes(mask), deepest);
}

// The body of an attention fusion and what it takes and replaces.
struct Candidate {
  std::unique_ptr<Block> body = std::make_unique<Block>();
  std::vector<Value*> operands;
  Value* result = nullptr;
};

class Gatherer {
 public:
  explicit Gatherer(Operation& attention) : attention_(attention) {}

  Candidate run(bool with_moves) {
    std::vector<Value*> inside;
    for (size_t i = 0; i < attention_.operand_count(); ++i) {
      Value* operand = attention_.operand(i);
      if (with_moves && i >= 3 && is_computed_inside(operand)) {
        inside.push_back(clone_spread(operand, wide_axes(operand)));
      } else {
        inside.push_back(clone(operand, with_moves ? furthest_base(operand).base : operand));
      }
    }
    Value* result = attention_.result();
    Value* copy = copy_of(attention_, std::move(inside));
    if (with_moves) {
      for (Operation* move : joining_moves()) {
        copy = copy_of(*move, {copy});
        result = move->result();
      }
    }
    candidate_.body->insert(nullptr, Op::yield, {copy}, {}, {});
    candidate_.result = result;
    return std::move(candidate_);
  }

 private:
  Value* copy_of(const Operation& operation, std::vector<Value*> operands) {
    return candidate_.body
        ->insert(nullptr, operation.op, std::move(operands), operation.attributes, operation.result_types())
        ->result();
  }

  // `value` in the body, made of `base` by moves.
  Value* clone(Value* value, const Value* base) {
    if (auto known = inside_.find(value); known != inside_.end()) return known->second;
    Value* copy = nullptr;
    if (is_one_element(value)) {
      copy = copy_of(*value->def(), {});
    } else if (value == base) {
      candidate_.operands.push_back(value);
      copy = candidate_.body->add_argument(value->type);
    } else {
      copy = copy_of(*value->def(), {clone(value->def()->operand(0), base)});
    }
    return inside_[value] = copy;
  }

  // A mask that is_computed_inside, of the values it is spread from.
  Value* clone_spread(Value* value, size_t axes) {
    if (wide_axes(value) < axes) return clone(value, value);
    if (auto known = inside_.find(value); known != inside_.end()) return known->second;
    std::vector<Value*> operands;
    for (Value* operand : value->def()->operands()) operands.push_back(clone_spread(operand, axes));
    return inside_[value] = copy_of(*value->def(), std::move(operands));
  }

  // The transposes, and the reshapes between them, that are done to the result and nothing else.
  std::vector<Operation*> joining_moves() const {
    std::vector<Operation*> moves;
    size_t wanted = 0;
    for (const Value* value = attention_.result(); value->has_one_use();) {
      Operation* user = value->uses()[0].user;
      if (!user->is(Op::transpose) && !user->is(Op::reshape)) break;
      moves.push_back(user);
      value = user->result();
      if (!user->is(Op::transpose)) continue;
      std::optional<StridedView> view = row_major_view(value->type.shape);
      for (size_t i = moves.size(); i-- > 0 && view;) view = view_of_operand(*moves[i], *view);
      if (!view) break;
      wanted = moves.size();
    }
    moves.resize(wanted);
    return moves;
  }

  Operation& attention_;
  Candidate candidate_;
  std::map<const Value*, Value*> inside_;
};

// A body that plan_attention takes: with the moves, or else without them. Its refusal if it takes neither.
Result<Candidate> accepted(Operation& attention, const SymbolRanges& symbols) {
  Candidate candidate = Gatherer(attention).run(true);
  if (plan_attention(*candidate.body, {symbols})) return candidate;
  candidate = Gatherer(attention).run(false);
  RTX_TRY(plan_attention(*candidate.body, {symbols}));
  return candidate;
}

void wrap(Operation& attention, Candidate candidate) {
  Block& block = *attention.block();
  Operation* fusion = block.insert(&attention, Op::fusion, candidate.operands, {{"kind", std::string("attention")}},
                                   {candidate.result->type}, std::move(candidate.body));
  fusion->origins = attention.origins;
  fusion->result()->name = candidate.result->name;
  candidate.result->replace_all_uses_with(fusion->result());
}

Result<bool> expand_refused(Module& module, OriginLog* log) {
  bool changed = false;
  for (const auto& function : module.functions) {
    Block& block = function->block;
    for (Operation* operation = block.operations().front().get(); operation;) {
      Operation* next = block.next(operation);
      if (operation->is(Op::attention)) {
        if (Result<Candidate> candidate = accepted(*operation, module.symbols); !candidate) {
          if (log) log->add(operation->origins, {"attention", -1, false, candidate.error().first().message, {}});
          RTX_TRY(expand(*operation));
          changed = true;
        }
      }
      operation = next;
    }
  }
  return changed;
}

}  // namespace

Result<void> form_attention(Module& module, OriginLog* log) {
  PassContext context;
  for (bool changed = true; changed;) {
    // What is rewritten around one attention may change what another one is made of.
    RTX_ASSIGN(changed, expand_refused(module, log));
    if (!changed) break;
    RTX_TRY(canonicalize(module, context));
    RTX_TRY(eliminate_common_subexpressions(module, context));
  }
  for (const auto& function : module.functions) {
    Block& block = function->block;
    for (Operation* operation = block.operations().front().get(); operation; operation = block.next(operation)) {
      if (!operation->is(Op::attention)) continue;
      RTX_ASSIGN(Candidate candidate, accepted(*operation, module.symbols));
      wrap(*operation, std::move(candidate));
    }
  }
  RTX_TRY(eliminate_dead_values(module, context));
  return Ok{};
}

}  // namespace rtx::codegen
