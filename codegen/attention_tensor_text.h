// The fixed parts of an attention kernel on tensor cores; see attention_tensor.cpp.
#pragma once

#include <string_view>

namespace rtx::codegen::attention_text {

inline constexpr std::string_view begin_text =
    R"(constexpr int row_parts = $row_parts$, key_tile = $key_tile$, warps = $warps$, threads = 32 * warps;
constexpr int key_part = $key_part$;  // keys of a tile that a warp has
constexpr int depth = $depth$, width = $width$, k_line = $k_line$, v_line = $v_line$;  // of q and k, of v; in memory
$shared$;
const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
const int warp_row = $warp_row$, warp_key = $warp_key$;
const int line = warp_row + lane / 4, pair = lane % 4 * 2;
// Where this thread finds its line of the first 16 x 16 elements.
const int q_first = $q_at$ + rtx_place<depth / 8>(warp_row + lane % 16, lane / 16) * 8;
const int k_first = rtx_place<depth / 8>(lane / 16 * 8 + lane % 8, lane / 8 % 2) * 8 + warp_key * k_line;
const int v_first = rtx_place<width / 8>(lane % 16, lane / 16) * 8 + warp_key * v_line;
)";

// An exchange of chunks changes three bits of their number at most.
inline constexpr std::string_view along_text =
    R"(// From the place of a chunk, the first or second of its row, to that of the one 16 * step elements further.
template <int chunks>
__device__ __forceinline__ int rtx_along(int place, int step) {
  if (chunks % 8 == 0) return (place ^ step % 4 * 16) + step / 4 * 64;
  return chunks == 4 ? place ^ step * 16 : place + step * 16;
})";

inline constexpr std::string_view registers_text = R"(float acc[row_parts][width / 8][4] = {};
float top[2 * row_parts], total[2 * row_parts];
#pragma unroll
for (int r = 0; r < 2 * row_parts; ++r) {
  top[r] = $lowest$;
  total[r] = 0.0f;
}
)";

inline constexpr std::string_view load_q_text = R"(#pragma unroll
for (int p = 0; p < row_parts; ++p) {
#pragma unroll
  for (int d = 0; d < depth / 16; ++d) {
    rtx_load_tiles(q[p][d], shared + rtx_along<depth / 8>(q_first, d) + p * 16 * k_line);
  }
}
)";

inline constexpr std::string_view keys_text = R"(float s[row_parts][key_part / 8][4] = {};
const int k_now = k_first + stage * $k_tile$;
#pragma unroll$steps$
for (int d = 0; d < depth / 16; ++d) {
$load_q$#pragma unroll
  for (int n = 0; n < key_part / 16; ++n) {
    unsigned k[4];
    rtx_load_tiles(k, shared + rtx_along<depth / 8>(k_now, d) + n * 16 * k_line);
#pragma unroll
    for (int p = 0; p < row_parts; ++p) {
      $mma$(s[p][2 * n], q[p]$at$, k);
      $mma$(s[p][2 * n + 1], q[p]$at$, k + 2);
    }
  }
}
)";
inline constexpr std::string_view load_q_step_text = R"(  unsigned q[row_parts][4];
#pragma unroll
  for (int p = 0; p < row_parts; ++p) {
    rtx_load_tiles(q[p], shared + rtx_along<depth / 8>(q_first, d) + p * 16 * k_line);
  }
)";

inline constexpr std::string_view weigh_text = R"(#pragma unroll
for (int r = 0; r < 2 * row_parts; ++r) {
  float best = top[r];
#pragma unroll
  for (int n = 0; n < key_part / 8; ++n) best = fmaxf(best, fmaxf(s[r / 2][n][r % 2 * 2], s[r / 2][n][r % 2 * 2 + 1]));
  best = fmaxf(best, __shfl_xor_sync(0xffffffffu, best, 1));
  best = fmaxf(best, __shfl_xor_sync(0xffffffffu, best, 2));
  const float base = best == $lowest$ ? 0.0f : best;
  const float fade = $fade$;
  float sum = 0.0f;
#pragma unroll
  for (int n = 0; n < key_part / 8; ++n) {
#pragma unroll
    for (int e = r % 2 * 2; e < r % 2 * 2 + 2; ++e) {
      s[r / 2][n][e] = $weight$;
      sum += s[r / 2][n][e];
    }
  }
  top[r] = best;
  total[r] = total[r] * fade + sum;
#pragma unroll
  for (int n = 0; n < width / 8; ++n) {
    acc[r / 2][n][r % 2 * 2] *= fade;
    acc[r / 2][n][r % 2 * 2 + 1] *= fade;
  }
}
)";

