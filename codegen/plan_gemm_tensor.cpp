// The loop over k on tensor cores. Tiles of both operands come to shared memory by asynchronous copies, `stages` deep.
// They lie there as they lie in memory, rows of chunks of 8 elements, with the chunks of each row exchanged so that 8
// neighbouring rows of one chunk fall into different banks.

#include "base/text.h"
#include "codegen/emit/text_template.h"
#include "codegen/plan_gemm.h"

namespace rtx::codegen {
namespace {

// A tile of a matrix whose rows do not all start at a multiple of 16 bytes is copied element by element.
constexpr std::string_view load_text =
    R"(// The tile at (row0, column0) of a matrix [height, length]; zeros beyond its ends. With parts, the matrix is cut into
// as many along its columns, and the tile holds the columns at column0 of each.
template <int rows, int columns, int threads, int parts>
__device__ __forceinline__ void rtx_load_tile(unsigned short* to, const unsigned short* from, $index$ height,
                                              $index$ length, $index$ row0, $index$ column0) {
  constexpr int chunks = columns / 8, all = rows * chunks, part_chunks = chunks / parts;
  const $index$ part_length = length / parts;
#pragma unroll
  for (int i = 0; i < (all + threads - 1) / threads; ++i) {
    const int c = (int)threadIdx.x + i * threads;
    if (all % threads != 0 && c >= all) break;
    const int chunk = c % chunks;
    const $index$ row = row0 + c / chunks, column = column0 + chunk % part_chunks * 8;
    unsigned short* const place = to + rtx_place<chunks>(c / chunks, chunk) * 8;
    const bool inside = row < height && column < part_length;
    const unsigned short* const place_of_chunk =
        inside ? from + (row * length + chunk / part_chunks * part_length + column) : from;
    if (part_length % 8 == 0) {
      rtx_copy_async(place, place_of_chunk, inside ? 16 : 0);
    } else {
      for (int e = 0; e < 8; ++e) place[e] = inside && column + e < part_length ? place_of_chunk[e] : 0;
    }
  }
})";

constexpr std::string_view loop_text =
    R"(constexpr int threads = 32 * warps_m * warps_n, tile_pitch = tile_n + 8, part_n = tile_n / $parts$;
constexpr int parts_m = tile_m / warps_m / 16, parts_n = tile_n / warps_n / 8;
constexpr int lhs_elements = tile_m * tile_k, stage_elements = lhs_elements + tile_n * tile_k;
__shared__ __align__(16) unsigned short shared[stages * stage_elements];
const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
const int warp_row = warp / warps_n * (tile_m / warps_m), warp_column = warp % warps_n * (tile_n / warps_n);
float sums[parts_m][parts_n][4] = {};
const $index$ steps = (k + tile_k - 1) / tile_k;
auto load = [&]($index$ step) {
  unsigned short* const stage = shared + (int)(step % stages) * stage_elements;
  $load_lhs$;
  $load_rhs$;
};
#pragma unroll
for (int step = 0; step < stages - 1; ++step) {
  if (step < steps) load(step);
  rtx_copy_commit();
}
for ($index$ step = 0; step < steps; ++step) {
  rtx_copy_wait<stages - 2>();
  __syncthreads();
  if (step + stages - 1 < steps) load(step + stages - 1);
  rtx_copy_commit();
  const unsigned short* const x = shared + (int)(step % stages) * stage_elements;
  const unsigned short* const y = x + lhs_elements;
#pragma unroll
  for (int depth = 0; depth < tile_k; depth += 16) {
    unsigned a[parts_m][4], b[parts_n / 2][4];
#pragma unroll
    for (int i = 0; i < parts_m; ++i) {
      $fragment_lhs$;
    }
#pragma unroll
    for (int j = 0; j < parts_n / 2; ++j) {
      $fragment_rhs$;
    }
#pragma unroll
    for (int i = 0; i < parts_m; ++i) {
#pragma unroll
      for (int j = 0; j < parts_n; ++j) $mma$(sums[i][j], a[i], b[j / 2] + j % 2 * 2);
    }
  }
}
__syncthreads();
unsigned short* const tile = shared;
#pragma unroll
for (int i = 0; i < parts_m; ++i) {
#pragma unroll
  for (int j = 0; j < parts_n; ++j) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int row = warp_row + i * 16 + lane / 4 + e / 2 * 8, column = warp_column + j * 8 + lane % 4 * 2 + e % 2;
      tile[row * tile_pitch + column] = $round$(sums[i][j][e]);
    }
  }
}
__syncthreads();
)";

