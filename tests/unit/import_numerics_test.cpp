// The numerics that importers get wrong, one case for each kind of fault. Expected values are worked out in the
// comments; each case fails on the fault it names.
#include <doctest/doctest.h>

#include <cmath>

#include "tests/unit/import_apply.h"

using namespace rtx;
using namespace rtx::onnx;

namespace {

Tensor halves(std::vector<int64_t> shape, const Doubles& values) {
  Tensor tensor(DType::f16, std::move(shape));
  for (size_t i = 0; i < values.size(); ++i) tensor.set_f64(static_cast<int64_t>(i), values[i]);
  return tensor;
}

Tensor cast(const Tensor& x, DType to, std::vector<Attribute> attributes = {}) {
  attributes.push_back(attribute("to", onnx_type(to)));
  return apply(19, "Cast", {x}, std::move(attributes))[0];
}

// Resize of a vector along its only axis.
Tensor resize(const Tensor& x, Tensor scales, Tensor sizes, std::vector<Attribute> attributes) {
  ModelText text(18);
  text.input("x", onnx_f32, {std::to_string(x.shape[0])});
  const bool by_scale = scales.element_count() > 0;
  text.initializer("factor", by_scale ? scales : sizes);
  std::vector<std::string> inputs = {"x", "", "factor"};
  if (!by_scale) inputs = {"x", "", "", "factor"};
  text.node("Resize", inputs, {"y"}, std::move(attributes)).output("y");
  return run(text, {x})[0];
}

Tensor resize_by(const Tensor& x, double scale, std::vector<Attribute> attributes) {
  return resize(x, floats({1}, {scale}), Tensor(DType::i64, {0}), std::move(attributes));
}

Tensor resize_to(const Tensor& x, int64_t size, std::vector<Attribute> attributes) {
  return resize(x, Tensor(DType::f32, {0}), integers({1}, {size}), std::move(attributes));
}

}  // namespace

TEST_CASE("a float16 LayerNormalization whose variance passes 65504 is computed in float32") {
  auto result = apply(17, "LayerNormalization", {halves({1, 2}, {-300, 300}), halves({2}, {1, 1})},
                      {attribute("epsilon", 0.0f)}, {"y", "mean", "inverse"});
  CHECK(elements(result[0]) == Doubles{-1, 1});  // the variance is 90000
  CHECK(result[1].dtype == DType::f32);          // both in the stash type
  CHECK(result[2].dtype == DType::f32);
  check_close(result[2], {1.0 / 300});
}

TEST_CASE("RMSNormalization has the type of its scale, and epsilon inside the root") {
  auto wide =
      apply(23, "RMSNormalization", {halves({1, 2}, {300, 300}), floats({2}, {1, 2})}, {attribute("epsilon", 0.0f)});
  CHECK(wide[0].dtype == DType::f32);
  check_close(wide[0], {1, 2});
  check_close(apply(23, "RMSNormalization", {floats({1, 1}, {2}), floats({1}, {1})}, {attribute("epsilon", 12.0f)})[0],
              {0.5});  // 2 / sqrt(4 + 12)
}

TEST_CASE("the scale of a normalisation may be any shape that broadcasts to X") {
  Tensor x = floats({2, 1, 2}, {-1, 1, -3, 3});
  auto norm = [&](Tensor scale, int64_t axis) {
    return apply(17, "LayerNormalization", {x, std::move(scale)},
                 {attribute("epsilon", 0.0f), attribute("axis", axis)})[0];
  };
  check_close(norm(floats({}, {2}), -1), {-2, 2, -2, 2});
  check_close(norm(floats({1, 1, 2}, {2, 3}), -1), {-2, 3, -2, 3});
  check_close(norm(floats({2, 1, 2}, {1, 2, 3, 4}), -1), {-1, 2, -3, 4});
  check_close(norm(floats({1, 2}, {2, 3}), 1), {-2, 3, -2, 3});
  // From axis 0 on: one row of -1 1 -3 3, of mean 0 and variance 5.
  const double root = std::sqrt(5);
  check_close(norm(floats({2, 1, 2}, {1, 1, 1, 1}), 0), {-1 / root, 1 / root, -3 / root, 3 / root});
}

TEST_CASE("float16 reductions and products are accumulated beyond float16") {
  Tensor large = halves({1, 2}, {60000, 60000});
  CHECK(elements(apply(13, "ReduceMean", {large}, {attribute("axes", std::vector<int64_t>{1})})[0]) ==
        Doubles{60000});  // the sum is 120000
  Tensor a = halves({1, 2}, {300, 300}), b = halves({2, 1}, {300, -300});
  CHECK(elements(apply(13, "MatMul", {a, b})[0]) == Doubles{0});  // 90000 - 90000, in float16 inf - inf
}

TEST_CASE("the IsNaN guard after Softmax turns a fully masked row into zeros, and only that row") {
  ModelText text(20);
  text.input("scores", onnx_f32, {"2", "2"}).initializer("zero", floats({}, {0}));
  text.node("Softmax", {"scores"}, {"weights"}).node("IsNaN", {"weights"}, {"nan"});
  text.node("Where", {"nan", "zero", "weights"}, {"y"}).output("y");
  check_close(run(text, {floats({2, 2}, {-infinity, -infinity, 5, -infinity})})[0], {0, 0, 1, 0});
}