inline constexpr std::string_view values_text = R"(const int v_now = v_first + $v_now$;
#pragma unroll
for (int n = 0; n < key_part / 16; ++n) {
  unsigned w[row_parts][4];
#pragma unroll
  for (int p = 0; p < row_parts; ++p) {
#pragma unroll
    for (int i = 0; i < 4; ++i) w[p][i] = $pack$(s[p][2 * n + i / 2][i % 2 * 2], s[p][2 * n + i / 2][i % 2 * 2 + 1]);
  }
#pragma unroll
  for (int d = 0; d < width / 16; ++d) {
    unsigned v[4];
    rtx_load_tiles_transposed(v, shared + rtx_along<width / 8>(v_now, d) + n * 16 * v_line);
#pragma unroll
    for (int p = 0; p < row_parts; ++p) {
      $mma$(acc[p][2 * d], w[p], v);
      $mma$(acc[p][2 * d + 1], w[p], v + 2);
    }
  }
}
)";

// The warps' sums of the same rows, and of each row maximum and total. Lines are 8 longer so that the lines of a store
// fall into different banks.
inline constexpr std::string_view leave_text = R"(constexpr int sum_line = width + 8;
float* const warp_sums = (float*)shared;
float* const warp_tops = warp_sums + warps * 16 * sum_line;
__syncthreads();
#pragma unroll
for (int r = 0; r < 2; ++r) {
  total[r] += __shfl_xor_sync(0xffffffffu, total[r], 1);
  total[r] += __shfl_xor_sync(0xffffffffu, total[r], 2);
  const int at = warp * 16 + line + r * 8;
#pragma unroll
  for (int n = 0; n < width / 8; ++n) {
    warp_sums[at * sum_line + n * 8 + pair] = acc[0][n][r * 2];
    warp_sums[at * sum_line + n * 8 + pair + 1] = acc[0][n][r * 2 + 1];
  }
  if (pair == 0) {
    warp_tops[at * 2] = top[r];
    warp_tops[at * 2 + 1] = total[r];
  }
}
__syncthreads();
)";

inline constexpr std::string_view add_warps_text = R"(float best = $lowest$;
#pragma unroll
for (int i = 0; i < warps; ++i) best = fmaxf(best, warp_tops[(i * 16 + at) * 2]);
const float base = best == $lowest$ ? 0.0f : best;
float sum = 0.0f, all = 0.0f;
#pragma unroll
for (int i = 0; i < warps; ++i) {
  const float share = $share$;
  all += warp_tops[(i * 16 + at) * 2 + 1] * share;
  sum += warp_sums[(i * 16 + at) * sum_line + d] * share;
}
)";

// Each warp brings its rows together in shared memory, from where they go to memory in whole chunks.
inline constexpr std::string_view gather_text = R"(__syncthreads();
#pragma unroll
for (int r = 0; r < 2 * row_parts; ++r) {
  total[r] += __shfl_xor_sync(0xffffffffu, total[r], 1);
  total[r] += __shfl_xor_sync(0xffffffffu, total[r], 2);
  const float share = 1.0f / total[r];
#pragma unroll
  for (int n = 0; n < width / 8; ++n) {
    const float low = acc[r / 2][n][r % 2 * 2] * share, high = acc[r / 2][n][r % 2 * 2 + 1] * share;
    *(unsigned*)(shared + rtx_place<width / 8>(line + r * 8, n) * 8 + pair) = $pack$($low$, $high$);
  }
}
__syncwarp();
)";

}  // namespace rtx::codegen::attention_text
