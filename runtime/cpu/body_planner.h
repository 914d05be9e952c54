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
  // Buffers from number operands + results on: constants, which have memory here, or pieces of Workspace::body.
  struct OwnBuffer {
    AlignedBuffer constant;
    int64_t workspace_offset = -1;
  };

  std::vector<std::unique_ptr<Step>> steps;
  int operands = 0, results = 0;
  std::vector<int64_t> bytes;  // of the operands, then the results
  std::vector<OwnBuffer> own;
  int64_t workspace_bytes = 0;

  Result<void> run(std::span<std::byte* const> operands_and_results, ThreadPool& pool, Workspace& workspace) const;
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
  // The same with the elements in the form of their lane (runtime/cpu/lanes.h), for steps that know no narrow dtypes.
  Result<Place> contiguous_lanes(const Value* value);
  // Where to write `elements` lanes that `store_lanes` then rounds to the value's dtype: the value itself, if it can
  // be.
  Result<Place> define_lanes(const Value* value);
  Result<void> store_lanes(const Value* value, Place lanes);
  // A copy of a view, contiguous.
  Result<Place> copied(const ConcreteType& type, const View& view);
  // Where a step must write the value: in row-major order without gaps.
  Result<Place> define(const Value* value);
  // The value is a view of another one.
  void alias(const Value* value, View view);
  // Memory for the time of one run of the body.
  Result<Place> scratch(int64_t bytes);
  void add_step(std::unique_ptr<Step> step) { plan_.steps.push_back(std::move(step)); }
  template <typename StepType, typename... Arguments>
  void add(Arguments&&... arguments) {
    add_step(std::make_unique<StepType>(std::forward<Arguments>(arguments)...));
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
  Result<void> compute_constant(Step& step, const Value* value);

  const Block& body_;
  const SymbolValues& symbols_;
  Isa isa_;
  std::map<const Value*, Entry> values_;
  std::map<const Value*, int> result_of_;  // values that are written straight into a result of the kernel
  // Elementwise operations of one shape that follow each other and become one step.
  std::vector<const Operation*> group_;
  BodyPlan plan_;
};

// Composites that only the evaluator could compute become the operations they stand for, which have loops.
Result<void> expand_without_loops(Block& body, Isa isa);

// The planner of an op: adds its steps and returns true, or false if it has none for these types.
using OpPlanner = Result<bool> (*)(BodyPlanner&, const Operation&);
Result<bool> plan_reshape(BodyPlanner&, const Operation&);
Result<bool> plan_transpose(BodyPlanner&, const Operation&);
Result<bool> plan_broadcast(BodyPlanner&, const Operation&);
Result<bool> plan_slice(BodyPlanner&, const Operation&);
Result<bool> plan_concat(BodyPlanner&, const Operation&);
Result<bool> plan_pad(BodyPlanner&, const Operation&);
Result<bool> plan_iota(BodyPlanner&, const Operation&);
Result<bool> plan_unpack_bits(BodyPlanner&, const Operation&);
Result<bool> plan_gather(BodyPlanner&, const Operation&);
Result<bool> plan_gather_nd(BodyPlanner&, const Operation&);
Result<bool> plan_gather_elements(BodyPlanner&, const Operation&);
Result<bool> plan_scatter_nd(BodyPlanner&, const Operation&);
Result<bool> plan_scatter_elements(BodyPlanner&, const Operation&);
Result<bool> plan_reduce(BodyPlanner&, const Operation&);
Result<bool> plan_argmax(BodyPlanner&, const Operation&);
Result<bool> plan_cumsum(BodyPlanner&, const Operation&);
Result<bool> plan_matmul(BodyPlanner&, const Operation&);
Result<bool> plan_conv(BodyPlanner&, const Operation&);
Result<bool> plan_softmax(BodyPlanner&, const Operation&);
Result<bool> plan_norm(BodyPlanner&, const Operation&);

// Row-major strides of a shape, and whether a view has them (axes of length 1 do not matter).
std::vector<int64_t> strides_of(const std::vector<int64_t>& shape);
bool is_contiguous(const std::vector<int64_t>& shape, const std::vector<int64_t>& strides);

}  // namespace rtx::runtime::cpu
