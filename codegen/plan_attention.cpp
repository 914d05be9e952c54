#include "base/text.h"
#include "codegen/attention_forms.h"
#include "codegen/plan_common.h"
#include "codegen/plan_kernel.h"

namespace rtx::codegen {
namespace {

// The share of the peak of tensor cores that long sequences reach; exponentials take their part.
constexpr int tensor_percent = 40;

}  // namespace

Result<KernelPlan> plan_attention(const Block& body, const PlanContext& context) {
  RTX_ASSIGN(const AttentionParts parts, find_attention_parts(body, context.symbols));
  const bool narrow = fits_narrow_index(body, context.symbols);
  KernelWriter writer(!narrow, context.symbols);
  KernelPlan plan = KernelPlan::for_body("attention", "", body);
  const bool on_tensor_cores = parts.dtype != DType::f32;
  const std::string tile =
      on_tensor_cores ? emit_tensor_attention(plan, writer, body, parts, tensor_tile_of(parts, context.symbols))
                      : emit_simt_attention(plan, writer, body, parts);
  plan.key.tile = concat(tile, narrow ? ".i32" : ".i64");
  finish_launch(plan, writer, body);
  // Two products, and for each score an exponential (8), a maximum and a sum.
  plan.flops = parts.batch * parts.kv_heads * parts.rows * parts.keys * Dim(2 * (parts.size + parts.value_size) + 10);
  plan.bytes = traffic_bytes(body);
  if (on_tensor_cores) {
    plan.unit = package::MathUnit::tensor;
    plan.percent = tensor_percent;
  }
  plan.considered.push_back({"tensor cores",
                             -1,
                             on_tensor_cores,
                             on_tensor_cores ? "16-bit elements, sums in f32" : "f32 would be rounded to TF32",
                             {}});
  return plan;
}

}  // namespace rtx::codegen