TEST_CASE("masks of the lowest finite number keep the arithmetic of their type") {
  const double lowest = -65504;
  Tensor mask = halves({2}, {lowest, lowest});
  CHECK(elements(apply(13, "Softmax", {mask})[0]) == Doubles{0.5, 0.5});  // finite: a uniform row, not NaN
  CHECK(elements(apply(14, "Add", {mask, halves({2}, {0, -20})})[0]) == Doubles{lowest, -infinity});
  CHECK(elements(apply(14, "Add", {mask, mask})[0]) == Doubles{-infinity, -infinity});
  CHECK(elements(cast(floats({1}, {-3.4028234663852886e38}), DType::f16)) == Doubles{-infinity});
}

TEST_CASE("operands of two types are an error that names both, whatever is declared") {
  ModelText text(17);
  text.input("x", onnx_f16, {"2"}).input("y", onnx_f32, {"2"}).node("Add", {"x", "y"}, {"z"}).output("z");
  auto result = text.import();
  REQUIRE_FALSE(result.ok());
  const std::string message = describe(result.error());
  CHECK_MESSAGE(message.find("f16") != std::string::npos, message);
  CHECK_MESSAGE(message.find("f32") != std::string::npos, message);
}

TEST_CASE("a float beyond the range of a type: infinity in 16 bits, saturation in integers, both in float8") {
  Tensor x = floats({3}, {65519, 65520, -infinity});
  CHECK(elements(cast(x, DType::f16)) == Doubles{65504, infinity, -infinity});
  // bfloat16 has 8 bits: 257 lies between 256 and 258, a tie that goes to the even 256.
  CHECK(elements(cast(floats({2}, {257, 259}), DType::bf16)) == Doubles{256, 260});
  CHECK(elements(cast(floats({3}, {300, -300, nan_value}), DType::i8)) == Doubles{127, -128, 0});

  Tensor large = floats({3}, {1000, infinity, -1e6});
  CHECK(elements(cast(large, DType::f8e4m3)) == Doubles{448, 448, -448});
  check_close(cast(large, DType::f8e4m3, {attribute("saturate", 0)}), {nan_value, nan_value, nan_value});
  CHECK(elements(cast(large, DType::f8e5m2)) == Doubles{1024, 57344, -57344});
  CHECK(elements(cast(large, DType::f8e5m2, {attribute("saturate", 0)})) == Doubles{1024, infinity, -infinity});
}

TEST_CASE("an integer cast to a narrower one drops its high bits") {
  Tensor x(DType::i32, {3});
  for (int i = 0; i < 3; ++i) x.set_i64(i, std::array<int64_t, 3>{300, -1, 65536 + 200}[static_cast<size_t>(i)]);
  CHECK(elements(cast(x, DType::u8)) == Doubles{44, 255, 200});
  CHECK(elements(cast(x, DType::i8)) == Doubles{44, -1, -56});
}

TEST_CASE("Pow of an integer by a float is an integer, of a negative by a half NaN as the root is") {
  Tensor base(DType::i32, {2});
  base.set_i64(0, 3);
  base.set_i64(1, -2);
  auto power = apply(13, "Pow", {base, floats({}, {3})})[0];
  CHECK(power.dtype == DType::i32);
  CHECK(elements(power) == Doubles{27, -8});
  check_close(apply(13, "Pow", {floats({3}, {4, 0, -4}), floats({}, {-0.5})})[0], {0.5, infinity, nan_value});
}

TEST_CASE("Gemm adds a vector C along N even where M equals N, and needs no C from opset 11 on") {
  Tensor a = floats({2, 1}, {1, 1}), b = floats({1, 2}, {0, 0});
  check_close(apply(11, "Gemm", {a, b, floats({2}, {3, 4})})[0], {3, 4, 3, 4});
  check_close(apply(11, "Gemm", {a, b, floats({1, 2}, {3, 4})})[0], {3, 4, 3, 4});
  check_close(apply(11, "Gemm", {a, b, floats({1}, {3})})[0], {3, 3, 3, 3});
  check_close(apply(11, "Gemm", {a, b})[0], {0, 0, 0, 0});
}

