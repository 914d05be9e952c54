#include "base/dtype.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

namespace rtx {
namespace {

// An independent model of a small float: the value of every finite non-negative pattern, computed from the definition.
struct Model {
  int mantissa_bits, bias;
  uint32_t finite_patterns;  // non-negative ones: 0 ... finite_patterns - 1
  uint32_t overflow;         // pattern of what is too large, without saturation
  uint32_t sign;
  std::vector<double> values;

  Model(int mantissa_bits, int bias, uint32_t finite_patterns, uint32_t overflow, uint32_t sign)
      : mantissa_bits(mantissa_bits), bias(bias), finite_patterns(finite_patterns), overflow(overflow), sign(sign) {
    for (uint32_t p = 0; p < finite_patterns; ++p) values.push_back(value(p));
  }
  double value(uint32_t pattern) const {
    const int exponent = static_cast<int>(pattern >> mantissa_bits);
    const double fraction = std::ldexp(static_cast<double>(pattern & ((1U << mantissa_bits) - 1)), -mantissa_bits);
    return exponent == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1 + fraction, exponent - bias);
  }
  // The nearest pattern by search; ties go to the even one. long double holds every int64 and every double.
  uint32_t nearest(long double x) const {
    const long double magnitude = std::fabs(x);
    const uint32_t sign_bit = std::signbit(x) ? sign : 0;
    const double beyond = value(finite_patterns);  // what would follow the largest value
    if (magnitude >= beyond) return overflow | sign_bit;
    const auto above = std::upper_bound(values.begin(), values.end(), magnitude);
    const auto low = static_cast<uint32_t>(above - values.begin() - 1);
    const long double high_value = above == values.end() ? beyond : *above;
    const long double to_low = magnitude - values[low], to_high = high_value - magnitude;
    const uint32_t pattern = to_low < to_high || (to_low == to_high && low % 2 == 0) ? low : low + 1;
    return (pattern == finite_patterns ? overflow : pattern) | sign_bit;
  }
};

const Model& model_of(DType dtype) {
  static const Model f16(10, 15, 0x7C00, 0x7C00, 0x8000), bf16(7, 127, 0x7F80, 0x7F80, 0x8000),
      f8e4m3(3, 7, 0x7F, 0x7F, 0x80), f8e5m2(2, 15, 0x7C, 0x7C, 0x80);
  return dtype == DType::f16 ? f16 : dtype == DType::bf16 ? bf16 : dtype == DType::f8e4m3 ? f8e4m3 : f8e5m2;
}

uint32_t narrow(DType dtype, double value) {
  switch (dtype) {
    case DType::f16:
      return f64_to_f16(value);
    case DType::bf16:
      return f64_to_bf16(value);
    case DType::f8e4m3:
      return f64_to_f8e4m3(value, false);
    default:
      return f64_to_f8e5m2(value, false);
  }
}

double widen(DType dtype, uint32_t pattern) {
  switch (dtype) {
    case DType::f16:
      return f16_to_f32(static_cast<uint16_t>(pattern));
    case DType::bf16:
      return bf16_to_f32(static_cast<uint16_t>(pattern));
    case DType::f8e4m3:
      return f8e4m3_to_f32(static_cast<uint8_t>(pattern));
    default:
      return f8e5m2_to_f32(static_cast<uint8_t>(pattern));
  }
}

constexpr DType small_floats[] = {DType::f16, DType::bf16, DType::f8e4m3, DType::f8e5m2};

// Compares on every value given and returns how many differ, to keep millions of doctest assertions out of the log.
int64_t mismatches(DType dtype, const std::vector<double>& values) {
  int64_t count = 0;
  for (const double value : values) {
    for (const double x : {value, -value}) {
      if (narrow(dtype, x) != model_of(dtype).nearest(x) && count++ < 3) {
        MESSAGE(std::string(to_string(dtype))
                << " of " << x << " is " << narrow(dtype, x) << ", expected " << model_of(dtype).nearest(x));
      }
    }
  }
  return count;
}

TEST_CASE("names, widths and classes of dtypes agree") {
  for (int i = 0; i < dtype_count; ++i) {
    const auto dtype = static_cast<DType>(i);
    CHECK(parse_dtype(to_string(dtype)) == dtype);
    CHECK(!(is_float(dtype) && is_integer(dtype)));
  }
  CHECK(to_string(DType::boolean) == "bool");
  CHECK(!parse_dtype("float32"));
  CHECK(!parse_dtype(""));
  CHECK(bit_width(DType::u4) == 4);
  CHECK(bit_width(DType::boolean) == 8);
  CHECK(!is_integer(DType::boolean));
  CHECK(!is_float(DType::boolean));
  CHECK(is_signed(DType::bf16));
  CHECK(!is_signed(DType::u8));
}

TEST_CASE("packed_bytes rounds nibbles up and notices overflow") {
  CHECK(packed_bytes(DType::f32, 3) == 12);
  CHECK(packed_bytes(DType::i4, 3) == 2);
  CHECK(packed_bytes(DType::u4, 0) == 0);
  CHECK(packed_bytes(DType::u4, std::numeric_limits<int64_t>::max()) == (int64_t{1} << 62));
  CHECK(!packed_bytes(DType::f64, int64_t{1} << 60));
  CHECK(packed_bytes(DType::f64, (int64_t{1} << 60) - 1));
  CHECK(!packed_bytes(DType::i8, -1));
}

TEST_CASE("every pattern of the small floats has the value its definition gives, and converts back to itself") {
  for (const DType dtype : small_floats) {
    const Model& model = model_of(dtype);
    for (uint32_t pattern = 0; pattern < 2 * model.sign; ++pattern) {
      const uint32_t magnitude = pattern & (model.sign - 1);
      const double value = widen(dtype, pattern);
      if (magnitude < model.finite_patterns) {
        REQUIRE(std::fabs(value) == model.value(magnitude));
        REQUIRE(std::signbit(value) == ((pattern & model.sign) != 0));
        REQUIRE(narrow(dtype, value) == pattern);
      } else if (dtype != DType::f8e4m3 && magnitude == model.finite_patterns) {
        REQUIRE(std::isinf(value));
        REQUIRE(narrow(dtype, value) == pattern);
      } else {
        REQUIRE(std::isnan(value));
        REQUIRE(std::isnan(widen(dtype, narrow(dtype, value))));
      }
    }
  }
}

TEST_CASE("narrowing rounds to nearest even at every midpoint and on both sides of it") {
  for (const DType dtype : small_floats) {
    const Model& model = model_of(dtype);
    std::vector<double> values;
    for (uint32_t p = 0; p < model.finite_patterns; ++p) {
      const double middle = model.value(p) + (model.value(p + 1) - model.value(p)) / 2;  // exact: one more bit
      for (const double x : {middle, std::nextafter(middle, 0.0), std::nextafter(middle, INFINITY)})
        values.push_back(x);
    }
    CHECK(mismatches(dtype, values) == 0);
  }
}

TEST_CASE("narrowing rounds random doubles as a search for the nearest value does") {
  std::mt19937_64 random(20240601);
  for (const DType dtype : small_floats) {
    std::vector<double> values;
    while (values.size() < 200'000) {
      // Half of all bit patterns, half with exponents in the range of the small formats.
      double x = std::bit_cast<double>(random());
      if (values.size() % 2 == 0)
        x = std::ldexp(1 + std::ldexp(static_cast<double>(random() >> 12), -52), static_cast<int>(random() % 60) - 40);
      if (!std::isnan(x)) values.push_back(x);
    }
    CHECK(mismatches(dtype, values) == 0);
  }
}

TEST_CASE("the search used as the oracle tells a wrong rounding from a right one") {
  // Through float, this value first rounds to the midpoint of two f16 values and then away from the nearer one.
  const double x = 1.0 + std::ldexp(1.0, -11) + std::ldexp(1.0, -40);
  CHECK(model_of(DType::f16).nearest(x) == 0x3C01);
  CHECK(f64_to_f16(x) == 0x3C01);
  CHECK(f64_to_f16(static_cast<float>(x)) == 0x3C00);
}

TEST_CASE("f8 conversions saturate or not as ONNX Cast says") {
  const double inf = INFINITY;
  CHECK(f64_to_f8e4m3(1000) == 0x7E);
  CHECK(f64_to_f8e4m3(inf) == 0x7E);
  CHECK(f64_to_f8e4m3(-inf) == 0xFE);
  CHECK(f64_to_f8e4m3(464, false) == 0x7E);  // the tie goes to 448, which is even
  CHECK(f64_to_f8e4m3(464.0001, false) == 0x7F);
  CHECK(f64_to_f8e4m3(inf, false) == 0x7F);
  CHECK(f64_to_f8e4m3(NAN) == 0x7F);
  CHECK(f64_to_f8e5m2(1e9) == 0x7B);
  CHECK(f64_to_f8e5m2(inf) == 0x7B);
  CHECK(f64_to_f8e5m2(1e9, false) == 0x7C);
  CHECK(f64_to_f8e5m2(-inf, false) == 0xFC);
  CHECK(std::isnan(f8e5m2_to_f32(f64_to_f8e5m2(NAN))));
  CHECK(f64_to_f16(65519.99) == 0x7BFF);
  CHECK(f64_to_f16(65520) == 0x7C00);
}

TEST_CASE("nibbles are stored low half first and keep their neighbour") {
  std::vector<uint8_t> data(2, 0xFF);
  store_i64(DType::i4, data.data(), 0, -3);
  CHECK(data[0] == 0xFD);
  store_i64(DType::i4, data.data(), 1, 7);
  CHECK(data[0] == 0x7D);
  CHECK(load_i64(DType::i4, data.data(), 0) == -3);
  CHECK(load_i64(DType::i4, data.data(), 1) == 7);
  CHECK(load_i64(DType::u4, data.data(), 0) == 13);
  CHECK(load_f64(DType::i4, data.data(), 2) == -1);
}

TEST_CASE("a float stored as an integer truncates and saturates, NaN gives 0") {
  struct Case {
    DType dtype;
    double value;
    int64_t expected;
  };
  const double huge = 1e300;
  for (const Case& c :
       {Case{DType::i8, 127.9, 127}, Case{DType::i8, 128, 127}, Case{DType::i8, -129, -128}, Case{DType::u8, -0.9, 0},
        Case{DType::u8, -5, 0}, Case{DType::u8, 256, 255}, Case{DType::i4, 7.9, 7}, Case{DType::u4, 15.99, 15},
        // 4-bit types keep the low bits of what an i32 would be.
        Case{DType::i4, 100, 4}, Case{DType::i4, -9, 7}, Case{DType::u4, -1, 15}, Case{DType::u4, huge, 15},
        Case{DType::i16, -huge, -32768}, Case{DType::i32, 2147483647.5, 2147483647},
        Case{DType::i64, huge, std::numeric_limits<int64_t>::max()},
        Case{DType::i64, -INFINITY, std::numeric_limits<int64_t>::min()},
        Case{DType::i64, 9223372036854775807.0, std::numeric_limits<int64_t>::max()},
        Case{DType::i64, -9223372036854775808.0, std::numeric_limits<int64_t>::min()}, Case{DType::i32, NAN, 0},
        Case{DType::boolean, NAN, 1}, Case{DType::boolean, -0.0, 0}, Case{DType::boolean, 1e-300, 1}}) {
    int64_t storage = 0;
    store_f64(c.dtype, &storage, 0, c.value);
    CAPTURE(to_string(c.dtype));
    CAPTURE(c.value);
    CHECK(load_i64(c.dtype, &storage, 0) == c.expected);
  }
}

TEST_CASE("an integer stored as a narrower one keeps the low bits") {
  int64_t storage = 0;
  store_i64(DType::i8, &storage, 0, 300);
  CHECK(load_i64(DType::i8, &storage, 0) == 44);
  store_i64(DType::u4, &storage, 0, -1);
  CHECK(load_i64(DType::u4, &storage, 0) == 15);
  store_i64(DType::i32, &storage, 0, int64_t{1} << 40);
  CHECK(load_i64(DType::i32, &storage, 0) == 0);
}

TEST_CASE("a large integer rounds once on its way to a float") {
  std::mt19937_64 random(7);
  int64_t wrong = 0;
  for (int i = 0; i < 200'000; ++i) {
    int64_t value = static_cast<int64_t>(random()) >> (random() % 40);
    // Values just beside a midpoint of bf16, where rounding through double would go astray.
    if (i % 2 == 0) value = (int64_t{257 + 2 * (i % 128)} << (46 + i % 9)) + i % 3 - 1;
    uint16_t bits = 0;
    store_i64(DType::bf16, &bits, 0, value);
    wrong += bits != model_of(DType::bf16).nearest(static_cast<long double>(value));
    float single = 0;
    store_i64(DType::f32, &single, 0, value);
    wrong += single != static_cast<float>(static_cast<long double>(value));
  }
  CHECK(wrong == 0);
}

TEST_CASE("loads and stores work at any alignment") {
  std::vector<char> data(33);
  for (const DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16, DType::i64, DType::i32, DType::i16}) {
    store_f64(dtype, data.data() + 1, 2, -3);
    CHECK(load_f64(dtype, data.data() + 1, 2) == -3);
  }
}

}  // namespace
}  // namespace rtx
