// Float products are calls of cuBLASLt. Batch axes collapse: a right operand without batch turns the left one's batch
// into rows; an operand whose batch is 1 is reused (stride 0); equal batches step through both. Other broadcasts are
// refused: form_fusions materialises them first.

#include "base/text.h"
#include "codegen/emit/c_types.h"
#include "codegen/plan_common.h"
#include "codegen/plan_kernel.h"

namespace rtx::codegen {
namespace {

bool is_matmul(Op op) { return op == Op::matmul; }

struct Matrices {
  Dim m, n, k;
  Dim lhs_batch, rhs_batch, batch;
};

Matrices matrices_of(const Operation& matmul) {
  const Shape &lhs = matmul.operand(0)->type.shape, &rhs = matmul.operand(1)->type.shape;
  const Shape& out = matmul.result()->type.shape;
  Matrices result;
  result.m = out[out.size() - 2];
  result.n = out[out.size() - 1];
  result.k = lhs[lhs.size() - (matmul.attributes.boolean("transpose_lhs") ? 2 : 1)];
  result.lhs_batch = product(lhs, 0, lhs.size() - 2);
  result.rhs_batch = product(rhs, 0, rhs.size() - 2);
  result.batch = product(out, 0, out.size() - 2);
  return result;
}

Result<KernelPlan> plan_library_call(const Block& body, const Operation& matmul) {
  const Value *lhs = matmul.operand(0), *rhs = matmul.operand(1);
  const bool plain = body.size() == 2 && body.argument_count() == 2 && lhs == body.argument(0) &&
                     rhs == body.argument(1) && body.terminator()->operand_count() == 1;
  if (!plain) return refuse("contract", "the body is more than one product of its two operands");
  Matrices sizes = matrices_of(matmul);
  if (!(sizes.lhs_batch == sizes.batch) && !sizes.lhs_batch.is(1))
    return refuse("contract", "the batch of lhs broadcasts in part");
  if (!(sizes.rhs_batch == sizes.batch) && !sizes.rhs_batch.is(1))
    return refuse("contract", "the batch of rhs broadcasts in part");

  KernelPlan plan = KernelPlan::for_body("contract", "cublaslt", body);
  plan.determinism = package::Determinism::run_to_run;
  plan.flops = Dim(2) * sizes.batch * sizes.m * sizes.n * sizes.k;
  plan.bytes = traffic_bytes(body);
  MatmulPlan call;
  call.transpose_lhs = matmul.attributes.boolean("transpose_lhs");
  call.transpose_rhs = matmul.attributes.boolean("transpose_rhs");
  call.dtype = matmul.result()->type.dtype;
  call.n = sizes.n;
  call.k = sizes.k;
  if (sizes.rhs_batch.is(1) && !call.transpose_lhs) {
    call.batch = 1;
    call.m = sizes.lhs_batch * sizes.m;
  } else {
    call.batch = sizes.batch;
    call.m = sizes.m;
    call.lhs_batch_stride = sizes.lhs_batch.is(1) ? Dim(0) : sizes.m * sizes.k;
    call.rhs_batch_stride = sizes.rhs_batch.is(1) ? Dim(0) : sizes.k * sizes.n;
  }
  plan.matmul = call;
  return plan;
}

// Integers: one thread an element of the result; the sum wraps, in the order of k.
Result<KernelPlan> plan_integer_product(const Block& body, const Operation& matmul, const PlanContext& context) {
  RTX_TRY(check_elementwise("contract", body, &matmul));
  const Type& type = matmul.result()->type;
  for (const Value* result : body.terminator()->operands()) {
    if (!(result->type.element_count() == type.element_count())) return refuse("contract", "a result has another size");
  }
  const Matrices sizes = matrices_of(matmul);
  const bool narrow = fits_narrow_index(body, context.symbols);
  KernelPlan plan = KernelPlan::for_body("contract", narrow ? "serial.i32" : "serial.i64", body);
  KernelWriter writer(!narrow, context.symbols);
  ElementEmitter emitter(writer, body);
  const std::string index = begin_thread_per_element(plan, writer, type.element_count());
  const std::vector<std::string> coords = emitter.coordinates(type.shape, Position::at(index));
  const size_t rank = coords.size();
  writer.line("long long sum = 0;");
  writer.open(concat("for (", writer.index_type(), " k = 0; k < ", writer.dim(sizes.k), "; ++k) {"));
  emitter.push_scope();
  auto element = [&](size_t operand, bool transposed, const std::string& outer) {
    const Shape& shape = matmul.operand(operand)->type.shape;
    std::vector<std::string> at;
    for (size_t axis = 0; axis + 2 < shape.size(); ++axis) {
      at.push_back(shape[axis].is(1) ? "0" : coords[rank - shape.size() + axis]);
    }
    const bool k_last = (operand == 0) != transposed;
    at.push_back(k_last ? outer : "k");
    at.push_back(k_last ? "k" : outer);
    return emitter.element(matmul.operand(operand), Position::at(at));
  };
  const std::string x = element(0, matmul.attributes.boolean("transpose_lhs"), coords[rank - 2]);
  const std::string y = element(1, matmul.attributes.boolean("transpose_rhs"), coords[rank - 1]);
  writer.line(concat("sum = (long long)((unsigned long long)sum + (unsigned long long)((long long)", x,
                     ") * (unsigned long long)((long long)", y, "));"));
  emitter.pop_scope();
  writer.close();
  emitter.bind(matmul.result(),
               writer.temporary(register_type(type.dtype), "v", from_partial(writer, type.dtype, "sum")));
  const auto& results = body.terminator()->operands();
  for (size_t i = 0; i < results.size(); ++i) {
    store_result(writer, i, results[i]->type.dtype, index, emitter.element(results[i], Position::at(index)));
  }
  finish_launch(plan, writer, body);
  plan.flops = Dim(2) * sizes.batch * sizes.m * sizes.n * sizes.k;
  plan.bytes = traffic_bytes(body);
  return plan;
}

}  // namespace

Result<KernelPlan> plan_contract(const Block& body, const PlanContext& context) {
  const Operation* matmul = find_only(body, is_matmul);
  if (!matmul) return refuse("contract", "the body does not have exactly one matmul");
  const DType dtype = matmul->result()->type.dtype;
  if (!is_float(dtype)) return plan_integer_product(body, *matmul, context);
  if (!float_dtype(dtype)) return refuse("contract", concat("no product of ", to_string(dtype)));
  return plan_library_call(body, *matmul);
}

}  // namespace rtx::codegen
