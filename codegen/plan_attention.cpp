#include "base/text.h"
#include "codegen/attention_forms.h"
#include "codegen/attention_split.h"
#include "codegen/plan_common.h"
#include "codegen/plan_kernel.h"
#include "codegen/representative_values.h"

namespace rtx::codegen {
namespace {

// The share of the peak of tensor cores that long sequences reach; exponentials take their part.
constexpr int tensor_percent = 40;
// Rows of a kv head that are always few, and that are where blocks of all keys would leave most of a GPU idle.
constexpr int64_t few_rows = 16, most_few_rows = 64;
constexpr int64_t few_blocks = 66;

// Whether the keys of a row come in parts, by what is known of the sizes and by those that are planned for.
Decision split_decision(const AttentionParts& parts, const SymbolRanges& symbols) {
  Decision decision = {concat("parts of ", SplitEmitter::keys, " keys"), -1, true, "", {}};
  if (parts.rows.upper_bound(symbols) <= few_rows) {
    decision.reason = concat("a kv head has at most ", few_rows, " rows");
    return decision;
  }
  const SymbolValues sizes = representative_values(symbols);
  const Result<int64_t> rows = parts.rows.evaluate(sizes), keys = parts.keys.evaluate(sizes),
                        heads = (parts.batch * parts.kv_heads).evaluate(sizes);
  decision.chosen =
      rows && keys && heads &&
      (*rows <= few_rows || (*rows <= most_few_rows && *heads <= few_blocks && *keys > SplitEmitter::keys));
  decision.reason = rows ? concat("planned for ", *rows, " rows a kv head") : "the number of rows is not known";
  return decision;
}

}  // namespace

Result<KernelPlan> plan_attention(const Block& body, const PlanContext& context) {
  RTX_ASSIGN(const AttentionParts parts, find_attention_parts(body, context.symbols));
  const bool narrow = fits_narrow_index(body, context.symbols);
  KernelWriter writer(!narrow, context.symbols);
  KernelPlan plan = KernelPlan::for_body("attention", "", body);
  const bool on_tensor_cores = parts.dtype != DType::f32;
  const Decision split = split_decision(parts, context.symbols);
  std::string tile;
  if (on_tensor_cores) {
    tile = emit_tensor_attention(plan, writer, body, parts, tensor_tile_of(parts, context.symbols, split.chosen, writer.wide()));
    plan.unit = package::MathUnit::tensor;
    plan.percent = tensor_percent;
  } else {
    tile = emit_simt_attention(plan, writer, body, parts, split.chosen);
  }
  plan.key.tile = concat(tile, narrow ? ".i32" : ".i64");
  finish_launch(plan, writer, body);
  // Two products, and for each score an exponential (8), a maximum and a sum.
  plan.flops = parts.batch * parts.kv_heads * parts.rows * parts.keys * Dim(2 * (parts.size + parts.value_size) + 10);
  plan.bytes = traffic_bytes(body);
  plan.considered.push_back({"tensor cores",
                             -1,
                             on_tensor_cores,
                             on_tensor_cores ? "16-bit elements, sums in f32" : "f32 would be rounded to TF32",
                             {}});
  plan.considered.push_back(split);
  return plan;
}

}  // namespace rtx::codegen
