// BodyPlanner: turns the operations of a kernel body into steps, for one binding of the symbols.
//
// Each value gets a concrete type and a view of a buffer. Buffers, by number: the operands of the kernel, its results,
// then constants and scratch memory of the plan. What the planner of an op may use is the public part.
#pragma once

#include <map>
#include <memory>
#include <string_view>
#include <vector>

#include "ir/module.h"
#include "runtime/cpu/aligned_buffer.h"
#include "runtime/cpu/elementwise_step.h"
#include "runtime/cpu/isa.h"
#include "runtime/cpu/step.h"

namespace rtx::runtime::cpu {

// What is left when planning is done.
struct BodyPlan {
  std::vector<std::unique_ptr<Step>> steps;
  int operands = 0, results = 0;
  // Buffers from number operands + results on.
  std::vector<AlignedBuffer> own;
};

class BodyPlanner {
 public:
  // `symbols` must hold every symbol of the body. The block must outlive the plan, which may call the evaluator on it.
  static Result<BodyPlan> plan(const Block& body, const SymbolValues& symbols, Isa isa);

  Isa isa() const { return isa_; }
  const SymbolValues& symbols() const { return symbols_; }
  const ConcreteType& type(const Value* value) const { return values_.at(value).type; }
  const View& view(const Value* value) const { return values_.at(value).view; }
  // The value in row-major order without gaps; adds a copy if it is not.
  Result<Place> contiguous(const Value* value);
  // Where a step must write the value: in row-major order without gaps.
  Result<Place> define(const Value* value);
  // The value is a view of another one.
  void alias(const Value* value, View view);
  // Scratch memory of the plan, with contents that do not outlive the step that uses it.
  Result<Place> scratch(int64_t bytes);
  template <typename StepType, typename... Arguments>
  void add(Arguments&&... arguments) {
    plan_.steps.push_back(std::make_unique<StepType>(std::forward<Arguments>(arguments)...));
  }
  Result<std::vector<int64_t>> evaluate(const std::vector<Dim>& dims) const;

 private:
  struct Entry {
    ConcreteType type;
    View view;
  };

  BodyPlanner(const Block& body, const SymbolValues& symbols, Isa isa) : body_(body), symbols_(symbols), isa_(isa) {}
  Result<void> run();
  Result<void> add_value(const Value* value);
  Result<void> plan_operation(const Operation& operation);
  Result<bool> plan_elementwise(const Operation& operation);
  Result<void> plan_reference(const Operation& operation);
  Result<void> finish_group();
  Result<void> plan_yield(const Operation& yield);
  Result<int> own_buffer(int64_t bytes);

  const Block& body_;
  const SymbolValues& symbols_;
  Isa isa_;
  std::map<const Value*, Entry> values_;
  std::map<const Value*, int> result_of_;  // values that are written straight into a result of the kernel
  // Elementwise operations of one shape that follow each other and become one step.
  std::vector<const Operation*> group_;
  BodyPlan plan_;
};

// The planner of an op: adds its steps and returns true, or false if it has none for these types.
using OpPlanner = Result<bool> (*)(BodyPlanner&, const Operation&);
Result<bool> plan_reshape(BodyPlanner&, const Operation&);
Result<bool> plan_transpose(BodyPlanner&, const Operation&);
Result<bool> plan_broadcast(BodyPlanner&, const Operation&);
Result<bool> plan_slice(BodyPlanner&, const Operation&);
Result<bool> plan_concat(BodyPlanner&, const Operation&);
Result<bool> plan_pad(BodyPlanner&, const Operation&);
Result<bool> plan_iota(BodyPlanner&, const Operation&);
Result<bool> plan_gather(BodyPlanner&, const Operation&);
Result<bool> plan_reduce(BodyPlanner&, const Operation&);
Result<bool> plan_argmax(BodyPlanner&, const Operation&);
Result<bool> plan_matmul(BodyPlanner&, const Operation&);
Result<bool> plan_conv(BodyPlanner&, const Operation&);
Result<bool> plan_softmax(BodyPlanner&, const Operation&);
Result<bool> plan_norm(BodyPlanner&, const Operation&);

// Row-major strides of a shape, and whether a view has them (axes of length 1 do not matter).
std::vector<int64_t> strides_of(const std::vector<int64_t>& shape);
bool is_contiguous(const std::vector<int64_t>& shape, const std::vector<int64_t>& strides);

}  // namespace rtx::runtime::cpu
