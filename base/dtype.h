// Element types, and the exact conversions between their bits and numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace rtx {

enum class DType : uint8_t { f64, f32, f16, bf16, f8e4m3, f8e5m2, i64, i32, i16, i8, u8, u4, i4, boolean };

inline constexpr int dtype_count = 14;

// "f64" ... "bool": the token of the IR text, the manifest and all messages.
std::string_view to_string(DType dtype);
std::optional<DType> parse_dtype(std::string_view text);

// Bits of one element: 4 for u4 and i4 (two to a byte, low half first), 8 for bool (one byte, 0 or 1).
int bit_width(DType dtype);
bool is_float(DType dtype);
// i64 i32 i16 i8 u8 u4 i4; not bool.
bool is_integer(DType dtype);
bool is_signed(DType dtype);

// Bytes of `elements` tightly packed elements; nullopt on overflow of int64.
std::optional<int64_t> packed_bytes(DType dtype, int64_t elements);

// Number formats. Narrowing rounds to nearest, ties to even. f16 and bf16 overflow to infinity. The f8 forms: e4m3 is
// the "fn" form (no infinity, NaN 0x7f), e5m2 has infinities; `saturate` clamps to the largest finite value instead
// of giving NaN (e4m3) or infinity (e5m2), as ONNX Cast does.
float f16_to_f32(uint16_t bits);
uint16_t f64_to_f16(double value);
float bf16_to_f32(uint16_t bits);
uint16_t f64_to_bf16(double value);
float f8e4m3_to_f32(uint8_t bits);
uint8_t f64_to_f8e4m3(double value, bool saturate = true);
float f8e5m2_to_f32(uint8_t bits);
uint8_t f64_to_f8e5m2(double value, bool saturate = true);

// The element `index` of tightly packed data as a number. Integers beyond 2^53 are rounded by load_f64; use load_i64
// for integer types and bool.
double load_f64(DType dtype, const void* data, int64_t index);
int64_t load_i64(DType dtype, const void* data, int64_t index);
// Rounds `value` to the type and stores it. A float to an integer truncates toward zero and saturates at the ends of
// the range (4-bit types: those of i32, of which the low bits are kept, as ONNX's reference data has it), NaN gives 0 (the choice of CUDA's cvt, kept everywhere in rtx); any non-zero or NaN stores true.
void store_f64(DType dtype, void* data, int64_t index, double value);
// An integer to a narrower integer keeps the low bits.
void store_i64(DType dtype, void* data, int64_t index, int64_t value);

}  // namespace rtx
