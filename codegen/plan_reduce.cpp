// One thread computes one element of the result: it walks the reduced axes in index order. Sums of floats are
// compensated (Kahan), since one thread may add many elements.

#include <algorithm>

#include "base/text.h"
#include "codegen/emit/c_types.h"
#include "codegen/plan_common.h"
#include "codegen/plan_kernel.h"

namespace rtx::codegen {
namespace {

bool is_reduction(Op op) { return spec(op).family == OpFamily::reduction && op != Op::cumsum; }

std::vector<int64_t> reduced_axes(const Operation& operation) {
  if (operation.is(Op::argmax)) return {operation.attributes.integer("axis")};
  return operation.attributes.integers("axes");
}

class ReduceEmitter {
 public:
  ReduceEmitter(KernelWriter& writer, const Block& body, const Operation& operation)
      : writer_(writer), body_(body), operation_(operation), emitter_(writer, body) {
    dtype_ = operation.operand(0)->type.dtype;
    sum_dtype_ = partial_dtype(dtype_);
  }

  void emit(KernelPlan& plan) {
    const Type& type = operation_.result()->type;
    const std::string index = begin_thread_per_element(plan, writer_, type.element_count());
    const std::string sum_type(register_type(sum_dtype_));
    const bool argmax = operation_.is(Op::argmax), whole = is_float(dtype_);
    const bool compensated = whole && (operation_.is(Op::reduce_sum) || operation_.is(Op::reduce_mean));

    const Combination combination = combination_of(writer_, operation_.op, dtype_);
    writer_.line(concat(sum_type, " a = ", combination.initial, ";"));
    if (compensated) writer_.line(concat(sum_type, " lost = ", float_literal(sum_dtype_, 0), ";"));
    if (argmax) writer_.line(concat(writer_.index_type(), " best = 0;"));
    const std::vector<std::string> loops = open_loops(index);
    const std::string x = emitter_.element(operation_.operand(0), Position::at(position_));
    writer_.line(concat("const ", sum_type, " b = ", x, ";"));
    if (argmax) {
      emit_argmax_step(loops[0]);
    } else if (compensated) {
      writer_.line(concat("const ", sum_type, " corrected = b - lost;"));
      writer_.line(concat("const ", sum_type, " next = a + corrected;"));
      writer_.line("lost = (next - a) - corrected;");
      writer_.line("a = next;");
      // Infinities make `lost` NaN: the plain sum is right then.
      writer_.line("if (lost != lost) lost = 0;");
    } else {
      writer_.line(concat("a = ", combination.step, ";"));
    }
    for (size_t i = 0; i < loops.size(); ++i) {
      emitter_.pop_scope();
      writer_.close();
    }
    store(index, argmax ? std::string("best") : operation_.is(Op::reduce_mean) ? mean() : std::string("a"));
  }

 private:
  // NaN counts as largest; of equal elements the first, or the last.
  void emit_argmax_step(const std::string& j) {
    const bool last = operation_.attributes.boolean("select_last");
    std::string test = concat(j, " == 0 || b > a");
    if (is_float(dtype_)) test = concat(test, " || (b != b && a == a)");
    if (last) test = concat(test, is_float(dtype_) ? " || b == a || (b != b && a != a)" : " || b == a");
    writer_.open(concat("if (", test, ") {"));
    writer_.line("a = b;");
    writer_.line(concat("best = ", j, ";"));
    writer_.close();
  }

  // Opens one loop a reduced axis and sets position_ to the operand's coordinates inside them.
  std::vector<std::string> open_loops(const std::string& index) {
    const Shape &from = operation_.operand(0)->type.shape, &to = operation_.result()->type.shape;
    const std::vector<int64_t> axes = reduced_axes(operation_);
    const bool keepdims = operation_.attributes.boolean("keepdims");
    position_.resize(from.size());
    std::vector<std::string> loops;
    size_t next = 0;
    for (size_t axis = 0; axis < from.size(); ++axis) {
      if (std::find(axes.begin(), axes.end(), static_cast<int64_t>(axis)) == axes.end()) {
        position_[axis] = emitter_.coordinate(to, Position::at(index), next++);
      } else if (keepdims) {
        ++next;
      }
    }
    for (int64_t axis : axes) {
      const std::string j = writer_.fresh("j"), length = writer_.dim(from[static_cast<size_t>(axis)]);
      writer_.open(concat("for (", writer_.index_type(), " ", j, " = 0; ", j, " < ", length, "; ++", j, ") {"));
      emitter_.push_scope();
      position_[static_cast<size_t>(axis)] = j;
      loops.push_back(j);
    }
    return loops;
  }

  std::string mean() {
    Dim count(1);
    for (int64_t axis : reduced_axes(operation_))
      count = count * operation_.operand(0)->type.shape[static_cast<size_t>(axis)];
    if (is_float(dtype_)) return concat("a / (", register_type(sum_dtype_), ")", writer_.dim64(count));
    return concat(writer_.call("rtx_div_i64"), "(a, ", writer_.dim64(count), ")");
  }

  void store(const std::string& index, const std::string& value) {
    const DType dtype = operation_.result()->type.dtype;
    writer_.line(concat("const ", register_type(dtype), " y = ", from_partial(writer_, dtype, value), ";"));
    emitter_.bind(operation_.result(), "y");
    const auto& results = body_.terminator()->operands();
    for (size_t i = 0; i < results.size(); ++i) {
      store_result(writer_, i, results[i]->type.dtype, index, emitter_.element(results[i], Position::at(index)));
    }
  }

  KernelWriter& writer_;
  const Block& body_;
  const Operation& operation_;
  ElementEmitter emitter_;
  DType dtype_, sum_dtype_;
  std::vector<std::string> position_;
};

}  // namespace

Result<KernelPlan> plan_reduce(const Block& body, const PlanContext& context) {
  const Operation* operation = find_only(body, is_reduction);
  if (!operation) return refuse("reduce", "the body does not have exactly one reduction");
  RTX_TRY(check_elementwise("reduce", body, operation));
  const Dim count = operation->result()->type.element_count();
  for (const Value* result : body.terminator()->operands()) {
    if (!(result->type.element_count() == count))
      return refuse("reduce", "a result is larger or smaller than the reduction's");
  }
  const bool narrow = fits_narrow_index(body, context.symbols);
  KernelPlan plan = KernelPlan::for_body("reduce", narrow ? "serial.i32" : "serial.i64", body);
  KernelWriter writer(!narrow, context.symbols);
  ReduceEmitter(writer, body, *operation).emit(plan);
  finish_launch(plan, writer, body);
  plan.flops = elementwise_flops(body) + operation->operand(0)->type.element_count();
  plan.bytes = traffic_bytes(body);
  return plan;
}

}  // namespace rtx::codegen
