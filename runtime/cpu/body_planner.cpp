#include "runtime/cpu/body_planner.h"

#include <algorithm>

#include "base/text.h"
#include "ir/expand.h"
#include "ir/ops/loops.h"
#include "runtime/cpu/copy_step.h"
#include "runtime/cpu/reference_step.h"

namespace rtx::runtime::cpu {
namespace {

struct PlannerRow {
  Op op;
  OpPlanner plan;
};

// Ops with fast loops other than elementwise ones (those: elementwise_loops.inc). The rest runs on the evaluator.
constexpr PlannerRow planners[] = {
    {Op::reshape, plan_reshape},
    {Op::transpose, plan_transpose},
    {Op::broadcast, plan_broadcast},
    {Op::slice, plan_slice},
    {Op::concat, plan_concat},
    {Op::pad, plan_pad},
    {Op::iota, plan_iota},
    {Op::gather, plan_gather},
    {Op::gather_nd, plan_gather_nd},
    {Op::gather_elements, plan_gather_elements},
    {Op::reduce_sum, plan_reduce},
    {Op::reduce_mean, plan_reduce},
    {Op::reduce_max, plan_reduce},
    {Op::reduce_min, plan_reduce},
    {Op::reduce_prod, plan_reduce},
    {Op::argmax, plan_argmax},
    {Op::cumsum, plan_cumsum},
    {Op::matmul, plan_matmul},
    {Op::conv, plan_conv},
    {Op::softmax, plan_softmax},
    {Op::log_softmax, plan_softmax},
    {Op::layer_norm, plan_norm},
    {Op::rms_norm, plan_norm},
    {Op::scatter_nd, plan_scatter_nd},
    {Op::scatter_elements, plan_scatter_elements},
    {Op::unpack_bits, plan_unpack_bits},
};

OpPlanner find_planner(Op op) {
  for (const PlannerRow& row : planners) {
    if (row.op == op) return row.plan;
  }
  return nullptr;
}

constexpr size_t max_elementwise_rank = 64;

}  // namespace

std::vector<int64_t> strides_of(const std::vector<int64_t>& shape) { return row_major_strides(shape); }

bool is_contiguous(const std::vector<int64_t>& shape, const std::vector<int64_t>& strides) {
  const std::vector<int64_t> dense = row_major_strides(shape);
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 0) return true;
    if (shape[i] != 1 && strides[i] != dense[i]) return false;
  }
  return true;
}

Result<void> BodyPlan::run(std::span<std::byte* const> operands_and_results, ThreadPool& pool,
                           Workspace& workspace) const {
  RTX_TRY(workspace.body.reserve(workspace_bytes));
  std::vector<std::byte*> buffers(operands_and_results.begin(), operands_and_results.end());
  for (const OwnBuffer& buffer : own) {
    buffers.push_back(buffer.constant.data() ? buffer.constant.data()
                                             : workspace.body.data() + buffer.workspace_offset);
  }
  const StepContext context = {pool, workspace, buffers};
  for (const std::unique_ptr<Step>& step : steps) RTX_TRY(step->run(context));
  return Ok{};
}

Result<BodyPlan> BodyPlanner::plan(const Block& body, const SymbolValues& symbols, Isa isa) {
  BodyPlanner planner(body, symbols, isa);
  RTX_TRY(planner.run());
  return std::move(planner.plan_);
}

Result<std::vector<int64_t>> BodyPlanner::evaluate(const std::vector<Dim>& dims) const {
  std::vector<int64_t> values;
  for (const Dim& dim : dims) {
    RTX_ASSIGN(int64_t value, dim.evaluate(symbols_));
    values.push_back(value);
  }
  return values;
}

Result<void> BodyPlanner::add_value(const Value* value) {
  Entry entry;
  entry.type.dtype = value->type.dtype;
  RTX_ASSIGN(entry.type.shape, evaluate(value->type.shape));
  int64_t elements = 1;
  bool valid = true;
  for (int64_t size : entry.type.shape) {
    // An axis of 0 must not hide an overflow of the others from strides.
    valid = valid && size >= 0 && !__builtin_mul_overflow(elements, size == 0 ? 1 : size, &elements);
  }
  if (!valid || !packed_bytes(entry.type.dtype, elements)) {
    return make_error(ErrorKind::limit, "E504",
                      concat("a tensor ", value->type.str(), " is too large or has a negative size"));
  }
  values_.emplace(value, std::move(entry));
  return Ok{};
}

