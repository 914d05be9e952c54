#include "codegen/form_fusions.h"

#include <algorithm>
#include <set>

#include "base/text.h"
#include "codegen/form_attention.h"
#include "passes/expand_composites.h"

namespace rtx::codegen {
namespace {

bool stays_outside(Op op) {
  return op == Op::constant || op == Op::weight || op == Op::reshape || op == Op::yield || op == Op::fusion;
}

bool is_one_element(const Operation* operation) {
  return operation && operation->is(Op::constant) && operation->attributes.tensor("value").element_count() == 1;
}

// Neighbouring axes that end at the last one are rows; threads of a warp then read neighbouring elements. Other
// reductions read neighbouring elements when each thread has a result of its own.
bool reduces_rows(const Operation& operation) {
  const std::vector<int64_t>& axes = operation.attributes.integers("axes");
  const int rank = operation.operand(0)->type.rank();
  return !axes.empty() && axes.back() == rank - 1 &&
         axes.back() - axes.front() + 1 == static_cast<int64_t>(axes.size());
}

std::string_view kind_of(const Operation& operation) {
  switch (operation.op) {
    case Op::matmul:
      return "contract";
    case Op::conv:
      return "conv";
    case Op::cumsum:
      return "scan";
    case Op::argmax:
      return "reduce";
    case Op::scatter_nd:
    case Op::scatter_elements:
      return "scatter";
    case Op::topk:
      return "sort";
    case Op::softmax:
    case Op::log_softmax:
    case Op::layer_norm:
    case Op::rms_norm:
      return "row";
    case Op::reduce_sum:
    case Op::reduce_mean:
    case Op::reduce_max:
    case Op::reduce_min:
    case Op::reduce_prod:
      return reduces_rows(operation) ? "row" : "reduce";
    default:
      return "pointwise";
  }
}

Shape batch_of(const Type& type) { return Shape(type.shape.begin(), type.shape.end() - 2); }

Dim count(const Shape& shape) { return Type{DType::f32, shape}.element_count(); }

// Puts a broadcast before a float matmul whose operand has a batch that is neither 1 nor the result's.
Result<void> materialise_batch(Operation& matmul) {
  if (!is_float(matmul.result()->type.dtype)) return Ok{};
  const Shape batch = batch_of(matmul.result()->type);
  for (size_t i = 0; i < 2; ++i) {
    Value* operand = matmul.operand(i);
    const Dim own = count(batch_of(operand->type));
    if (own == count(batch) || own.is(1)) continue;
    Shape shape = batch;
    shape.insert(shape.end(), operand->type.shape.end() - 2, operand->type.shape.end());
    Builder builder(*matmul.block(), &matmul);
    builder.origins = matmul.origins;
    RTX_ASSIGN(Value * wide, builder.value(Op::broadcast, {operand}, {{"shape", shape}}));
    matmul.set_operand(i, wide);
  }
  return Ok{};
}

// A constant as a weight of the same value, for operands that must lie in memory.
Value* as_weight(Module& module, Operation& constant) {
  const Tensor& value = constant.attributes.tensor("value");
  const std::string name = module.weights->unique_name("constant");
  module.weights->add(name, value);
  Operation* weight = constant.block()->insert(
      &constant, Op::weight, {},
      {{"name", name}, {"dtype", value.dtype}, {"shape", Shape(value.shape.begin(), value.shape.end())}},
      constant.result_types());
  weight->origins = constant.origins;
  weight->result()->name = constant.result()->name;
  return weight->result();
}

// A fusion before `before` whose body is empty: it copies `value`.
Value* insert_copy(Block& block, Operation* before, Value* value) {
  Operation* fusion = block.insert(before, Op::fusion, {value}, {{"kind", std::string("pointwise")}}, {value->type});
  Value* argument = fusion->body()->add_argument(value->type);
  fusion->body()->insert(nullptr, Op::yield, {argument}, {}, {});
  if (value->def()) fusion->origins = value->def()->origins;
  return fusion->result();
}

// Replaces `operation` by a fusion that holds it alone.
Operation* wrap(Operation& operation) {
  const std::string_view kind = kind_of(operation);
  std::vector<Value*> outside;                  // operands of the fusion
  std::vector<Operation*> cloned;               // scalar constants that go inside
  const bool by_position = kind == "contract";  // the library call takes exactly lhs and rhs
  for (Value* operand : operation.operands()) {
    if (!by_position && is_one_element(operand->def())) {
      if (std::find(cloned.begin(), cloned.end(), operand->def()) == cloned.end()) cloned.push_back(operand->def());
    } else if (by_position || std::find(outside.begin(), outside.end(), operand) == outside.end()) {
      outside.push_back(operand);
    }
  }
  Operation* fusion = operation.block()->insert(&operation, Op::fusion, outside, {{"kind", std::string(kind)}},
                                                operation.result_types());
  fusion->origins = operation.origins;
  Block& body = *fusion->body();
  for (Value* operand : outside) body.add_argument(operand->type);
  std::vector<Value*> inside;
  for (size_t i = 0; i < operation.operand_count(); ++i) {
    Value* operand = operation.operand(i);
    if (auto found = std::find(cloned.begin(), cloned.end(), operand->def()); operand->def() && found != cloned.end()) {
      inside.push_back(nullptr);
    } else {
      const size_t index =
          by_position ? i : static_cast<size_t>(std::find(outside.begin(), outside.end(), operand) - outside.begin());
      inside.push_back(body.argument(index));
    }
  }
  for (Operation* constant : cloned) {
    Value* copy = body.insert(nullptr, Op::constant, {}, constant->attributes, constant->result_types())->result();
    for (size_t i = 0; i < inside.size(); ++i) {
      if (operation.operand(i) == constant->result()) inside[i] = copy;
    }
  }
  Operation* copy = body.insert(nullptr, operation.op, inside, operation.attributes, operation.result_types());
  std::vector<Value*> results;
  for (size_t i = 0; i < copy->result_count(); ++i) results.push_back(copy->result(i));
  body.insert(nullptr, Op::yield, results, {}, {});
  for (size_t i = 0; i < operation.result_count(); ++i) {
    fusion->result(i)->name = operation.result(i)->name;
    operation.result(i)->replace_all_uses_with(fusion->result(i));
  }
  operation.block()->erase(&operation);
  return fusion;
}

Value* root_of(Value* value) {
  while (value->def() && value->def()->is(Op::reshape)) value = value->def()->operand(0);
  return value;
}

// Every output gets a value of its own that a fusion makes.
void separate_outputs(Block& block) {
  std::set<const Value*> taken;
  Operation* yield = block.terminator();
  for (size_t i = 0; i < yield->operand_count(); ++i) {
    Value* root = root_of(yield->operand(i));
    const bool made = root->def() && root->def()->is(Op::fusion);
    if (!made || !taken.insert(root).second) yield->set_operand(i, insert_copy(block, yield, yield->operand(i)));
  }
}

Result<void> form_in(Module& module, Block& block) {
  for (Operation* operation = block.operations().front().get(); operation;) {
    Operation* next = block.next(operation);
    if (operation->is(Op::matmul)) {
      RTX_TRY(materialise_batch(*operation));
      // The broadcasts stand before it; wrap them too.
      for (Value* operand : operation->operands()) {
        if (operand->def() && operand->def()->is(Op::broadcast)) wrap(*operand->def());
      }
    }
    if (!stays_outside(operation->op)) wrap(*operation);
    operation = next;
  }
  // What is left of the constants feeds library calls, reshapes, outputs and gathers.
  for (Operation* operation = block.operations().front().get(); operation;) {
    Operation* next = block.next(operation);
    if (operation->is(Op::constant)) {
      if (!operation->unused()) operation->result()->replace_all_uses_with(as_weight(module, *operation));
      block.erase(operation);
    }
    operation = next;
  }
  separate_outputs(block);
  return Ok{};
}

}  // namespace

Result<void> form_fusions(Module& module, OriginLog* log) {
  PassContext context;
  RTX_TRY(expand_simple_composites(module, context));
  RTX_TRY(form_attention(module, log));
  for (const auto& function : module.functions) RTX_TRY(form_in(module, function->block));
  module.stage = Stage::fused;
  return Ok{};
}

}  // namespace rtx::codegen
