#include "codegen/attention_split.h"

#include <algorithm>

#include "base/text.h"
#include "codegen/emit/text_template.h"
#include "codegen/plan_common.h"

namespace rtx::codegen {
namespace {

constexpr std::string_view arrive_text = R"(__threadfence();  // the sums are there before they are counted
__syncthreads();
__shared__ unsigned arrived;
if (threadIdx.x == 0) arrived = atomicAdd(counters + row_group, 1u);
__syncthreads();
if (arrived != (unsigned)$count$ - 1) return;
__threadfence();
)";

constexpr std::string_view add_text = R"(float best = $lowest$;
for ($index$ i = 0; i < $count$; ++i) best = fmaxf(best, __ldcg(part_tops + (place + i * $rows$) * 2));
const float base = best == $lowest$ ? 0.0f : best;
float sum = 0.0f, total = 0.0f;
#pragma unroll 4
for ($index$ i = 0; i < $count$; ++i) {
  const long long part = place + i * $rows$;
  const float share = $share$;
  total += __ldcg(part_tops + part * 2 + 1) * share;
  sum += __ldcg(part_sums + part * $size$ + d) * share;
}
)";

}  // namespace

Dim SplitEmitter::parts_of(const AttentionParts& parts, const SymbolRanges& symbols) {
  if (parts.keys.upper_bound(symbols) <= keys) return 1;
  const Dim count = ceildiv(parts.keys, Dim(keys));
  return parts.keys.lower_bound(symbols) >= 1 ? count : max(count, Dim(1));
}

SplitEmitter::SplitEmitter(KernelWriter& writer, const AttentionParts& parts, AttentionEmitter& common, int row_tile,
                           int threads)
    : writer_(writer),
      parts_(parts),
      common_(common),
      count_(parts_of(parts, writer.symbols())),
      groups_(ceildiv(parts.rows, Dim(row_tile)) * parts.kv_heads * parts.batch),
      rows_(static_cast<int>(std::clamp<int64_t>(parts.rows.upper_bound(writer.symbols()), 1, row_tile))),
      threads_(threads) {}

void SplitEmitter::begin(LaunchPlan& launch) {
  if (!joins()) return;
  const Dim lines = groups_ * count_ * Dim(rows_);
  launch.workspace_bytes = lines * Dim(4 * (parts_.value_size + 2));
  launch.counters = groups_;
  // [row_group, part, row] of sums, and of maximum and total.
  writer_.line("float* const part_sums = (float*)workspace;");
  writer_.line(concat("float* const part_tops = part_sums + ", writer_.dim64(lines), " * ", parts_.value_size, ";"));
}

void SplitEmitter::store_quotient(const std::string& sum, const std::string& total) {
  common_.declare_query();
  writer_.line(concat("const float y = ", common_.guarded(concat(sum, " / ", total), total), ";"));
  store_result(writer_, 0, parts_.dtype, common_.index(parts_.out, "head", "query", "d"), "y");
}

void SplitEmitter::store(const std::string& sum, const std::string& top, const std::string& total) {
  if (!joins()) {
    writer_.line(concat("const ", writer_.index_type(), " row = tile_row + at;"));
    return store_quotient(sum, total);
  }
  writer_.line(
      concat("const long long part = ((long long)row_group * ", writer_.dim(count_), " + split) * ", rows_, " + at;"));
  writer_.line(concat("part_sums[part * ", parts_.value_size, " + d] = ", sum, ";"));
  writer_.open("if (d == 0) {");
  writer_.line(concat("part_tops[part * 2] = ", top, ";"));
  writer_.line(concat("part_tops[part * 2 + 1] = ", total, ";"));
  writer_.close();
}

void SplitEmitter::join() {
  if (!joins()) return;
  const std::string count = writer_.dim(count_), index(writer_.index_type());
  writer_.lines(fill(arrive_text, {{"count", count}}));
  writer_.open(concat("for (int e = (int)threadIdx.x; e < ", rows_ * parts_.value_size, "; e += ", threads_, ") {"));
  writer_.line(concat("const int at = e / ", parts_.value_size, ", d = e % ", parts_.value_size, ";"));
  writer_.line(concat("const ", index, " row = tile_row + at;"));
  writer_.line(concat("if (row >= ", writer_.dim(parts_.rows), ") break;"));
  writer_.line(concat("const long long place = (long long)row_group * ", count, " * ", rows_, " + at;"));
  writer_.lines(fill(add_text, {{"lowest", AttentionEmitter::lowest()},
                                {"index", index},
                                {"count", count},
                                {"rows", concat(rows_)},
                                {"size", concat(parts_.value_size)},
                                {"share", common_.weight("__ldcg(part_tops + part * 2)", "base")}}));
  store_quotient("sum", "total");
  writer_.close();
  writer_.line("if (threadIdx.x == 0) counters[row_group] = 0u;");
}

}  // namespace rtx::codegen