Result<Place> BodyPlanner::scratch(int64_t bytes) {
  constexpr int64_t alignment = static_cast<int64_t>(buffer_alignment);
  BodyPlan::OwnBuffer buffer;
  buffer.workspace_offset = plan_.workspace_bytes;
  if (__builtin_add_overflow(plan_.workspace_bytes, bytes + alignment - 1 - (bytes + alignment - 1) % alignment,
                             &plan_.workspace_bytes)) {
    return make_error(ErrorKind::limit, "E504", "the intermediate values of a kernel are too large");
  }
  plan_.own.push_back(std::move(buffer));
  return Place{plan_.operands + plan_.results + static_cast<int>(plan_.own.size()) - 1, 0};
}

Result<Place> BodyPlanner::define(const Value* value) {
  Entry& entry = values_.at(value);
  entry.view.strides = row_major_strides(entry.type.shape);
  if (auto result = result_of_.find(value); result != result_of_.end()) {
    entry.view.buffer = result->second;
  } else {
    RTX_ASSIGN(Place place, scratch(*packed_bytes(entry.type.dtype, entry.type.elements())));
    entry.view.buffer = place.buffer;
  }
  return Place{entry.view.buffer, 0};
}

void BodyPlanner::alias(const Value* value, View view) { values_.at(value).view = std::move(view); }

Result<Place> BodyPlanner::contiguous(const Value* value) {
  Entry& entry = values_.at(value);
  // Views of 4-bit elements are never made, so the division below is exact.
  const int64_t offset_bytes = entry.view.offset * bit_width(entry.type.dtype) / 8;
  if (is_contiguous(entry.type.shape, entry.view.strides)) return Place{entry.view.buffer, offset_bytes};
  RTX_ASSIGN(Place to, copied(entry.type, entry.view));
  // Later users find the copy.
  entry.view = {to.buffer, 0, row_major_strides(entry.type.shape)};
  return to;
}

Result<Place> BodyPlanner::copied(const ConcreteType& type, const View& view) {
  RTX_ASSIGN(Place to, scratch(*packed_bytes(type.dtype, type.elements())));
  add<CopyStep>(type, view, to, row_major_strides(type.shape));
  return to;
}

Result<Place> BodyPlanner::contiguous_lanes(const Value* value) {
  const ConcreteType& type = values_.at(value).type;
  RTX_ASSIGN(Place from, contiguous(value));
  if (is_lane_form(type.dtype)) return from;
  RTX_ASSIGN(Place to, scratch(type.elements() * lane_bytes(lane_of(type.dtype))));
  auto step = std::make_unique<ElementwiseStep>(std::vector<int64_t>{type.elements()}, isa_);
  const int reg = step->add_load(type.dtype, {from.buffer, values_.at(value).view.offset, {1}});
  step->add_store(reg, lane_dtype(lane_of(type.dtype)), to);
  plan_.steps.push_back(std::move(step));
  return to;
}

Result<Place> BodyPlanner::define_lanes(const Value* value) {
  const ConcreteType& type = values_.at(value).type;
  if (is_lane_form(type.dtype)) return define(value);
  return scratch(type.elements() * lane_bytes(lane_of(type.dtype)));
}

Result<void> BodyPlanner::store_lanes(const Value* value, Place lanes) {
  const ConcreteType& type = values_.at(value).type;
  if (is_lane_form(type.dtype)) return Ok{};
  RTX_ASSIGN(Place to, define(value));
  auto step = std::make_unique<ElementwiseStep>(std::vector<int64_t>{type.elements()}, isa_);
  const int reg = step->add_load(lane_dtype(lane_of(type.dtype)), {lanes.buffer, 0, {1}});
  step->add_store(reg, type.dtype, to);
  plan_.steps.push_back(std::move(step));
  return Ok{};
}

