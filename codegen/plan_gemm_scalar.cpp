// The loop over k with fused multiply-adds: each thread holds `tile.m / groups_m` x `tile.n / groups_n` sums. The tiles
// of the next step come to registers while this one is computed.

#include "base/text.h"
#include "codegen/emit/c_types.h"
#include "codegen/emit/text_template.h"
#include "codegen/plan_gemm.h"

namespace rtx::codegen {
namespace {

constexpr std::string_view fetch_text =
    R"(// Elements [outer0, outer0 + outer) x [k0, k0 + depth) of an operand, those of this thread; zeros beyond its ends. With
// parts, the operand is cut into as many along `size`, and outer / parts elements from outer0 of each are taken.
template <bool k_last, int outer, int depth, int threads, int parts>
__device__ __forceinline__ void rtx_fetch($type$* to, const $type$* from, $index$ size, $index$ k, $index$ outer0,
                                          $index$ k0) {
#pragma unroll
  for (int i = 0; i < outer * depth / threads; ++i) {
    const int e = (int)threadIdx.x + i * threads;
    const int place = k_last ? e / depth : e % outer, part = parts > 1 ? place / (outer / parts) : 0;
    const $index$ in_part = outer0 + place - part * (outer / parts), at = in_part + part * (size / parts);
    const $index$ of_k = k0 + (k_last ? e % depth : e / outer);
    to[i] = in_part < size / parts && of_k < k ? from[k_last ? at * k + of_k : of_k * size + at] : 0;
  }
}
// The same part to its place in shared memory.
template <bool k_last, int outer, int depth, int threads>
__device__ __forceinline__ void rtx_put(const $type$* from, $type$ (*to)[outer + 4]) {
#pragma unroll
  for (int i = 0; i < outer * depth / threads; ++i) {
    const int e = (int)threadIdx.x + i * threads;
    to[k_last ? e % depth : e / outer][k_last ? e / depth : e % outer] = from[i];
  }
})";

constexpr std::string_view loop_text =
    R"(constexpr int threads = threads_m * threads_n, each_m = tile_m / threads_m, each_n = tile_n / threads_n, part_n = each_n / $parts$;
constexpr int run_m = each_m < 4 ? each_m : 4, run_n = part_n < 4 ? part_n : 4;
__shared__ __align__(16) $type$ shared_lhs[2][tile_k][tile_m + 4], shared_rhs[2][tile_k][tile_n + 4];
const int thread_row = (int)threadIdx.x / threads_n * run_m, thread_column = (int)threadIdx.x % threads_n * run_n;
auto tile_row = [&](int i) { return i / run_m * (threads_m * run_m) + thread_row + i % run_m; };
auto tile_column = [&](int j) { return j / run_n * (threads_n * run_n) + thread_column + j % run_n; };
$type$ sums[each_m][each_n] = {};
$type$ next_lhs[tile_m * tile_k / threads], next_rhs[tile_n * tile_k / threads];
const $index$ steps = (k + tile_k - 1) / tile_k;
auto fetch = [&]($index$ step) {
  rtx_fetch<$lhs_k_last$, tile_m, tile_k, threads, 1>(next_lhs, lhs, m, k, row0, step * tile_k);
  rtx_fetch<$rhs_k_last$, tile_n, tile_k, threads, $parts$>(next_rhs, rhs, n, k, column0, step * tile_k);
};
auto put = [&](int stage) {
  rtx_put<$lhs_k_last$, tile_m, tile_k, threads>(next_lhs, shared_lhs[stage]);
  rtx_put<$rhs_k_last$, tile_n, tile_k, threads>(next_rhs, shared_rhs[stage]);
};
if (steps > 0) {
  fetch(0);
  put(0);
}
__syncthreads();
for ($index$ step = 0; step < steps; ++step) {
  const int stage = (int)(step % 2);
  if (step + 1 < steps) fetch(step + 1);
#pragma unroll 4
  for (int depth = 0; depth < tile_k; ++depth) {
    $type$ x[each_m], y[each_n];
#pragma unroll
    for (int i = 0; i < each_m; ++i) x[i] = shared_lhs[stage][depth][tile_row(i)];
#pragma unroll
    for (int j = 0; j < each_n; ++j) y[j] = shared_rhs[stage][depth][tile_column(j)];
#pragma unroll
    for (int i = 0; i < each_m; ++i) {
#pragma unroll
      for (int j = 0; j < each_n; ++j) sums[i][j] = $fma$(x[i], y[j], sums[i][j]);
    }
  }
  if (step + 1 < steps) put(1 - stage);
  __syncthreads();
}
)";

}  // namespace

void emit_scalar_loop(KernelWriter& writer, const Product& product, const GemmTile& tile, size_t parts) {
  const std::string_view type = register_type(product.dtype), index = writer.index_type();
  writer.declare(fill(fetch_text, {{"type", type}, {"index", index}}));
  writer.line(concat("constexpr int tile_m = ", tile.m, ", tile_n = ", tile.n, ", tile_k = ", tile.k,
                     ", threads_m = ", tile.groups_m, ", threads_n = ", tile.groups_n, ";"));
  writer.lines(fill(loop_text, {{"type", type},
                                {"index", index},
                                {"parts", std::to_string(parts)},
                                {"lhs_k_last", product.transpose_lhs ? "false" : "true"},
                                {"rhs_k_last", product.transpose_rhs ? "true" : "false"},
                                {"fma", product.dtype == DType::f64 ? "fma" : "fmaf"}}));
}

}  // namespace rtx::codegen
