// topk: one thread takes one element and counts the elements of its row that come before it; that is the element's
// place in the result. It stops once the place is past k, after about k * log(n / k) of n elements where they lie at
// random; rows that rise (fall, for the smallest) cost n * n. No memory beside operand and result.

#include "base/text.h"
#include "codegen/emit/c_types.h"
#include "codegen/plan_common.h"
#include "codegen/plan_kernel.h"

namespace rtx::codegen {
namespace {

bool is_topk(Op op) { return op == Op::topk; }

void emit_topk(KernelPlan& plan, KernelWriter& writer, const Block& body, const Operation& topk) {
  const Value* operand = topk.operand(0);
  const Shape& shape = operand->type.shape;
  const DType dtype = operand->type.dtype;
  const size_t axis = static_cast<size_t>(topk.attributes.integer("axis"));
  const Dim length = shape[axis], k = topk.attributes.dim("k"), inner = product(shape, axis + 1, shape.size());
  const Dim rows = product(shape, 0, axis) * inner;
  // Where k may pass the length, threads past it write the zeros there.
  const bool may_pass = (length - k).lower_bound(writer.symbols()) < 0;
  const std::string_view type = writer.index_type(), held = register_type(dtype);
  const auto& results = body.terminator()->operands();

  const std::string thread = begin_thread_per_element(plan, writer, rows * (may_pass ? max(length, k) : length));
  const std::string span = writer.dim(may_pass ? max(length, k) : length);
  const std::string n = writer.dim(length), step = writer.dim(inner), wanted = writer.dim(k);
  const std::string column = writer.temporary(type, "i", KernelWriter::remainder(thread, step));
  const std::string line = writer.temporary(type, "i", KernelWriter::divide(thread, step));
  const std::string j = writer.temporary(type, "i", KernelWriter::remainder(line, span));
  const std::string row = writer.temporary(type, "i", KernelWriter::divide(line, span));
  auto place_in = [&](const std::string& size, const std::string& at) {
    const std::string whole = KernelWriter::add(KernelWriter::multiply(row, size), at);
    return writer.temporary(type, "i", KernelWriter::add(KernelWriter::multiply(whole, step), column));
  };
  auto store = [&](const std::string& to, const std::string& value, const std::string& index) {
    for (size_t i = 0; i < results.size(); ++i) {
      const bool is_value = results[i] == topk.result(0);
      store_result(writer, i, results[i]->type.dtype, to, is_value ? value : index);
    }
  };
  if (may_pass) {
    writer.open(concat("if (", j, " >= ", n, ") {"));
    writer.line(concat("const ", held, " zero = 0;"));
    store(place_in(wanted, j), "zero", "0");
    writer.line("return;");
    writer.close();
  }

  ElementEmitter emitter(writer, body);
  const std::string x = emitter.element(operand, Position::at(place_in(n, j)));
  writer.line(concat(type, " place = 0;"));
  writer.open(concat("for (", type, " m = 0; m < ", n, " && place < ", wanted, "; ++m) {"));
  emitter.push_scope();
  const std::string y = emitter.element(operand, Position::at(place_in(n, "m")));
  const bool largest = topk.attributes.boolean("largest");
  // NaN counts as largest; of equal elements the first comes first.
  std::string before = concat(y, largest ? " > " : " < ", x), ties = concat(y, " == ", x);
  if (is_float(dtype)) {
    const std::string &over = largest ? y : x, &under = largest ? x : y;
    before = concat(before, " || (", over, " != ", over, " && ", under, " == ", under, ")");
    ties = concat("(", ties, " || (", y, " != ", y, " && ", x, " != ", x, "))");
  }
  writer.line(concat("if (", before, " || (", ties, " && m < ", j, ")) ++place;"));
  emitter.pop_scope();
  writer.close();
  writer.open(concat("if (place < ", wanted, ") {"));
  store(place_in(wanted, "place"), x, j);
  writer.close();
}

}  // namespace

Result<KernelPlan> plan_sort(const Block& body, const PlanContext& context) {
  const Operation* topk = find_only(body, is_topk);
  if (!topk) return refuse("sort", "the body does not have exactly one topk");
  RTX_TRY(check_elementwise("sort", body, topk));
  for (const Value* result : body.terminator()->operands()) {
    if (result->def() != topk) return refuse("sort", "a result is not one of topk's");
  }
  const bool narrow = fits_narrow_index(body, context.symbols);
  KernelPlan plan = KernelPlan::for_body("sort", narrow ? "count.i32" : "count.i64", body);
  KernelWriter writer(!narrow, context.symbols);
  emit_topk(plan, writer, body, *topk);
  finish_launch(plan, writer, body);
  const Type& type = topk->operand(0)->type;
  const size_t axis = static_cast<size_t>(topk->attributes.integer("axis"));
  plan.flops = elementwise_flops(body) + type.element_count() * type.shape[axis];
  plan.bytes = traffic_bytes(body);
  return plan;
}

}  // namespace rtx::codegen
