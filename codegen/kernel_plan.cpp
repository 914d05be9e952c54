#include "codegen/kernel_plan.h"

#include "base/sha256.h"
#include "base/text.h"
#include "ir/text.h"

namespace rtx::codegen {
namespace {

// Raised when generated code changes, so that kernel caches forget what older generators made.
constexpr int generator_version = 1;

}  // namespace

std::string CacheKey::str() const { return concat(kind, "/", tile, "/", to_string(dtype), "/", code_sha256); }

std::string CacheKey::sha256() const { return sha256_hex(concat("rtx generator ", generator_version, "\n", str())); }

KernelPlan KernelPlan::for_body(std::string_view kind, std::string tile, const Block& body) {
  KernelPlan plan;
  plan.body = print_body(body);
  const Operation* results = body.terminator();
  plan.key.kind = kind;
  plan.key.tile = std::move(tile);
  plan.key.dtype = results->operand_count() > 0 ? results->operand(0)->type.dtype : DType::f32;
  plan.key.code_sha256 = sha256_hex(plan.body);
  if (plan.key.dtype == DType::f64) plan.unit = package::MathUnit::f64;
  plan.name = concat(kind, "_", plan.key.sha256().substr(0, 12));
  return plan;
}

void KernelPlan::add_code(std::string_view text) {
  key.code_sha256 = sha256_hex(concat(body, text));
  name = concat(key.kind, "_", key.sha256().substr(0, 12));
}

std::string KernelPlan::str() const {
  std::string text = concat("name: ", name, "\nkey: ", key.str(), "\ndeterminism: ", package::to_string(determinism),
                            "\nflops: ", flops.str(), "\nbytes: ", bytes.str(), "\nmath: ", package::to_string(unit),
                            ", ", percent, "% of peak\n");
  if (launch) {
    auto dim = [](const Dim& d) { return d.str(); };
    text += concat("grid: [", join(launch->grid, ", ", dim), "]\nblock: [",
                   join(launch->block, ", ", [](int n) { return n; }), "]\nshared bytes: ", launch->shared_bytes.str(),
                   "\nscalars: [", join(launch->scalars, ", ", dim), "]\n");
    if (launch->has_workspace()) text += concat("workspace bytes: ", launch->workspace_bytes.str(), "\n");
    if (launch->has_counters()) text += concat("counters: ", launch->counters.str(), "\n");
  }
  if (matmul) {
    text += concat("matmul: batch ", matmul->batch.str(), ", m ", matmul->m.str(), ", n ", matmul->n.str(), ", k ",
                   matmul->k.str(), matmul->transpose_lhs ? ", lhs transposed" : "",
                   matmul->transpose_rhs ? ", rhs transposed" : "", ", strides ", matmul->lhs_batch_stride.str(),
                   " and ", matmul->rhs_batch_stride.str(), ", ", to_string(matmul->dtype),
                   matmul->bias ? concat(", bias operand ", *matmul->bias) : "",
                   matmul->residual ? concat(", residual operand ", *matmul->residual) : "", "\n");
  }
  if (product_cost)
    text += concat("estimate: ", product_cost->own_ns, " ns, with cuBLASLt ", product_cost->library_ns, " ns\n");
  for (const Decision& decision : considered) text += concat("considered: ", decision.str(), "\n");
  return text;
}

}  // namespace rtx::codegen
