// cumsum: one thread a row, in index order (or from the end). Sums are kept in f32 with compensation, f64 for f64 and
// int64 for integers.

#include "base/text.h"
#include "codegen/emit/c_types.h"
#include "codegen/plan_common.h"
#include "codegen/plan_kernel.h"

namespace rtx::codegen {
namespace {

bool is_cumsum(Op op) { return op == Op::cumsum; }

void emit_scan(KernelPlan& plan, KernelWriter& writer, const Block& body, const Operation& cumsum) {
  const Type& type = cumsum.result()->type;
  const size_t axis = static_cast<size_t>(cumsum.attributes.integer("axis"));
  const Dim length = type.shape[axis], inner = product(type.shape, axis + 1, type.shape.size());
  const Dim rows = product(type.shape, 0, axis) * inner;
  const bool exclusive = cumsum.attributes.boolean("exclusive"), reverse = cumsum.attributes.boolean("reverse");
  const DType sum_dtype = partial_dtype(type.dtype);
  const std::string_view sum_type = register_type(sum_dtype), index_type = writer.index_type();
  const bool whole = is_float(type.dtype);

  ElementEmitter emitter(writer, body);
  const std::string row = begin_thread_per_element(plan, writer, rows);
  const std::string n = writer.dim(length), step = writer.dim(inner);
  writer.line(concat(sum_type, " sum = ", whole ? float_literal(sum_dtype, 0) : "0", ";"));
  if (whole) writer.line(concat(sum_type, " lost = ", float_literal(sum_dtype, 0), ";"));
  writer.open(concat("for (", index_type, " k = 0; k < ", n, "; ++k) {"));
  emitter.push_scope();
  const std::string j = reverse ? writer.temporary(index_type, "i", concat(n, " - 1 - k")) : std::string("k");
  const std::string base = KernelWriter::multiply(KernelWriter::divide(row, step), n);
  const std::string index = writer.temporary(
      index_type, "i",
      KernelWriter::add(KernelWriter::multiply(KernelWriter::add(base, j), step), KernelWriter::remainder(row, step)));
  const std::string x = emitter.element(cumsum.operand(0), Position::at(index));
  auto store = [&] {
    const std::string y = writer.fresh("y");
    writer.line(
        concat("const ", register_type(type.dtype), " ", y, " = ", from_partial(writer, type.dtype, "sum"), ";"));
    emitter.bind(cumsum.result(), y);
    const auto& results = body.terminator()->operands();
    for (size_t i = 0; i < results.size(); ++i) {
      store_result(writer, i, results[i]->type.dtype, index, emitter.element(results[i], Position::at(index)));
    }
  };
  if (exclusive) store();
  if (whole) {
    writer.line(concat("const ", sum_type, " corrected = ", x, " - lost;"));
    writer.line(concat("const ", sum_type, " next = sum + corrected;"));
    writer.line("lost = (next - sum) - corrected;");
    writer.line("if (lost != lost) lost = 0;  // after an infinity");
    writer.line("sum = next;");
  } else {
    writer.line(concat("sum = (long long)((unsigned long long)sum + (unsigned long long)((long long)", x, "));"));
  }
  if (!exclusive) store();
  emitter.pop_scope();
  writer.close();
}

}  // namespace

Result<KernelPlan> plan_scan(const Block& body, const PlanContext& context) {
  const Operation* cumsum = find_only(body, is_cumsum);
  if (!cumsum) return refuse("scan", "the body does not have exactly one cumsum");
  RTX_TRY(check_elementwise("scan", body, cumsum));
  for (const Value* result : body.terminator()->operands()) {
    if (result->type.shape != cumsum->result()->type.shape)
      return refuse("scan", "a result has another shape than the scan");
  }
  const bool narrow = fits_narrow_index(body, context.symbols);
  KernelPlan plan = KernelPlan::for_body("scan", narrow ? "serial.i32" : "serial.i64", body);
  KernelWriter writer(!narrow, context.symbols);
  emit_scan(plan, writer, body, *cumsum);
  finish_launch(plan, writer, body);
  plan.flops = elementwise_flops(body) + cumsum->result()->type.element_count();
  plan.bytes = traffic_bytes(body);
  return plan;
}

}  // namespace rtx::codegen
