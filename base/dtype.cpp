#include "base/dtype.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace rtx {
namespace {

struct DTypeFacts {
  std::string_view name;
  int bits;
};

// In the order of the enum.
constexpr std::array<DTypeFacts, dtype_count> facts = {{{"f64", 64},
                                                        {"f32", 32},
                                                        {"f16", 16},
                                                        {"bf16", 16},
                                                        {"f8e4m3", 8},
                                                        {"f8e5m2", 8},
                                                        {"i64", 64},
                                                        {"i32", 32},
                                                        {"i16", 16},
                                                        {"i8", 8},
                                                        {"u8", 8},
                                                        {"u4", 4},
                                                        {"i4", 4},
                                                        {"bool", 8}}};

constexpr uint64_t f64_sign = uint64_t{1} << 63;
constexpr uint64_t f64_infinity = uint64_t{0x7FF} << 52;

// The pattern (without sign) of a finite double rounded to nearest even into a format of `mantissa_bits` and exponent
// bias `bias`. Rounds once, straight from the double: going through float would round twice. A value too large for the
// format gives a pattern beyond its last one, as if the exponent field had no end.
uint32_t round_magnitude(uint64_t magnitude, int mantissa_bits, int bias) {
  const int f64_exponent = static_cast<int>(magnitude >> 52);
  if (f64_exponent == 0) return 0;  // a subnormal double is far below half the least value of every format here
  const uint64_t significand = (magnitude & ((uint64_t{1} << 52) - 1)) | uint64_t{1} << 52;
  const int exponent = f64_exponent - 1023 + bias;
  const int shift = 52 - mantissa_bits + std::max(0, 1 - exponent);
  if (shift > 53) return 0;
  uint64_t kept = significand >> shift;
  const uint64_t rest = significand & ((uint64_t{1} << shift) - 1);
  const uint64_t half = uint64_t{1} << (shift - 1);
  if (rest > half || (rest == half && (kept & 1) != 0)) ++kept;
  // `kept` has the leading one of a normal number, which adds 1 to the exponent field.
  return static_cast<uint32_t>((static_cast<uint64_t>(std::max(exponent, 1) - 1) << mantissa_bits) + kept);
}

struct SmallFloat {
  int mantissa_bits;
  int bias;
  uint32_t sign;
  uint32_t largest;   // pattern of the largest finite value
  uint32_t overflow;  // pattern of what lies beyond it
  uint32_t nan;
};

constexpr SmallFloat f16_format = {10, 15, 0x8000, 0x7BFF, 0x7C00, 0x7E00};
constexpr SmallFloat bf16_format = {7, 127, 0x8000, 0x7F7F, 0x7F80, 0x7FC0};
constexpr SmallFloat f8e4m3_format = {3, 7, 0x80, 0x7E, 0x7F, 0x7F};
constexpr SmallFloat f8e5m2_format = {2, 15, 0x80, 0x7B, 0x7C, 0x7E};

uint32_t narrow(double value, const SmallFloat& format, bool saturate) {
  const uint64_t bits = std::bit_cast<uint64_t>(value);
  const uint64_t magnitude = bits & ~f64_sign;
  uint32_t pattern;
  if (magnitude > f64_infinity) {
    pattern = format.nan;
  } else {
    pattern =
        magnitude == f64_infinity ? format.largest + 1 : round_magnitude(magnitude, format.mantissa_bits, format.bias);
    if (pattern > format.largest) pattern = saturate ? format.largest : format.overflow;
  }
  return pattern | ((bits & f64_sign) != 0 ? format.sign : 0);
}

// A finite pattern of a format with no more exponents than float has, as a float; exact.
float widen(uint32_t bits, const SmallFloat& format) {
  const uint32_t magnitude = bits & (format.sign - 1);
  const float value =
      magnitude >> format.mantissa_bits != 0
          ? std::bit_cast<float>((magnitude << (23 - format.mantissa_bits)) +
                                 (static_cast<uint32_t>(127 - format.bias) << 23))
          : static_cast<float>(magnitude) *
                std::bit_cast<float>(static_cast<uint32_t>(128 - format.bias - format.mantissa_bits) << 23);
  return (bits & format.sign) != 0 ? -value : value;
}

template <typename T>
T load_as(const void* data, int64_t index) {
  T value;
  std::memcpy(&value, static_cast<const char*>(data) + index * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return value;
}

template <typename T>
void store_as(void* data, int64_t index, T value) {
  std::memcpy(static_cast<char*>(data) + index * static_cast<int64_t>(sizeof(T)), &value, sizeof(T));
}

unsigned load_nibble(const void* data, int64_t index) {
  const unsigned byte = static_cast<const uint8_t*>(data)[index / 2];
  return index % 2 == 0 ? byte & 0xF : byte >> 4;
}

void store_nibble(void* data, int64_t index, int64_t value) {
  uint8_t& byte = static_cast<uint8_t*>(data)[index / 2];
  const unsigned nibble = static_cast<unsigned>(value) & 0xF;
  byte = static_cast<uint8_t>(index % 2 == 0 ? (byte & 0xF0) | nibble : (byte & 0x0F) | nibble << 4);
}

struct IntegerRange {
  int64_t min, max;
};

IntegerRange integer_range(DType dtype) {
  const int bits = bit_width(dtype);
  if (!is_signed(dtype)) return {0, (int64_t{1} << bits) - 1};
  const int64_t max = static_cast<int64_t>(~uint64_t{0} >> (65 - bits));
  return {-max - 1, max};
}

int64_t truncate_saturated(double value, IntegerRange range) {
  if (std::isnan(value)) return 0;
  // 2^63 as a double; the comparison with int64's maximum itself would round up to it.
  if (value >= 9223372036854775808.0) return range.max;
  if (value < -9223372036854775808.0) return range.min;
  return std::clamp(static_cast<int64_t>(value), range.min, range.max);
}

// A double that rounds to every shorter format as `value` itself would: beyond 53 bits the last bit kept is made
// sticky (round to odd).
double to_sticky_f64(int64_t value) {
  if (value > -(int64_t{1} << 53) && value < (int64_t{1} << 53)) return static_cast<double>(value);
  const bool negative = value < 0;
  uint64_t magnitude = negative ? uint64_t{0} - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
  constexpr uint64_t low = (uint64_t{1} << 12) - 1;
  if ((magnitude & low) != 0) magnitude = (magnitude & ~low) | uint64_t{1} << 12;
  const double result = static_cast<double>(magnitude);
  return negative ? -result : result;
}

}  // namespace

std::string_view to_string(DType dtype) { return facts[static_cast<size_t>(dtype)].name; }

std::optional<DType> parse_dtype(std::string_view text) {
  for (size_t i = 0; i < facts.size(); ++i) {
    if (facts[i].name == text) return static_cast<DType>(i);
  }
  return std::nullopt;
}

int bit_width(DType dtype) { return facts[static_cast<size_t>(dtype)].bits; }

bool is_float(DType dtype) { return dtype <= DType::f8e5m2; }

bool is_integer(DType dtype) { return dtype >= DType::i64 && dtype <= DType::i4; }

bool is_signed(DType dtype) { return dtype != DType::u8 && dtype != DType::u4 && dtype != DType::boolean; }

std::optional<int64_t> packed_bytes(DType dtype, int64_t elements) {
  if (elements < 0) return std::nullopt;
  const int bits = bit_width(dtype);
  if (bits == 4) return elements / 2 + elements % 2;
  int64_t bytes;
  if (__builtin_mul_overflow(elements, int64_t{bits / 8}, &bytes)) return std::nullopt;
  return bytes;
}

float f16_to_f32(uint16_t bits) {
  if ((bits & 0x7C00) != 0x7C00) return widen(bits, f16_format);
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
  return std::bit_cast<float>(sign | 0x7F800000U | static_cast<uint32_t>(bits & 0x3FF) << 13);
}

float bf16_to_f32(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

float f8e4m3_to_f32(uint8_t bits) {
  if ((bits & 0x7F) != 0x7F) return widen(bits, f8e4m3_format);
  return std::copysign(std::numeric_limits<float>::quiet_NaN(), (bits & 0x80) != 0 ? -1.0F : 1.0F);
}

float f8e5m2_to_f32(uint8_t bits) { return f16_to_f32(static_cast<uint16_t>(bits << 8)); }

uint16_t f64_to_f16(double value) { return static_cast<uint16_t>(narrow(value, f16_format, false)); }
uint16_t f64_to_bf16(double value) { return static_cast<uint16_t>(narrow(value, bf16_format, false)); }
uint8_t f64_to_f8e4m3(double value, bool saturate) {
  return static_cast<uint8_t>(narrow(value, f8e4m3_format, saturate));
}
uint8_t f64_to_f8e5m2(double value, bool saturate) {
  return static_cast<uint8_t>(narrow(value, f8e5m2_format, saturate));
}

double load_f64(DType dtype, const void* data, int64_t index) {
  switch (dtype) {
    case DType::f64:
      return load_as<double>(data, index);
    case DType::f32:
      return load_as<float>(data, index);
    case DType::f16:
      return f16_to_f32(load_as<uint16_t>(data, index));
    case DType::bf16:
      return bf16_to_f32(load_as<uint16_t>(data, index));
    case DType::f8e4m3:
      return f8e4m3_to_f32(load_as<uint8_t>(data, index));
    case DType::f8e5m2:
      return f8e5m2_to_f32(load_as<uint8_t>(data, index));
    case DType::i64:
    case DType::i32:
    case DType::i16:
    case DType::i8:
    case DType::u8:
    case DType::u4:
    case DType::i4:
    case DType::boolean:
      return static_cast<double>(load_i64(dtype, data, index));
  }
  return 0;
}

int64_t load_i64(DType dtype, const void* data, int64_t index) {
  switch (dtype) {
    case DType::i64:
      return load_as<int64_t>(data, index);
    case DType::i32:
      return load_as<int32_t>(data, index);
    case DType::i16:
      return load_as<int16_t>(data, index);
    case DType::i8:
      return load_as<int8_t>(data, index);
    case DType::u8:
      return load_as<uint8_t>(data, index);
    case DType::u4:
      return load_nibble(data, index);
    case DType::i4:
      return static_cast<int64_t>(load_nibble(data, index) ^ 8U) - 8;
    case DType::boolean:
      return load_as<uint8_t>(data, index) != 0 ? 1 : 0;
    case DType::f64:
    case DType::f32:
    case DType::f16:
    case DType::bf16:
    case DType::f8e4m3:
    case DType::f8e5m2:
      return truncate_saturated(load_f64(dtype, data, index), integer_range(DType::i64));
  }
  return 0;
}

void store_f64(DType dtype, void* data, int64_t index, double value) {
  switch (dtype) {
    case DType::f64:
      return store_as<double>(data, index, value);
    case DType::f32:
      return store_as<float>(data, index, static_cast<float>(value));
    case DType::f16:
      return store_as<uint16_t>(data, index, f64_to_f16(value));
    case DType::bf16:
      return store_as<uint16_t>(data, index, f64_to_bf16(value));
    case DType::f8e4m3:
      return store_as<uint8_t>(data, index, f64_to_f8e4m3(value));
    case DType::f8e5m2:
      return store_as<uint8_t>(data, index, f64_to_f8e5m2(value));
    case DType::boolean:
      return store_as<uint8_t>(data, index, value != 0 ? 1 : 0);
    case DType::i64:
    case DType::i32:
    case DType::i16:
    case DType::i8:
    case DType::u8:
      return store_i64(dtype, data, index, truncate_saturated(value, integer_range(dtype)));
    case DType::u4:
    case DType::i4:
      return store_nibble(data, index, truncate_saturated(value, integer_range(DType::i32)));
  }
}

void store_i64(DType dtype, void* data, int64_t index, int64_t value) {
  switch (dtype) {
    case DType::i64:
      return store_as<int64_t>(data, index, value);
    case DType::i32:
      return store_as<int32_t>(data, index, static_cast<int32_t>(value));
    case DType::i16:
      return store_as<int16_t>(data, index, static_cast<int16_t>(value));
    case DType::i8:
      return store_as<int8_t>(data, index, static_cast<int8_t>(value));
    case DType::u8:
      return store_as<uint8_t>(data, index, static_cast<uint8_t>(value));
    case DType::u4:
    case DType::i4:
      return store_nibble(data, index, value);
    case DType::boolean:
      return store_as<uint8_t>(data, index, value != 0 ? 1 : 0);
    case DType::f64:
      return store_as<double>(data, index, static_cast<double>(value));
    case DType::f32:
      return store_as<float>(data, index, static_cast<float>(value));
    case DType::f16:
    case DType::bf16:
    case DType::f8e4m3:
    case DType::f8e5m2:
      return store_f64(dtype, data, index, to_sticky_f64(value));
  }
}

}  // namespace rtx