TEST_CASE("Einsum: capitals are letters of their own, repeated letters the diagonal, the ellipsis any axes") {
  Tensor m = floats({2, 2}, {1, 2, 3, 4}), v = floats({2}, {10, 100});
  auto einsum = [&](const char* equation, std::vector<Tensor> inputs) {
    return apply(12, "Einsum", std::move(inputs), {attribute("equation", equation)})[0];
  };
  check_close(einsum("iI,I->i", {m, v}), {210, 430});
  check_close(einsum("ii->i", {m}), {1, 4});
  check_close(einsum("ii", {m}), {5});
  check_close(einsum("ij,ij->", {floats({1, 2}, {10, 100}), m}), {640});  // an axis of 1 broadcasts: 40 + 600
  check_close(einsum("iji->j", {floats({2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8})}), {7, 11});
  check_close(einsum("aB", {m}), {1, 3, 2, 4});  // implicit output: B comes before a
  Tensor cube = floats({2, 1, 2}, {1, 2, 3, 4});
  Tensor summed = einsum("...k,k->...", {cube, v});
  CHECK(summed.shape == std::vector<int64_t>{2, 1});
  check_close(summed, {210, 430});
  // In implicit output the axes of the ellipsis come first.
  CHECK(einsum("b...", {cube}).shape == std::vector<int64_t>{1, 2, 2});
}

TEST_CASE("GroupNormalization has a scale for each group in version 18 and for each channel from 21 on") {
  Tensor x = floats({1, 4, 1}, {1, 3, 5, 9});  // groups of two: -1 1 -1 1
  auto norm = [&](int64_t opset, Tensor scale, Tensor bias) {
    return apply(opset, "GroupNormalization", {x, std::move(scale), std::move(bias)},
                 {attribute("num_groups", 2), attribute("epsilon", 0.0f)})[0];
  };
  check_close(norm(18, floats({2}, {1, 10}), floats({2}, {0, 1})), {-1, 1, -9, 11});
  check_close(norm(21, floats({4}, {1, 2, 3, 4}), floats({4}, {0, 0, 0, 1})), {-1, 2, -3, 5});
}

TEST_CASE("Resize: a given scale is used as it is, given sizes make their own") {
  Tensor x = floats({4}, {0, 1, 2, 3});
  const std::vector<Attribute> nearest = {attribute("coordinate_transformation_mode", "asymmetric"),
                                          attribute("nearest_mode", "floor")};
  check_close(resize_by(x, 0.6, nearest), {0, 1});  // floor(1 / 0.6) = 1
  check_close(resize_to(x, 2, nearest), {0, 2});    // floor(1 / 0.5) = 2
}

TEST_CASE("Resize: the coordinate modes differ") {
  Tensor x = floats({4}, {0, 1, 2, 3});
  auto linear = [&](int64_t size, const char* mode) {
    return resize_to(x, size, {attribute("mode", "linear"), attribute("coordinate_transformation_mode", mode)});
  };
  check_close(linear(1, "half_pixel"), {1.5});
  check_close(linear(1, "pytorch_half_pixel"), {0});
  check_close(linear(2, "half_pixel"), {0.5, 2.5});
  check_close(linear(2, "asymmetric"), {0, 2});
  check_close(linear(2, "align_corners"), {0, 3});
  check_close(linear(7, "align_corners"), {0, 0.5, 1, 1.5, 2, 2.5, 3});
}

TEST_CASE("Resize: cubic weights follow cubic_coeff_a, and exclude_outside renormalises at the edge") {
  // Output 4 of the doubled impulse is read at 1.75, a distance s = 0.25 from it: (a + 2) s^3 - (a + 3) s^2 + 1.
  Tensor impulse = floats({5}, {0, 0, 1, 0, 0});
  auto cubic = [&](std::vector<Attribute> attributes) {
    attributes.push_back(attribute("mode", "cubic"));
    return resize_by(impulse, 2, std::move(attributes));
  };
  CHECK(cubic({}).f64(4) == doctest::Approx(0.87890625));
  CHECK(cubic({attribute("cubic_coeff_a", -0.5f)}).f64(4) == doctest::Approx(0.8671875));
  // Output 0 of a doubled constant is read at -0.25: with the outside weights left out the rest must still sum to 1.
  Tensor ones = floats({3}, {1, 1, 1});
  check_close(resize_by(ones, 2, {attribute("mode", "cubic"), attribute("exclude_outside", 1)}), {1, 1, 1, 1, 1, 1});
}

TEST_CASE("Resize: nearest_mode decides ties") {
  Tensor x = floats({2}, {0, 1});
  auto nearest = [&](const char* mode) {
    return resize_to(x, 4,
                     {attribute("nearest_mode", mode), attribute("coordinate_transformation_mode", "asymmetric")});
  };
  // Read at 0, 0.5, 1 and 1.5.
  check_close(nearest("round_prefer_floor"), {0, 0, 1, 1});
  check_close(nearest("round_prefer_ceil"), {0, 1, 1, 1});
  check_close(nearest("floor"), {0, 0, 1, 1});
  check_close(nearest("ceil"), {0, 1, 1, 1});
}

TEST_CASE("the sigmoid forms of GELU keep their factor") {
  Tensor x = floats({1}, {2});
  check_close(apply(17, "QuickGelu", {x}, {attribute("alpha", 1.0f)}, {"y"}, "com.microsoft")[0],
              {2 / (1 + std::exp(-2.0))});
  check_close(apply(24, "Swish", {x}, {attribute("alpha", 0.5f)})[0], {2 / (1 + std::exp(-1.0))});
  check_close(apply(24, "Swish", {x})[0], {2 / (1 + std::exp(-2.0))});
}
