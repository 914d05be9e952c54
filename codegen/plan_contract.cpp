// A float product alone is a call of cuBLASLt, which is tuned for each GPU but promises equal bits only from run to
// run; with a bias and a residual too, where that is estimated to be faster. With anything else done to its elements,
// or where results must not depend on the batch, it is a kernel of our own.

#include "base/text.h"
#include "codegen/emit/c_types.h"
#include "codegen/plan_common.h"
#include "codegen/plan_gemm.h"
#include "codegen/plan_kernel.h"
#include "codegen/product_cost.h"
#include "codegen/tuning_table.h"

namespace rtx::codegen {
namespace {

bool is_matmul(Op op) { return op == Op::matmul; }

bool is_plain(const Block& body) { return body.size() == 2; }

bool library_is_faster(const Block& body, const Product& product, const SymbolRanges& symbols) {
  const std::optional<int64_t> own = estimate_ns(own_launches(body, product), symbols);
  const std::optional<int64_t> library = estimate_ns(library_call(body, product), symbols);
  return own && library && *library < *own;
}

KernelPlan plan_library_call(const Block& body, const Product& product, const LibraryEpilogue& epilogue) {
  KernelPlan plan = KernelPlan::for_body("contract", "cublaslt", body);
  plan.determinism = package::Determinism::run_to_run;
  plan.flops = product.flops();
  plan.bytes = traffic_bytes(body);
  MatmulPlan call;
  call.batch = product.batch;
  call.m = product.m;
  call.n = product.n;
  call.k = product.k;
  call.transpose_lhs = product.transpose_lhs;
  call.transpose_rhs = product.transpose_rhs;
  call.lhs_batch_stride = product.lhs_stride;
  call.rhs_batch_stride = product.rhs_stride;
  call.dtype = product.dtype;
  call.bias = epilogue.bias;
  call.residual = epilogue.residual;
  plan.matmul = call;
  plan.unit = unit_of_product(product.dtype);
  plan.percent = library_percent;
  plan.considered = {
      {"cublaslt", -1, true, is_plain(body) ? "a product alone" : "it adds bias and residual itself", {}},
      {"own kernel", -1, false, "it reaches less of the peak", own_launches(body, product)}};
  return plan;
}

// Integers: one thread an element of the result; the sum wraps, in the order of k.
Result<KernelPlan> plan_integer_product(const Block& body, const Operation& matmul, const PlanContext& context) {
  RTX_ASSIGN(const Epilogue epilogue, epilogue_of(body, matmul));
  if (epilogue.parts.size() > 1) return refuse("contract", "integer products are not cut into parts");
  const Type& type = matmul.result()->type;
  const Shape& lhs = matmul.operand(0)->type.shape;
  const Dim k = lhs[lhs.size() - (matmul.attributes.boolean("transpose_lhs") ? 2 : 1)];
  const bool narrow = fits_narrow_index(body, context.symbols);
  KernelPlan plan = KernelPlan::for_body("contract", narrow ? "serial.i32" : "serial.i64", body);
  KernelWriter writer(!narrow, context.symbols);
  ElementEmitter emitter(writer, body);
  const std::string index = begin_thread_per_element(plan, writer, type.element_count());
  const std::vector<std::string> coords = emitter.coordinates(type.shape, Position::at(index));
  const size_t rank = coords.size();
  writer.line("long long sum = 0;");
  writer.open(concat("for (", writer.index_type(), " k = 0; k < ", writer.dim(k), "; ++k) {"));
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
  plan.flops = Dim(2) * type.element_count() * k;
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
  RTX_ASSIGN(const Product product, product_of(*matmul));
  const TuningEntry* tuned = nullptr;
  if (context.tuning) {
    RTX_ASSIGN(tuned, context.tuning->find(product, context.symbols));
  }
  if (tuned && tuned->plan != "cublaslt") return plan_gemm(body, *matmul, product, context, tuned);
  const bool free = context.determinism < package::Determinism::batch_invariant;
  if (tuned && !free) {
    return refuse("contract", concat("the tuning table wants cublaslt at ", tuned->place,
                                     ", which promises equal bits from run to run only"));
  }
  const std::optional<LibraryEpilogue> epilogue = library_epilogue(body, *matmul, product, context.symbols);
  if (tuned && !epilogue) return refuse("contract", "the tuning table wants cublaslt");
  const bool by_library = free && epilogue && (is_plain(body) || library_is_faster(body, product, context.symbols));
  if (!tuned && !by_library) return plan_gemm(body, *matmul, product, context);
  KernelPlan plan = plan_library_call(body, product, *epilogue);
  if (tuned) plan.considered[0].reason = plan.considered[1].reason = concat("tuning table, ", tuned->place);
  return plan;
}

}  // namespace rtx::codegen
