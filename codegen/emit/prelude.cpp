#include "codegen/emit/prelude.h"

namespace rtx::codegen {
namespace {

// Functions with inline PTX stay on one line each: the CPU test of generated text replaces such lines.
constexpr PreludeFunction functions[] = {
    // f16: conversions of the hardware, round to nearest even.
    {"rtx_f16_to_f32", "",
     "__device__ __forceinline__ float rtx_f16_to_f32(unsigned short h) { float f; asm(\"cvt.f32.f16 %0, %1;\" : "
     "\"=f\"(f) : \"h\"(h)); return f; }"},
    {"rtx_f32_to_f16", "",
     "__device__ __forceinline__ unsigned short rtx_f32_to_f16(float f) { unsigned short h; asm(\"cvt.rn.f16.f32 %0, "
     "%1;\" : \"=h\"(h) : \"f\"(f)); return h; }"},
    {"rtx_round_f16", "rtx_f16_to_f32 rtx_f32_to_f16",
     "__device__ __forceinline__ float rtx_round_f16(float f) { return rtx_f16_to_f32(rtx_f32_to_f16(f)); }"},
    // bf16: the upper half of an f32.
    {"rtx_bf16_to_f32", "",
     "__device__ __forceinline__ float rtx_bf16_to_f32(unsigned short h) { return __uint_as_float((unsigned)h << 16); "
     "}"},
    {"rtx_f32_to_bf16", "",
     "__device__ __forceinline__ unsigned short rtx_f32_to_bf16(float f) { unsigned short h; asm(\"cvt.rn.bf16.f32 %0, "
     "%1;\" : \"=h\"(h) : \"f\"(f)); return h; }"},
    {"rtx_round_bf16", "rtx_bf16_to_f32 rtx_f32_to_bf16",
     "__device__ __forceinline__ float rtx_round_bf16(float f) { return rtx_bf16_to_f32(rtx_f32_to_bf16(f)); }"},
    // f8e5m2 is the upper byte of an f16. f8e4m3 ("fn"): no infinity, NaN is 0x7f.
    {"rtx_f8e4m3_to_f32", "", R"(__device__ __forceinline__ float rtx_f8e4m3_to_f32(unsigned char b) {
  const int exponent = b >> 3 & 15, mantissa = b & 7;
  float f = exponent == 0 ? mantissa * 0x1p-9f
                          : __uint_as_float((unsigned)(exponent + 120) << 23 | (unsigned)mantissa << 20);
  if ((b & 127) == 127) f = __uint_as_float(0x7fc00000u);
  return b & 128 ? -f : f;
})"},
    {"rtx_f32_to_f8e4m3", "", R"(__device__ __forceinline__ unsigned char rtx_f32_to_f8e4m3(float f, bool saturate) {
  const unsigned sign = __float_as_uint(f) >> 24 & 128;
  const float a = fabsf(f);
  if (a != a) return (unsigned char)(sign | 127);
  if (a > 464.0f) return (unsigned char)(sign | (saturate ? 126 : 127));
  if (a < 0x1p-6f) return (unsigned char)(sign | (unsigned)rintf(a * 0x1p9f));
  const unsigned bits = __float_as_uint(a);
  unsigned code = ((bits >> 20) - (120 << 3)) + ((bits & 0xfffff) + (bits >> 20 & 1) > 0x80000 ? 1 : 0);
  if (code > 126) code = 126;
  return (unsigned char)(sign | code);
})"},
    {"rtx_f8e5m2_to_f32", "", R"(__device__ __forceinline__ float rtx_f8e5m2_to_f32(unsigned char b) {
  const int exponent = b >> 2 & 31, mantissa = b & 3;
  float f = exponent == 0 ? mantissa * 0x1p-16f
                          : __uint_as_float((unsigned)(exponent + 112) << 23 | (unsigned)mantissa << 21);
  if (exponent == 31) f = __uint_as_float(0x7f800000u | (unsigned)mantissa << 21);
  return b & 128 ? -f : f;
})"},
    {"rtx_f32_to_f8e5m2", "", R"(__device__ __forceinline__ unsigned char rtx_f32_to_f8e5m2(float f, bool saturate) {
  const unsigned sign = __float_as_uint(f) >> 24 & 128;
  const float a = fabsf(f);
  if (a != a) return (unsigned char)(sign | 127);
  if (a >= 61440.0f) return (unsigned char)(sign | (saturate ? 123 : 124));
  if (a < 0x1p-14f) return (unsigned char)(sign | (unsigned)rintf(a * 0x1p16f));
  const unsigned bits = __float_as_uint(a);
  const unsigned code = ((bits >> 21) - (112 << 2)) + ((bits & 0x1fffff) + (bits >> 21 & 1) > 0x100000 ? 1 : 0);
  return (unsigned char)(sign | code);
})"},
    // 4-bit elements: two to a byte, the low half first.
    {"rtx_load_u4", "", R"(__device__ __forceinline__ int rtx_load_u4(const unsigned char* data, long long index) {
  return data[index >> 1] >> (index & 1) * 4 & 15;
})"},
    {"rtx_sign_extend_4", "", "__device__ __forceinline__ int rtx_sign_extend_4(int v) { return ((v & 15) ^ 8) - 8; }"},
    // Float to integer: toward zero, saturating, NaN gives 0.
    {"rtx_to_i64", "", R"(__device__ __forceinline__ long long rtx_to_i64(double v) {
  if (v != v) return 0;
  if (v >= 9223372036854775808.0) return 9223372036854775807LL;
  if (v <= -9223372036854775808.0) return -9223372036854775807LL - 1;
  return (long long)v;
})"},
    {"rtx_to_int", "", R"(__device__ __forceinline__ int rtx_to_int(double v, double low, double high) {
  if (v != v) return 0;
  return (int)(v < low ? low : v > high ? high : v);
})"},
    // Integer arithmetic that wraps; division by zero gives 0.
    {"rtx_div_i64", "", R"(__device__ __forceinline__ long long rtx_div_i64(long long a, long long b) {
  if (b == 0) return 0;
  return b == -1 ? (long long)(0ULL - (unsigned long long)a) : a / b;
})"},
    {"rtx_mod_trunc_i64", "", R"(__device__ __forceinline__ long long rtx_mod_trunc_i64(long long a, long long b) {
  return b == 0 || b == -1 ? 0 : a % b;
})"},
    {"rtx_mod_floor_i64", "rtx_mod_trunc_i64",
     R"(__device__ __forceinline__ long long rtx_mod_floor_i64(long long a, long long b) {
  const long long r = rtx_mod_trunc_i64(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
})"},
    {"rtx_mod_floor_f32", "", R"(__device__ __forceinline__ float rtx_mod_floor_f32(float a, float b) {
  const float r = fmodf(a, b);
  if (r == 0.0f) return copysignf(0.0f, b);
  return (r < 0.0f) != (b < 0.0f) ? r + b : r;
})"},
    {"rtx_mod_floor_f64", "", R"(__device__ __forceinline__ double rtx_mod_floor_f64(double a, double b) {
  const double r = fmod(a, b);
  if (r == 0.0) return copysign(0.0, b);
  return (r < 0.0) != (b < 0.0) ? r + b : r;
})"},
    // Amounts outside the type move every bit out.
    {"rtx_shift_left_i64", "", R"(__device__ __forceinline__ long long rtx_shift_left_i64(long long a, long long b) {
  return b < 0 || b > 63 ? 0 : (long long)((unsigned long long)a << b);
})"},
    {"rtx_shift_right_i64", "", R"(__device__ __forceinline__ long long rtx_shift_right_i64(long long a, long long b) {
  return a >> (b < 0 || b > 63 ? 63 : b);
})"},
    {"rtx_pow_i64", "", R"(__device__ __forceinline__ long long rtx_pow_i64(long long base, long long exponent) {
  if (exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent & 1 ? -1 : 1) : 0;
  unsigned long long result = 1, power = (unsigned long long)base;
  for (; exponent > 0; exponent >>= 1, power *= power) {
    if (exponent & 1) result *= power;
  }
  return (long long)result;
})"},
    // Minimum and maximum that propagate NaN.
    {"rtx_max_f32", "",
     "__device__ __forceinline__ float rtx_max_f32(float a, float b) { return a > b || a != a ? a : b; }"},
    {"rtx_min_f32", "",
     "__device__ __forceinline__ float rtx_min_f32(float a, float b) { return a < b || a != a ? a : b; }"},
    {"rtx_max_f64", "",
     "__device__ __forceinline__ double rtx_max_f64(double a, double b) { return a > b || a != a ? a : b; }"},
    {"rtx_min_f64", "",
     "__device__ __forceinline__ double rtx_min_f64(double a, double b) { return a < b || a != a ? a : b; }"},
    {"rtx_max_i64", "",
     "__device__ __forceinline__ long long rtx_max_i64(long long a, long long b) { return a > b ? a : b; }"},
    {"rtx_min_i64", "",
     "__device__ __forceinline__ long long rtx_min_i64(long long a, long long b) { return a < b ? a : b; }"},
    {"rtx_sigmoid_f32", "",
     "__device__ __forceinline__ float rtx_sigmoid_f32(float x) { return 1.0f / (1.0f + expf(-x)); }"},
    {"rtx_sigmoid_f64", "",
     "__device__ __forceinline__ double rtx_sigmoid_f64(double x) { return 1.0 / (1.0 + exp(-x)); }"},
    {"rtx_gelu_f32", "", R"(__device__ __forceinline__ float rtx_gelu_f32(float x) {
  return 0.5f * x * (1.0f + erff(x * 0.70710678118654752f));
})"},
    {"rtx_gelu_f64", "", R"(__device__ __forceinline__ double rtx_gelu_f64(double x) {
  return 0.5 * x * (1.0 + erf(x * 0.70710678118654752));
})"},
    {"rtx_gelu_tanh_f32", "", R"(__device__ __forceinline__ float rtx_gelu_tanh_f32(float x) {
  return 0.5f * x * (1.0f + tanhf(0.79788456080286536f * (x + 0.044715f * x * x * x)));
})"},
    {"rtx_gelu_tanh_f64", "", R"(__device__ __forceinline__ double rtx_gelu_tanh_f64(double x) {
  return 0.5 * x * (1.0 + tanh(0.79788456080286536 * (x + 0.044715 * x * x * x)));
})"},
    {"rtx_clamp", "", R"(__device__ __forceinline__ long long rtx_clamp(long long index, long long bound) {
  return index < 0 ? 0 : index >= bound ? bound - 1 : index;
})"},
    // An index from data: negative counts from the end, what is outside is clamped. `bound` is at least 1.
    {"rtx_index", "", R"(__device__ __forceinline__ long long rtx_index(long long index, long long bound) {
  if (index < 0) index += bound;
  return index < 0 ? 0 : index >= bound ? bound - 1 : index;
})"},
    // Tensor cores, by the 32 threads of a warp together (PTX ISA, "mma.m16n8k16"): c[16, 8] += a[16, 16] * b[16, 8],
    // f32
    // sums. Thread t = 4 g + q holds pairs of neighbours: a[0] = A[g][2q..], a[1] = A[g + 8][2q..], a[2] = A[g][2q
    // + 8..],
    // a[3] = A[g + 8][2q + 8..]; b[0] = B[2q..][g], b[1] = B[2q + 8..][g]; c[0..1] = C[g][2q..], c[2..3] = C[g +
    // 8][2q..].
    {"rtx_mma_f16", "",
     "__device__ __forceinline__ void rtx_mma_f16(float* c, const unsigned* a, const unsigned* b) { "
     "asm(\"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
     "{%0, %1, %2, %3};\" : \"+f\"(c[0]), \"+f\"(c[1]), \"+f\"(c[2]), \"+f\"(c[3]) : \"r\"(a[0]), \"r\"(a[1]), "
     "\"r\"(a[2]), "
     "\"r\"(a[3]), \"r\"(b[0]), \"r\"(b[1])); }"},
    {"rtx_mma_bf16", "",
     "__device__ __forceinline__ void rtx_mma_bf16(float* c, const unsigned* a, const unsigned* b) { "
     "asm(\"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
     "{%0, %1, %2, %3};\" : \"+f\"(c[0]), \"+f\"(c[1]), \"+f\"(c[2]), \"+f\"(c[3]) : \"r\"(a[0]), \"r\"(a[1]), "
     "\"r\"(a[2]), "
     "\"r\"(a[3]), \"r\"(b[0]), \"r\"(b[1])); }"},
    // Four 8 x 8 tiles of 16-bit elements from shared memory: thread 8 i + j gives the address of row j of tile i (a
    // multiple of 16), and r[i] of thread 4 g + q is elements 2q and 2q + 1 of row g of tile i; transposed: of column
    // g.
    {"rtx_load_tiles", "",
     "__device__ __forceinline__ void rtx_load_tiles(unsigned* r, const void* row) { "
     "asm volatile(\"ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\" : \"=r\"(r[0]), "
     "\"=r\"(r[1]), \"=r\"(r[2]), \"=r\"(r[3]) : \"r\"((unsigned)__cvta_generic_to_shared(row)) : \"memory\"); }"},
    {"rtx_load_tiles_transposed", "",
     "__device__ __forceinline__ void rtx_load_tiles_transposed(unsigned* r, const void* row) { "
     "asm volatile(\"ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];\" : \"=r\"(r[0]), "
     "\"=r\"(r[1]), \"=r\"(r[2]), \"=r\"(r[3]) : \"r\"((unsigned)__cvta_generic_to_shared(row)) : \"memory\"); }"},
    // 16 bytes to shared memory, not waiting; of `bytes` below 16 the rest becomes zeros. Both addresses are multiples
    // of
    // 16. Copies are counted in groups, each closed by rtx_copy_commit; rtx_copy_wait<n> waits for all groups but the
    // last n, of this thread.
    {"rtx_copy_async", "",
     "__device__ __forceinline__ void rtx_copy_async(void* to, const void* from, int bytes) { asm "
     "volatile(\"cp.async.cg.shared.global [%0], [%1], 16, %2;\" :: \"r\"((unsigned)__cvta_generic_to_shared(to)), "
     "\"l\"(from), \"r\"(bytes) : \"memory\"); }"},
    {"rtx_copy_commit", "",
     "__device__ __forceinline__ void rtx_copy_commit() { asm volatile(\"cp.async.commit_group;\" ::: \"memory\"); }"},
    {"rtx_copy_wait", "",
     "template <int groups> __device__ __forceinline__ void rtx_copy_wait() { asm volatile(\"cp.async.wait_group %0;\" "
     ":: "
     "\"n\"(groups) : \"memory\"); }"},
    // Where a chunk of 8 elements lies in a tile of rows of `chunks`, so that 8 neighbouring rows of one chunk fall
    // into
    // different banks: the chunks of a row are exchanged, or where they cannot be, rows are an odd number of chunks
    // long.
    {"rtx_place", "", R"(template <int chunks>
__device__ __forceinline__ int rtx_place(int row, int chunk) {
  if (chunks % 8 == 0) return row * chunks + (chunk ^ (row & 7));
  if (chunks == 4) return row * chunks + (chunk ^ (row >> 1 & 3));
  if (chunks == 2) return row * chunks + (chunk ^ (row >> 2 & 1));
  return row * (chunks | 1) + chunk;
})"},
    // Two f32 as neighbours in one register, round to nearest even.
    {"rtx_pack_f16", "",
     "__device__ __forceinline__ unsigned rtx_pack_f16(float low, float high) { unsigned r; asm(\"cvt.rn.f16x2.f32 %0, "
     "%1, %2;\" : \"=r\"(r) : \"f\"(high), \"f\"(low)); return r; }"},
    {"rtx_pack_bf16", "",
     "__device__ __forceinline__ unsigned rtx_pack_bf16(float low, float high) { unsigned r; asm(\"cvt.rn.bf16x2.f32 "
     "%0, "
     "%1, %2;\" : \"=r\"(r) : \"f\"(high), \"f\"(low)); return r; }"},
    // 2^x within 2^-22 relative; 0 for -inf and where the result is not a normal number.
    {"rtx_exp2", "",
     "__device__ __forceinline__ float rtx_exp2(float x) { float y; asm(\"ex2.approx.ftz.f32 %0, %1;\" : \"=f\"(y) : "
     "\"f\"(x)); return y; }"},
};

}  // namespace

std::span<const PreludeFunction> prelude_functions() { return functions; }

}  // namespace rtx::codegen
