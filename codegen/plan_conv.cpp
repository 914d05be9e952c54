// Direct convolution: one thread an element of the result [batch, output, spatial...]. It adds the products of the
// channels of its group and of the window in index order, starting from the bias, in f32 (f64 for f64).

#include "base/text.h"
#include "codegen/emit/c_types.h"
#include "codegen/plan_common.h"
#include "codegen/plan_kernel.h"

namespace rtx::codegen {
namespace {

bool is_conv(Op op) { return op == Op::conv; }

void emit_conv(KernelPlan& plan, KernelWriter& writer, const Block& body, const Operation& conv) {
  const Type& type = conv.result()->type;
  const Shape &x_shape = conv.operand(0)->type.shape, &w_shape = conv.operand(1)->type.shape;
  const size_t spatial = x_shape.size() - 2;
  const auto &strides = conv.attributes.integers("strides"), &dilations = conv.attributes.integers("dilations");
  const auto& pads = conv.attributes.integers("pads");
  const int64_t groups = conv.attributes.integer("groups");
  const std::string_view sum_type = type.dtype == DType::f64 ? "double" : "float", index_type = writer.index_type();

  ElementEmitter emitter(writer, body);
  const std::string index = begin_thread_per_element(plan, writer, type.element_count());
  const std::vector<std::string> out = emitter.coordinates(type.shape, Position::at(index));
  const std::string bias = conv.operand_count() > 2 ? emitter.element(conv.operand(2), Position::at({out[1]}))
                                                    : float_literal(type.dtype, 0);
  writer.line(concat(sum_type, " sum = ", bias, ";"));
  // The first input channel of the group that output channel out[1] belongs to.
  std::string first_channel = "0";
  if (groups > 1) {
    const std::string outputs_per_group = concat(w_shape[0].constant() / groups);
    first_channel = writer.temporary(
        index_type, "i",
        KernelWriter::multiply(KernelWriter::divide(out[1], outputs_per_group), writer.dim(w_shape[1])));
  }
  auto open_loop = [&](const std::string& name, const Dim& length) {
    writer.open(concat("for (", index_type, " ", name, " = 0; ", name, " < ", writer.dim(length), "; ++", name, ") {"));
    emitter.push_scope();
  };
  open_loop("c", w_shape[1]);
  std::vector<std::string> x_at = {out[0], writer.temporary(index_type, "i", KernelWriter::add(first_channel, "c"))};
  std::vector<std::string> w_at = {out[1], "c"};
  for (size_t axis = 0; axis < spatial; ++axis) {
    const std::string k = concat("k", axis);
    open_loop(k, w_shape[2 + axis]);
    std::string from = KernelWriter::add(KernelWriter::multiply(out[2 + axis], concat(strides[axis])),
                                         KernelWriter::multiply(k, concat(dilations[axis])));
    if (pads[axis] != 0) from = concat(from, " - ", pads[axis]);
    from = writer.temporary(index_type, "i", from);
    if (pads[axis] != 0 || pads[spatial + axis] != 0) {
      writer.line(concat("if (", from, " < 0 || ", from, " >= ", writer.dim(x_shape[2 + axis]), ") continue;"));
    }
    x_at.push_back(from);
    w_at.push_back(k);
  }
  const std::string x = emitter.element(conv.operand(0), Position::at(x_at));
  const std::string w = emitter.element(conv.operand(1), Position::at(w_at));
  writer.line(concat("sum += ", x, " * ", w, ";"));
  for (size_t i = 0; i < spatial + 1; ++i) {
    emitter.pop_scope();
    writer.close();
  }
  emitter.bind(conv.result(),
               writer.temporary(register_type(type.dtype), "v", round_expression(writer, type.dtype, "sum")));
  const auto& results = body.terminator()->operands();
  for (size_t i = 0; i < results.size(); ++i) {
    store_result(writer, i, results[i]->type.dtype, index, emitter.element(results[i], Position::at(index)));
  }
}

}  // namespace

Result<KernelPlan> plan_conv(const Block& body, const PlanContext& context) {
  const Operation* conv = find_only(body, is_conv);
  if (!conv) return refuse("conv", "the body does not have exactly one convolution");
  RTX_TRY(check_elementwise("conv", body, conv));
  const Dim count = conv->result()->type.element_count();
  for (const Value* result : body.terminator()->operands()) {
    if (!(result->type.element_count() == count))
      return refuse("conv", "a result is larger or smaller than the convolution's");
  }
  const bool narrow = fits_narrow_index(body, context.symbols);
  KernelPlan plan = KernelPlan::for_body("conv", narrow ? "direct.i32" : "direct.i64", body);
  KernelWriter writer(!narrow, context.symbols);
  emit_conv(plan, writer, body, *conv);
  finish_launch(plan, writer, body);
  const Shape& w_shape = conv->operand(1)->type.shape;
  plan.flops = elementwise_flops(body) + Dim(2) * count * product(w_shape, 1, w_shape.size());
  plan.bytes = traffic_bytes(body);
  return plan;
}

}  // namespace rtx::codegen
