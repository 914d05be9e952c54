// scatter_nd, scatter_elements: one thread computes one element of the result. It walks the updates that may be for it
// (all tuples; or those of its line along the axis) and applies those whose index is its own, in index order: the same
// bits on every run, without atomics. The work is elements times updates, so that large scatters are slow.
//
// Without a reduction the walk goes from the last update to the first and ends at the first that fits.

#include "base/text.h"
#include "codegen/emit/c_types.h"
#include "codegen/plan_common.h"
#include "codegen/plan_kernel.h"

namespace rtx::codegen {
namespace {

bool is_scatter(Op op) { return spec(op).family == OpFamily::scatter; }

// The reduction over axes that combines alike.
Op reduction_op(const std::string& reduction) {
  return reduction == "mul"   ? Op::reduce_prod
         : reduction == "min" ? Op::reduce_min
         : reduction == "max" ? Op::reduce_max
                              : Op::reduce_sum;
}

class ScatterEmitter {
 public:
  ScatterEmitter(KernelWriter& writer, const Block& body, const Operation& scatter)
      : writer_(writer),
        body_(body),
        data_(scatter.operand(0)),
        indices_(scatter.operand(1)),
        updates_(scatter.operand(2)),
        scatter_(scatter),
        emitter_(writer, body),
        dtype_(data_->type.dtype),
        copies_(scatter.attributes.string("reduction") == "none") {}

  void emit(KernelPlan& plan) {
    const Shape& shape = data_->type.shape;
    const std::string index = begin_thread_per_element(plan, writer_, data_->type.element_count());
    coords_ = emitter_.coordinates(shape, Position::at(index));
    const std::string x = emitter_.element(data_, Position::at(index));
    const DType held = copies_ ? dtype_ : partial_dtype(dtype_);
    writer_.line(concat(register_type(held), " a = ", x, ";"));
    if (scatter_.is(Op::scatter_nd)) {
      emit_tuples(held);
    } else {
      emit_line(held);
    }
    const std::string y = copies_ ? std::string("a") : from_partial(writer_, dtype_, "a");
    writer_.line(concat("const ", register_type(dtype_), " y = ", y, ";"));
    emitter_.bind(scatter_.result(), "y");
    const auto& results = body_.terminator()->operands();
    for (size_t i = 0; i < results.size(); ++i) {
      store_result(writer_, i, results[i]->type.dtype, index, emitter_.element(results[i], Position::at(index)));
    }
  }

 private:
  // Every tuple of indices; the last axes of the update are those of the element.
  void emit_tuples(DType held) {
    const Shape& shape = indices_->type.shape;
    const size_t depth = static_cast<size_t>(shape.back().constant());
    const Dim tuples = product(shape, 0, shape.size() - 1), slice = product(data_->type.shape, depth, coords_.size());
    open_walk(tuples);
    std::vector<std::string> tests;
    for (size_t k = 0; k < depth; ++k) {
      const std::string at = KernelWriter::add(KernelWriter::multiply("j", concat(depth)), concat(k));
      tests.push_back(hits(writer_.temporary(writer_.index_type(), "i", at), k));
    }
    std::string inner = "0";
    for (size_t k = depth; k < coords_.size(); ++k) {
      inner = KernelWriter::add(KernelWriter::multiply(inner, writer_.dim(data_->type.shape[k])), coords_[k]);
    }
    const std::string from = KernelWriter::add(KernelWriter::multiply("j", writer_.dim(slice)), inner);
    apply(join(tests, " && "), writer_.temporary(writer_.index_type(), "i", from), held);
  }

  // The updates at the element's place on all axes but one.
  void emit_line(DType held) {
    const size_t axis = static_cast<size_t>(scatter_.attributes.integer("axis"));
    const Shape& shape = indices_->type.shape;
    std::vector<std::string> at = coords_, inside;
    at[axis] = "j";
    for (size_t k = 0; k < at.size(); ++k) {
      if (k == axis) continue;
      // Lines that the updates do not reach, where the axes are not of one length.
      if (!(shape[k] == data_->type.shape[k])) inside.push_back(concat(coords_[k], " < ", writer_.dim(shape[k])));
      if (shape[k].is(1)) at[k] = "0";
    }
    if (!inside.empty()) open(concat("if (", join(inside, " && "), ") {"));
    open_walk(shape[axis]);
    const std::string from = emitter_.linear(shape, Position::at(at));
    apply(hits(from, axis), from, held);
    if (!inside.empty()) close();
  }

  void open_walk(const Dim& count) {
    const std::string n = writer_.dim(count);
    const std::string_view type = writer_.index_type();
    open(copies_ ? concat("for (", type, " j = ", n, "; j-- > 0;) {")
                 : concat("for (", type, " j = 0; j < ", n, "; ++j) {"));
  }

  // Whether the element `at` of the indices, which wraps, is the place of this thread on the axis.
  std::string hits(const std::string& at, size_t axis) {
    const std::string index = emitter_.element(indices_, Position::at(at));
    const std::string length = writer_.dim64(data_->type.shape[axis]);
    return concat("(", index, " < 0 ? ", index, " + ", length, " : ", index, ") == ", coords_[axis]);
  }

  // Applies the update `from` under the test and closes the walk.
  void apply(const std::string& test, const std::string& from, DType held) {
    open(concat("if (", test, ") {"));
    const std::string update = emitter_.element(updates_, Position::at(from));
    if (copies_) {
      writer_.line(concat("a = ", update, ";"));
      writer_.line("break;");
    } else {
      writer_.line(concat("const ", register_type(held), " b = ", update, ";"));
      const Op op = reduction_op(scatter_.attributes.string("reduction"));
      writer_.line(concat("a = ", combination_of(writer_, op, dtype_).step, ";"));
    }
    close();
    close();
  }

  void open(std::string header) {
    writer_.open(std::move(header));
    emitter_.push_scope();
  }
  void close() {
    emitter_.pop_scope();
    writer_.close();
  }

  KernelWriter& writer_;
  const Block& body_;
  const Value *data_, *indices_, *updates_;
  const Operation& scatter_;
  ElementEmitter emitter_;
  DType dtype_;
  bool copies_;
  std::vector<std::string> coords_;  // of the element
};

}  // namespace

Result<KernelPlan> plan_scatter(const Block& body, const PlanContext& context) {
  const Operation* scatter = find_only(body, is_scatter);
  if (!scatter) return refuse("scatter", "the body does not have exactly one scatter");
  RTX_TRY(check_elementwise("scatter", body, scatter));
  const Type &data = scatter->operand(0)->type, &indices = scatter->operand(1)->type;
  for (const Value* result : body.terminator()->operands()) {
    if (!(result->type.shape == data.shape)) return refuse("scatter", "a result has another shape than the scatter");
  }
  const bool narrow = fits_narrow_index(body, context.symbols);
  KernelPlan plan = KernelPlan::for_body("scatter", narrow ? "walk.i32" : "walk.i64", body);
  KernelWriter writer(!narrow, context.symbols);
  ScatterEmitter(writer, body, *scatter).emit(plan);
  finish_launch(plan, writer, body);
  const size_t rank = indices.shape.size();
  const Dim walked = scatter->is(Op::scatter_nd)
                         ? product(indices.shape, 0, rank - 1)
                         : indices.shape[static_cast<size_t>(scatter->attributes.integer("axis"))];
  plan.flops = elementwise_flops(body) + data.element_count() * walked;
  plan.bytes = traffic_bytes(body);
  return plan;
}

}  // namespace rtx::codegen