Result<void> BodyPlanner::run() {
  plan_.operands = static_cast<int>(body_.argument_count());
  const Operation* yield = body_.terminator();
  plan_.results = static_cast<int>(yield->operand_count());
  for (int i = 0; i < plan_.operands; ++i) {
    const Value* argument = body_.argument(static_cast<size_t>(i));
    RTX_TRY(add_value(argument));
    Entry& entry = values_.at(argument);
    entry.view = {i, 0, row_major_strides(entry.type.shape)};
    plan_.bytes.push_back(*packed_bytes(entry.type.dtype, entry.type.elements()));
  }
  for (int i = 0; i < plan_.results; ++i) {
    const Value* value = yield->operand(static_cast<size_t>(i));
    if (value->def()) result_of_.emplace(value, plan_.operands + i);  // the first, if it is yielded twice
  }
  for (const auto& operation : body_.operations()) {
    if (operation.get() == yield) break;
    for (size_t i = 0; i < operation->result_count(); ++i) RTX_TRY(add_value(operation->result(i)));
    RTX_TRY(plan_operation(*operation));
  }
  RTX_TRY(finish_group());
  return plan_yield(*yield);
}

Result<void> BodyPlanner::plan_operation(const Operation& operation) {
  RTX_ASSIGN(bool grouped, plan_elementwise(operation));
  if (grouped) return Ok{};
  for (const Value* operand : operation.operands()) {
    if (operand->def() && std::find(group_.begin(), group_.end(), operand->def()) != group_.end()) {
      RTX_TRY(finish_group());
    }
  }
  if (OpPlanner planner = find_planner(operation.op)) {
    RTX_ASSIGN(bool planned, planner(*this, operation));
    if (planned) return Ok{};
  }
  return plan_reference(operation);
}

Result<void> BodyPlanner::plan_reference(const Operation& operation) {
  std::vector<Place> operands, results;
  std::vector<ConcreteType> operand_types, result_types;
  for (const Value* operand : operation.operands()) {
    RTX_ASSIGN(Place place, contiguous(operand));
    operands.push_back(place);
    operand_types.push_back(type(operand));
  }
  for (size_t i = 0; i < operation.result_count(); ++i) {
    RTX_ASSIGN(Place place, define(operation.result(i)));
    results.push_back(place);
    result_types.push_back(type(operation.result(i)));
  }
  auto step = std::make_unique<ReferenceStep>(operation, symbols_, std::move(operands), std::move(operand_types),
                                              std::move(results), std::move(result_types));
  const bool constant =
      operation.operand_count() == 0 && operation.result_count() == 1 && !result_of_.contains(operation.result());
  if (constant) return compute_constant(*step, operation.result());
  add_step(std::move(step));
  return Ok{};
}

// What has no operands is the same in every run: computed now, into memory of the plan.
Result<void> BodyPlanner::compute_constant(Step& step, const Value* value) {
  const Entry& entry = values_.at(value);
  BodyPlan::OwnBuffer& buffer = plan_.own[static_cast<size_t>(entry.view.buffer - plan_.operands - plan_.results)];
  RTX_ASSIGN(buffer.constant, AlignedBuffer::allocate(*packed_bytes(entry.type.dtype, entry.type.elements())));
  std::vector<std::byte*> buffers(static_cast<size_t>(entry.view.buffer) + 1, nullptr);
  buffers.back() = buffer.constant.data();
  ThreadPool pool(1);
  Workspace workspace;
  return step.run({pool, workspace, buffers});
}

namespace {

// The loop of an elementwise operation and what rounds its result; a null loop: there is none.
struct ElementwiseChoice {
  LaneLoop loop = nullptr, round = nullptr;
};

ElementwiseChoice choose_loop(const Operation& operation, const ElementwiseLoops& loops) {
  const DType from = operation.operand(operation.operand_count() - 1)->type.dtype;
  const DType to = operation.result()->type.dtype;
  if (operation.is(Op::cast)) return {loops.cast(lane_of(from), to, operation.attributes.boolean("saturate")), nullptr};
  // The exponent of pow may have a dtype of its own.
  if (operation.is(Op::pow) && lane_of(operation.operand(0)->type.dtype) != lane_of(from)) return {};
  return {loops.find(operation.op, loop_variant(operation.op, operation.attributes), lane_of(from)),
          to == DType::boolean ? nullptr : loops.round(to)};
}

bool is_16_bit(const Type& type) { return type.dtype == DType::f16 || type.dtype == DType::bf16; }

// The operation on f32 between casts, where its result is f16 or bf16: it rounds once, at its end, and what it stands
// for would round at every value.
Operation* computed_in_f32(Block& body, Operation* operation) {
  if (!is_16_bit(operation->result()->type)) return operation;
  const auto cast = [&](Value* value, DType to) {
    return body.insert(operation, Op::cast, {value}, {{"to", to}, {"saturate", true}}, {Type{to, value->type.shape}})
        ->result();
  };
  std::vector<Value*> operands;
  for (Value* operand : operation->operands())
    operands.push_back(is_16_bit(operand->type) ? cast(operand, DType::f32) : operand);
  Operation* wide = body.insert(operation, operation->op, std::move(operands), operation->attributes,
                                {Type{DType::f32, operation->result()->type.shape}});
  operation->result()->replace_all_uses_with(cast(wide->result(), operation->result()->type.dtype));
  body.erase(operation);
  return wide;
}

}  // namespace