// Statements; rows of a tile of [n, k] are the columns of the product.
std::string load_rhs(bool k_last, size_t parts) {
  if (!k_last) {
    return concat("rtx_load_tile<tile_k, tile_n, threads, ", parts,
                  ">(stage + lhs_elements, rhs, k, n, step * tile_k, column0)");
  }
  if (parts == 1) {
    return "rtx_load_tile<tile_n, tile_k, threads, 1>(stage + lhs_elements, rhs, n, k, column0, step * tile_k)";
  }
  return concat("for (int p = 0; p < ", parts,
                "; ++p)\n    rtx_load_tile<part_n, tile_k, threads, 1>(stage + lhs_elements",
                " + p * part_n * tile_k, rhs + p * (n / ", parts, ") * k, n / ", parts, ", k, column0, step * tile_k)");
}

}  // namespace

void emit_tensor_core_loop(KernelWriter& writer, const Product& product, const GemmTile& tile, size_t parts) {
  for (const char* name : {"rtx_load_tiles", "rtx_load_tiles_transposed", "rtx_copy_async", "rtx_copy_commit",
                           "rtx_copy_wait", "rtx_place"})
    writer.call(name);
  writer.declare(fill(load_text, {{"index", writer.index_type()}}));
  writer.line(concat("constexpr int tile_m = ", tile.m, ", tile_n = ", tile.n, ", tile_k = ", tile.k,
                     ", warps_m = ", tile.groups_m, ", warps_n = ", tile.groups_n, ", stages = ", tile.stages, ";"));
  // A tile has rows along its outer axis, or along k where k is not the last axis in memory. Of the four 8 x 8 tiles of
  // a load, 0 and 1 are neighbours along m for lhs, along k for rhs.
  const bool lhs_k_last = !product.transpose_lhs, rhs_k_last = product.transpose_rhs;
  writer.lines(fill(
      loop_text,
      {{"index", writer.index_type()},
       {"parts", std::to_string(parts)},
       {"load_lhs", lhs_k_last ? "rtx_load_tile<tile_m, tile_k, threads, 1>(stage, lhs, m, k, row0, step * tile_k)"
                               : "rtx_load_tile<tile_k, tile_m, threads, 1>(stage, lhs, k, m, step * tile_k, row0)"},
       {"load_rhs", load_rhs(rhs_k_last, parts)},
       {"fragment_lhs", lhs_k_last
                            ? "const int row = warp_row + i * 16 + lane % 16, chunk = depth / 8 + lane / 16;\n"
                              "      rtx_load_tiles(a[i], x + rtx_place<tile_k / 8>(row, chunk) * 8)"
                            : "const int row = depth + lane / 16 * 8 + lane % 8;\n"
                              "      const int chunk = (warp_row + i * 16) / 8 + lane / 8 % 2;\n"
                              "      rtx_load_tiles_transposed(a[i], x + rtx_place<tile_m / 8>(row, chunk) * 8)"},
       {"fragment_rhs", rhs_k_last
                            ? "const int row = warp_column + j * 16 + lane / 16 * 8 + lane % 8;\n"
                              "      const int chunk = depth / 8 + lane / 8 % 2;\n"
                              "      rtx_load_tiles(b[j], y + rtx_place<tile_k / 8>(row, chunk) * 8)"
                            : "const int row = depth + lane % 16, chunk = (warp_column + j * 16) / 8 + lane / 16;\n"
                              "      rtx_load_tiles_transposed(b[j], y + rtx_place<tile_n / 8>(row, chunk) * 8)"},
       {"mma", writer.call(concat("rtx_mma_", to_string(product.dtype)))},
       {"round", writer.call(concat("rtx_f32_to_", to_string(product.dtype)))}}));
}

}  // namespace rtx::codegen
