// What quantized, vision and onnxruntime operators compute once imported.
#include <doctest/doctest.h>

#include <cmath>

#include "tests/unit/import_apply.h"

using namespace rtx;
using namespace rtx::onnx;

namespace {

Tensor bytes(DType dtype, std::vector<int64_t> shape, const std::vector<int64_t>& values) {
  Tensor tensor(dtype, std::move(shape));
  for (size_t i = 0; i < values.size(); ++i) tensor.set_i64(i, values[i]);
  return tensor;
}

}  // namespace

TEST_CASE("QuantizeLinear rounds half to even, adds the zero point and saturates") {
  auto y = apply(13, "QuantizeLinear",
                 {floats({6}, {1, 3, 5, 1000, -1000, 0}), floats({}, {2}), bytes(DType::u8, {}, {128})});
  CHECK(y[0].dtype == DType::u8);
  CHECK(elements(y[0]) == Doubles{128, 130, 130, 255, 0, 128});
}

TEST_CASE("DequantizeLinear has a scale for each entry of its axis") {
  auto y = apply(13, "DequantizeLinear",
                 {bytes(DType::i8, {2, 2}, {1, 2, 3, -4}), floats({2}, {1, 10}), bytes(DType::i8, {2}, {0, 1})},
                 {attribute("axis", 0)});
  check_close(y[0], {1, 2, 20, -50});
}

TEST_CASE("DequantizeLinear takes one scale for a block of an axis, the last one shorter") {
  auto y = apply(21, "DequantizeLinear", {bytes(DType::i8, {1, 3}, {1, 2, 3}), floats({1, 2}, {1, 10})},
                 {attribute("axis", 1), attribute("block_size", 2)});
  check_close(y[0], {1, 2, 30});
}

TEST_CASE("DynamicQuantizeLinear has 0 in its range and survives an input of zeros") {
  auto y = apply(11, "DynamicQuantizeLinear", {floats({3}, {0, 2, 255})}, {}, {"y", "scale", "zero"});
  CHECK(elements(y[0]) == Doubles{0, 2, 255});
  check_close(y[1], {1});
  CHECK(elements(y[2]) == Doubles{0});
  y = apply(11, "DynamicQuantizeLinear", {floats({2}, {0, 0})}, {}, {"y", "scale", "zero"});
  CHECK(elements(y[0]) == Doubles{0, 0});
}

TEST_CASE("MatMulInteger subtracts zero points of rows and columns before the product") {
  Tensor a = bytes(DType::u8, {2, 2}, {11, 12, 21, 22}), b = bytes(DType::i8, {2, 2}, {1, 2, 3, 4});
  auto y = apply(10, "MatMulInteger", {a, b, bytes(DType::u8, {2}, {10, 20}), bytes(DType::i8, {2}, {1, 2})});
  CHECK(y[0].dtype == DType::i32);
  CHECK(elements(y[0]) == Doubles{4, 4, 4, 4});
}

TEST_CASE("MatMulNBits unpacks low bits first, with the middle of the range as zero") {
  // One output, K = 3 of a block of 16; the values 9, 7, 8 are 1, -1 and 0.
  Tensor packed = bytes(DType::u8, {1, 1, 8}, {0x79, 0x08, 0, 0, 0, 0, 0, 0});
  auto y = apply(17, "MatMulNBits", {floats({1, 3}, {1, 10, 100}), packed, floats({1}, {0.5})},
                 {attribute("K", 3), attribute("N", 1), attribute("bits", 4), attribute("block_size", 16)}, {"y"},
                 "com.microsoft");
  check_close(y[0], {-4.5});
}