Result<void> expand_without_loops(Block& body, Isa isa) {
  for (Operation* operation = body.operations().front().get(); operation;) {
    Operation* next = body.next(operation);
    const bool has_loops =
        find_planner(operation->op) || (operation->operand_count() > 0 && operation->result_count() == 1 &&
                                        choose_loop(*operation, elementwise_loops(isa)).loop);
    if (operation->spec().expand && !has_loops) {
      if (operation->is(Op::attention) || operation->is(Op::rope)) operation = computed_in_f32(body, operation);
      RTX_TRY(expand(*operation));
    }
    operation = next;
  }
  return Ok{};
}

Result<bool> BodyPlanner::plan_elementwise(const Operation& operation) {
  if (operation.operand_count() == 0 || operation.operand_count() > 3 || operation.result_count() != 1) return false;
  const OpFamily family = operation.spec().family;
  if (family != OpFamily::elementwise && family != OpFamily::composite) return false;
  const std::vector<int64_t>& shape = type(operation.result()).shape;
  if (shape.size() > max_elementwise_rank || !choose_loop(operation, elementwise_loops(isa_)).loop) return false;
  if (!group_.empty() && type(group_.front()->result()).shape != shape) RTX_TRY(finish_group());
  group_.push_back(&operation);
  return true;
}

Result<void> BodyPlanner::finish_group() {
  if (group_.empty()) return Ok{};
  const std::vector<int64_t> shape = type(group_.front()->result()).shape;
  const ElementwiseLoops& loops = elementwise_loops(isa_);
  auto step = std::make_unique<ElementwiseStep>(shape, isa_);
  std::map<const Value*, int> registers;
  for (const Operation* operation : group_) {
    std::vector<int> in;
    for (const Value* operand : operation->operands()) {
      auto known = registers.find(operand);
      if (known == registers.end()) {
        const Entry& entry = values_.at(operand);
        // Aligned from the right; axes of length 1 and missing ones repeat.
        View view = {entry.view.buffer, entry.view.offset, std::vector<int64_t>(shape.size(), 0)};
        const size_t missing = shape.size() - entry.type.shape.size();
        for (size_t i = 0; i < entry.type.shape.size(); ++i) {
          if (entry.type.shape[i] != 1) view.strides[missing + i] = entry.view.strides[i];
        }
        known = registers.emplace(operand, step->add_load(entry.type.dtype, view)).first;
      }
      in.push_back(known->second);
    }
    const ElementwiseChoice choice = choose_loop(*operation, loops);
    const Value* result = operation->result();
    registers[result] = step->add_operation(choice.loop, choice.round, std::move(in), lane_of(result->type.dtype));
  }
  for (const Operation* operation : group_) {
    const Value* result = operation->result();
    const bool used_outside = std::any_of(result->uses().begin(), result->uses().end(), [&](const Use& use) {
      return std::find(group_.begin(), group_.end(), use.user) == group_.end();
    });
    if (!used_outside) continue;
    RTX_ASSIGN(Place to, define(result));
    step->add_store(registers.at(result), result->type.dtype, to);
  }
  group_.clear();
  plan_.steps.push_back(std::move(step));
  return Ok{};
}

Result<void> BodyPlanner::plan_yield(const Operation& yield) {
  for (int i = 0; i < plan_.results; ++i) {
    const Value* value = yield.operand(static_cast<size_t>(i));
    const Entry& entry = values_.at(value);
    const int buffer = plan_.operands + i;
    plan_.bytes.push_back(*packed_bytes(entry.type.dtype, entry.type.elements()));
    if (entry.view.buffer == buffer) continue;
    add<CopyStep>(entry.type, entry.view, Place{buffer, 0}, row_major_strides(entry.type.shape));
  }
  return Ok{};
}

}  // namespace rtx::runtime::cpu
