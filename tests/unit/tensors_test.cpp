#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "runtime/arena.h"
#include "runtime/compare.h"
#include "runtime/random_tensor.h"
#include "runtime/tensor_text.h"

namespace rtx::runtime {
namespace {

constexpr float nan = std::numeric_limits<float>::quiet_NaN();
constexpr float inf = std::numeric_limits<float>::infinity();

HostTensor floats(const std::vector<float>& values) {
  HostTensor tensor{.dtype = DType::f32,
                    .shape = {static_cast<int64_t>(values.size())},
                    .bytes = std::vector<std::byte>(values.size() * 4)};
  if (!values.empty()) std::memcpy(tensor.bytes.data(), values.data(), tensor.bytes.size());
  return tensor;
}

bool close(const std::vector<float>& actual, const std::vector<float>& expected, const Tolerance& tolerance) {
  return compare(floats(actual), floats(expected), tolerance).ok;
}

TEST_CASE("an element is close within atol plus rtol of the expected value") {
  CHECK(close({1.0f}, {1.25f}, {.absolute = 0.25}));
  CHECK(!close({1.0f}, {1.25f}, {.absolute = 0.24}));
  CHECK(close({100.0f}, {104.0f}, {.relative = 0.04}));
  CHECK(!close({104.0f}, {100.0f}, {.relative = 0.039}));
  CHECK(close({0.0f}, {-0.0f}, {}));
}

TEST_CASE("NaN equals only NaN, infinities equal only themselves") {
  const Tolerance any{.absolute = 1e30, .relative = 1};
  CHECK(close({nan, inf, -inf}, {nan, inf, -inf}, {}));
  CHECK(!close({nan}, {1}, any));
  CHECK(!close({1}, {nan}, any));
  CHECK(!close({inf}, {-inf}, any));
  CHECK(!close({inf}, {1e38f}, any));
  CHECK(!close({nan}, {inf}, any));
}

TEST_CASE("a comparison finds the worst element and counts") {
  const Comparison c = compare(floats({1, 2, nan, 4}), floats({1, 2.5, nan, 3}), {.absolute = 0.6});
  CHECK(!c.ok);
  CHECK(c.elements == 4);
  CHECK(c.far == 1);
  CHECK(c.nans_actual == 1);
  CHECK(c.nans_expected == 1);
  CHECK(c.max_absolute == 1);
  CHECK(c.max_relative == doctest::Approx(1.0 / 3));
  CHECK(c.worst == 3);
  CHECK(c.worst_actual == 4);
  CHECK(c.worst_expected == 3);
  CHECK(c.norm == doctest::Approx(std::sqrt(1.25) / std::sqrt(1 + 6.25 + 9)));
  // An unmatched NaN is worse than any distance.
  CHECK(compare(floats({nan, 9}), floats({1, 1}), {}).worst == 0);
}

TEST_CASE("the error norm bounds the tensor as a whole") {
  const std::vector<float> expected(100, 1.0f), actual(100, 1.01f);
  CHECK(close(actual, expected, {.absolute = 1, .norm = 0.011}));
  CHECK(!close(actual, expected, {.absolute = 1, .norm = 0.009}));
  // Nothing expected but zeros, and something else came.
  CHECK(!close({1e-10f}, {0}, {.absolute = 1, .norm = 0.5}));
}

TEST_CASE("other shapes and types are incomparable, not far") {
  HostTensor row = floats({1, 2});
  row.shape = {1, 2};
  CHECK(compare(row, floats({1, 2}), {}).incomparable == "expected f32[2], got f32[1, 2]");
  CHECK(!compare(row, floats({1, 2}), {}).ok);
}

TEST_CASE("integers are exact, also beyond the doubles") {
  HostTensor a{.dtype = DType::i64, .shape = {1}, .bytes = std::vector<std::byte>(8)};
  HostTensor b = a;
  store_i64(DType::i64, a.bytes.data(), 0, (int64_t{1} << 60) + 1);
  store_i64(DType::i64, b.bytes.data(), 0, int64_t{1} << 60);
  CHECK(!compare(a, b, default_tolerance(DType::i64)).ok);
  CHECK(compare(a, a, default_tolerance(DType::i64)).ok);
}

TEST_CASE("flat indices print per axis") {
  CHECK(index_text(0, std::vector<int64_t>{2, 3, 4}) == "[0, 0, 0]");
  CHECK(index_text(23, std::vector<int64_t>{2, 3, 4}) == "[1, 2, 3]");
  CHECK(index_text(0, {}) == "[]");
}

TEST_CASE("random tensors depend on seed and stream alone and keep their range") {
  const RandomRange range{.float_low = -1, .float_high = 1, .int_low = 5, .int_high = 9};
  for (DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16, DType::f8e4m3, DType::i64, DType::i32, DType::i8,
                      DType::u8, DType::u4, DType::i4, DType::boolean}) {
    CAPTURE(to_string(dtype));
    const HostTensor a = random_tensor(dtype, {3, 67}, 7, 0, range).value();
    CHECK(a.bytes == random_tensor(dtype, {3, 67}, 7, 0, range).value().bytes);
    CHECK(a.bytes != random_tensor(dtype, {3, 67}, 8, 0, range).value().bytes);
    CHECK(a.bytes != random_tensor(dtype, {3, 67}, 7, 1, range).value().bytes);
    double low = 1e9, high = -1e9;
    for (int64_t i = 0; i < 3 * 67; ++i) {
      const double value = load_f64(dtype, a.bytes.data(), i);
      low = std::min(low, value), high = std::max(high, value);
    }
    if (is_float(dtype)) {
      CHECK((low >= -1 && low < -0.8 && high <= 1 && high > 0.8));
    } else if (dtype == DType::boolean) {
      CHECK((low == 0 && high == 1));
    } else {
      CHECK((low == 5 && high == (dtype == DType::i4 ? 7 : 8)));
    }
  }
}

TEST_CASE("the first random numbers are fixed for all time") {
  const HostTensor t = random_tensor(DType::i64, {3}, 0, 0, {.int_low = 0, .int_high = 1'000'000}).value();
  std::vector<int64_t> got;
  for (int64_t i = 0; i < 3; ++i) got.push_back(load_i64(DType::i64, t.bytes.data(), i));
  CHECK(got == std::vector<int64_t>{652448, 701212, 387124});
}

TEST_CASE("empty ranges of random values are refused") {
  CHECK(!random_tensor(DType::f32, {1}, 0, 0, {.float_low = 1, .float_high = 1}).ok());
  CHECK(!random_tensor(DType::i32, {1}, 0, 0, {.int_low = 2, .int_high = 2}).ok());
  CHECK(!random_tensor(DType::u8, {1}, 0, 0, {.int_low = 256, .int_high = 300}).ok());
  CHECK(random_tensor(DType::i64, {1}, 0, 0, {.int_low = INT64_MIN, .int_high = INT64_MAX}).ok());
}

TEST_CASE("tensor types read as sizes and an element type joined by x") {
  CHECK(parse_tensor_type("2x3xf32")->shape == std::vector<int64_t>{2, 3});
  CHECK(parse_tensor_type("i64")->shape.empty());
  CHECK(parse_tensor_type("0xf16")->dtype == DType::f16);
  for (const char* text : {"", "2x3", "x3xf32", "2xxf32", "-1xf32", "2x3xfloat", "2.5xf32", "99999999999999999999xf32"})
    CHECK(!parse_tensor_type(text));
}

TEST_CASE("elements read as numbers of the type") {
  const auto read = [](const char* type, const char* text) { return parse_elements(*parse_tensor_type(type), text); };
  CHECK(summary(read("3xf32", "1, -2.5,1e3").value()) == "f32[3]: min -2.5, max 1000, mean 332.833; 1 -2.5 1000");
  CHECK(summary(read("2xi64", "-9223372036854775808,9223372036854775807").value()).find("9223372036854775807") !=
        std::string::npos);
  CHECK(summary(read("2x2xi8", "7").value()).find("7 7 7 7") != std::string::npos);
  CHECK(summary(read("2xbool", "true,false").value()).find("1 0") != std::string::npos);
  CHECK(summary(read("2xf32", "nan,inf").value()) == "f32[2]: min inf, max inf, mean inf, 1 nan; nan inf");
  CHECK(summary(read("0xf32", "").value()) == "f32[0]: no elements");
  CHECK(summary(read("f32", "2").value()) == "f32[]: 2");
  CHECK(!read("2xi8", "1,128").ok());
  CHECK(!read("2xu8", "1,-1").ok());
  CHECK(!read("2xbool", "1,2").ok());
  CHECK(!read("3xf32", "1,2").ok());
  CHECK(!read("2xf32", "1,x").ok());
  CHECK(!read("2xi32", "1,2.5").ok());
  CHECK(!read("4611686018427387904x4xf32", "1").ok());
}

TEST_CASE("the output hash depends on order, type, shape and bytes") {
  const HostTensor a = floats({1, 2}), b = floats({3, 4});
  HostTensor column = a;
  column.shape = {2, 1};
  HostTensor bits = a;
  bits.dtype = DType::i32;
  const auto hash = [](std::vector<HostTensor> tensors) { return hash_tensors(tensors); };
  CHECK(hash({a, b}) == hash({a, b}));
  CHECK(hash({a, b}) != hash({b, a}));
  CHECK(hash({a}) != hash({column}));
  CHECK(hash({a}) != hash({bits}));
  CHECK(hash({a}) != hash({b}));
}

TEST_CASE("the size of a tensor is exact or refused") {
  CHECK(tensor_bytes(DType::f32, std::vector<int64_t>{2, 3}).value() == 24);
  CHECK(tensor_bytes(DType::i4, std::vector<int64_t>{3}).value() == 2);
  CHECK(tensor_bytes(DType::f32, {}).value() == 4);
  CHECK(tensor_bytes(DType::f32, std::vector<int64_t>{INT64_MAX, INT64_MAX, 0}).value() == 0);
  CHECK(!tensor_bytes(DType::f32, std::vector<int64_t>{-1}).ok());
  CHECK(!tensor_bytes(DType::f32, std::vector<int64_t>{int64_t{1} << 62}).ok());
  CHECK(!tensor_bytes(DType::u8, std::vector<int64_t>{int64_t{1} << 32, int64_t{1} << 32}).ok());
}

}  // namespace
}  // namespace rtx::runtime