TEST_CASE("Resize interpolates between half-pixel centres and repeats the edge") {
  ModelText text(13);
  text.input("x", onnx_f32, {"1", "1", "2"}).initializer("sizes", std::vector<int64_t>{1, 1, 4});
  text.node("Resize", {"x", "", "", "sizes"}, {"y"}, {attribute("mode", "linear")}).output("y");
  check_close(run(text, {floats({1, 1, 2}, {0, 4})})[0], {0, 1, 3, 4});
  text.model.graph.nodes[0].attributes = {attribute("mode", "linear"),
                                          attribute("coordinate_transformation_mode", "align_corners")};
  check_close(run(text, {floats({1, 1, 2}, {0, 3})})[0], {0, 1, 2, 3});
  // A scale of 0.6 makes 4 elements 2.4 long: two are computed, spread over the fractional length.
  ModelText scaled(13);
  scaled.input("x", onnx_f32, {"1", "1", "4"}).initializer("scales", floats({3}, {1, 1, 0.6}));
  scaled.node("Resize", {"x", "", "scales"}, {"y"}, text.model.graph.nodes[0].attributes).output("y");
  check_close(run(scaled, {floats({1, 1, 4}, {1, 2, 3, 4})})[0], {1, 1 + 3 / 1.4});
  text.model.graph.nodes[0].attributes = {attribute("coordinate_transformation_mode", "asymmetric"),
                                          attribute("nearest_mode", "floor")};
  check_close(run(text, {floats({1, 1, 2}, {5, 6})})[0], {5, 5, 6, 6});
}

TEST_CASE("pooling pads with what does not count") {
  Tensor x = floats({1, 1, 3}, {-1, -2, -3});
  std::vector<int64_t> two = {2}, pads = {1, 1};
  check_close(apply(12, "MaxPool", {x}, {attribute("kernel_shape", two), attribute("pads", pads)})[0],
              {-1, -1, -2, -3});
  check_close(apply(11, "AveragePool", {x}, {attribute("kernel_shape", two), attribute("pads", pads)})[0],
              {-1, -1.5, -2.5, -3});
  check_close(apply(11, "AveragePool", {x},
                    {attribute("kernel_shape", two), attribute("pads", pads), attribute("count_include_pad", 1)})[0],
              {-0.5, -1.5, -2.5, -1.5});
}

TEST_CASE("ConvTranspose spreads its input by the stride") {
  std::vector<int64_t> stride = {2};
  check_close(apply(11, "ConvTranspose", {floats({1, 1, 2}, {1, 10}), floats({1, 1, 3}, {1, 2, 3})},
                    {attribute("strides", stride)})[0],
              {1, 2, 13, 20, 30});
}

TEST_CASE("padded keys of onnxruntime's attention keep a finite weight, future keys none") {
  ModelText text(17);
  text.input("x", onnx_f32, {"1", "2", "1"}).input("mask", onnx_i32, {"1", "2"});
  text.node("MultiHeadAttention", {"x", "x", "x", "", "mask"}, {"y"}, {attribute("num_heads", 1)}, "com.microsoft");
  text.output("y");
  Tensor x = floats({1, 2, 1}, {1, 3});
  Tensor none(DType::i32, {1, 2});
  // A row of padding only is the plain softmax of its scores.
  double first = std::exp(1.0), second = std::exp(3.0);
  auto y = run(text, {x, none})[0];
  CHECK(y.f64(0) == doctest::Approx((first + 3 * second) / (first + second)).epsilon(1e-3));
  none.set_i64(0, 1);
  CHECK(run(text, {x, none})[0].f64(1) == doctest::Approx(1));
  text.model.graph.nodes[0].attributes.push_back(attribute("unidirectional", 1));
  none.set_i64(1, 1);
  CHECK(run(text, {x, none})[0].f64(0) == doctest::Approx(1));
}

TEST_CASE("GroupQueryAttention writes each row at its own length") {
  ModelText text(17);
  text.input("q", onnx_f32, {"2", "1", "1"})
      .input("k", onnx_f32, {"2", "1", "1"})
      .input("v", onnx_f32, {"2", "1", "1"});
  text.input("pk", onnx_f32, {"2", "1", "past", "1"}).input("pv", onnx_f32, {"2", "1", "past", "1"});
  text.input("lengths", onnx_i32, {"2"}).initializer("total", bytes(DType::i32, {}, {3}));
  text.node("GroupQueryAttention", {"q", "k", "v", "pk", "pv", "lengths", "total"}, {"y", "present", ""},
            {attribute("num_heads", 1), attribute("kv_num_heads", 1)}, "com.microsoft");
  text.output("y").output("present");
  // Row 0 has one key in its cache, row 1 two; all scores are equal, so that y is the mean of the values seen.
  auto result = run(
      text, {Tensor(DType::f32, {2, 1, 1}), floats({2, 1, 1}, {7, 8}), floats({2, 1, 1}, {5, 6}),
             floats({2, 1, 2, 1}, {1, 99, 3, 4}), floats({2, 1, 2, 1}, {1, 99, 3, 6}), bytes(DType::i32, {2}, {1, 2})});
  check_close(result[0], {3, 5});
  REQUIRE(result[1].shape == std::vector<int64_t>{2, 1, 3, 1});
  CHECK(result[1].f64(1) == 7);
  CHECK(result[1].f64(3) == 3);
  CHECK(result[1].f64(5) == 8);
}

TEST_CASE("TensorScatter writes at an index of each batch row, or around the end") {
  Tensor cache = floats({2, 3, 1}, {1, 2, 3, 4, 5, 6}), update = floats({2, 2, 1}, {10, 20, 30, 40});
  check_close(apply(24, "TensorScatter", {cache, update, integers({2}, {0, 1})}, {attribute("axis", 1)})[0],
              {10, 20, 3, 4, 30, 40});
  check_close(apply(24, "TensorScatter", {cache, update, integers({2}, {2, 1})},
                    {attribute("axis", 1), attribute("mode", "circular")})[0],
              {20, 2, 10, 4, 30, 40});
}

TEST_CASE("EmbedLayerNormalization gives the place where the mask first turns 0") {
  Tensor ids = bytes(DType::i32, {1, 3}, {0, 1, 0}), mask = bytes(DType::i32, {1, 3}, {1, 1, 0});
  ModelText text(17);
  text.input("ids", onnx_i32, {"1", "3"}).input("mask", onnx_i32, {"1", "3"});
  text.initializer("words", floats({2, 2}, {1, 2, 3, 4})).initializer("positions", floats({3, 2}, {0, 0, 0, 2, 0, 0}));
  text.initializer("gamma", floats({2}, {1, 1})).initializer("beta", floats({2}, {0, 0}));
  text.node("EmbedLayerNormalization", {"ids", "", "words", "positions", "", "gamma", "beta", "mask"},
            {"y", "index", "sum"}, {}, "com.microsoft");
  text.output("y").output("index").output("sum");
  auto result = run(text, {ids, mask});
  check_close(result[0], {-1, 1, -1, 1, -1, 1});
  CHECK(elements(result[1]) == Doubles{2});
  check_close(result[2], {1, 2, 3, 6, 1, 2});
}

TEST_CASE("operands of a wrong rank are refused, not read out of bounds") {
  auto refused = [](const char* op, std::vector<std::vector<std::string>> shapes, std::vector<Attribute> attributes,
                    const char* domain) {
    ModelText text(24);
    std::vector<std::string> names;
    for (size_t i = 0; i < shapes.size(); ++i) {
      names.push_back("x" + std::to_string(i));
      ValueInfo info = ModelText::value(names.back(), onnx_f32, {});
      for (const std::string& size : shapes[i]) {
        DeclaredDim dim;
        dim.value = std::stoll(size);
        info.shape->push_back(dim);
      }
      text.model.graph.inputs.push_back(info);
    }
    text.node(op, names, {"y"}, std::move(attributes), domain).output("y");
    auto result = text.import();
    REQUIRE_FALSE(result.ok());
    return result.error().first().kind;
  };
  CHECK(refused("MultiHeadAttention", {{"2"}, {"2"}, {"2"}, {"6"}}, {attribute("num_heads", 1)}, "com.microsoft") ==
        ErrorKind::invalid);
  CHECK(refused("TensorScatter", {{"2", "3", "1"}, {"2"}}, {}, "") == ErrorKind::invalid);
  CHECK(refused("Attention", {{"2"}, {"2"}, {"2"}}, {}, "") == ErrorKind::invalid);
  CHECK(refused("RotaryEmbedding", {{"2", "2"}, {"2"}, {"2"}}, {attribute("num_heads", 1)}, "") == ErrorKind::invalid);
}
