// What quantised operators compute once imported, and that their weights stay as small as they were.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "passes/pipeline.h"
#include "tests/unit/import_apply.h"

using namespace rtx;
using namespace rtx::onnx;

namespace {

Tensor integers(DType dtype, std::vector<int64_t> shape, const std::vector<int64_t>& values) {
  Tensor tensor(dtype, std::move(shape));
  for (size_t i = 0; i < values.size(); ++i) tensor.set_i64(static_cast<int64_t>(i), values[i]);
  return tensor;
}

constexpr const char* microsoft = "com.microsoft";

size_t count(const Module& module, Op op) {
  size_t n = 0;
  for (const auto& operation : module.functions[0]->block.operations()) n += operation->is(op);
  return n;
}

Diagnostic refusal(const ModelText& text) {
  auto result = text.import();
  REQUIRE(!result.ok());
  return result.error().first();
}

}  // namespace

TEST_CASE("H43: quantising saturates on both ends, for every width") {
  for (DType to : {DType::i8, DType::u8, DType::i16, DType::i4, DType::u4}) {
    CAPTURE(to_string(to));
    auto y = apply(21, "QuantizeLinear",
                   {floats({4}, {1e9, -1e9, infinity, -infinity}), floats({}, {0.5}), integers(to, {}, {1})});
    const double low = to == DType::i8 ? -128 : to == DType::i16 ? -32768 : to == DType::i4 ? -8 : 0;
    const double high = to == DType::i8    ? 127
                        : to == DType::u8  ? 255
                        : to == DType::i16 ? 32767
                        : to == DType::i4  ? 7
                                           : 15;
    CHECK(elements(y[0]) == Doubles{high, low, high, low});
  }
}

TEST_CASE("QuantizeLinear rounds before it adds the zero point: half to even of the quotient, not of the sum") {
  auto y =
      apply(13, "QuantizeLinear", {floats({4}, {0.5, 1.5, 2.5, -0.5}), floats({}, {1}), integers(DType::u8, {}, {3})});
  CHECK(elements(y[0]) == Doubles{3, 5, 5, 3});
}

TEST_CASE("QuantizeLinear divides in the type of the scale, or in `precision`") {
  // 5 / 0.1 in f16 (0.0999756): 50.01 rounds to 50; 2.6 / 0.04 is 65.02 in f32 and 65 in f16.
  Tensor x(DType::f16, {1}), scale(DType::f16, {});
  x.set_f64(0, 1.5009765625);
  scale.set_f64(0, 1.0009765625);
  // 1.49951 in f32; in f16 it is 1.5, a tie, which rounds to 2.
  CHECK(elements(apply(23, "QuantizeLinear", {x, scale})[0]) == Doubles{std::nearbyint(1.5)});
  CHECK(elements(apply(23, "QuantizeLinear", {x, scale}, {attribute("precision", 1)})[0]) == Doubles{1});
}

TEST_CASE("QuantizeLinear to f8 saturates or not") {
  auto f8 = [](int64_t saturate) {
    return apply(19, "QuantizeLinear", {floats({2}, {1000, 3.3}), floats({}, {1}), Tensor::scalar(DType::f8e4m3, 0)},
                 {attribute("saturate", saturate)});
  };
  check_close(f8(1)[0], {448, 3.25});
  check_close(f8(0)[0], {nan_value, 3.25});
}

TEST_CASE("DequantizeLinear: blocks with zero points, int4, output_dtype") {
  auto y = apply(21, "DequantizeLinear",
                 {integers(DType::i4, {2, 3}, {-8, 7, 1, 2, 3, 4}), floats({2, 2}, {1, 10, 100, 1000}),
                  integers(DType::i4, {2, 2}, {1, -1, 0, 2})},
                 {attribute("axis", -1), attribute("block_size", 2)});
  check_close(y[0], {-9, 6, 20, 200, 300, 2000});
  y = apply(23, "DequantizeLinear", {integers(DType::u8, {1}, {255}), floats({}, {0.123})},
            {attribute("output_dtype", 10)});
  CHECK(y[0].dtype == DType::f16);
  check_close(y[0], {31.359375});
}

TEST_CASE("DequantizeLinear of int32 does not overflow in the difference") {
  auto y = apply(13, "DequantizeLinear",
                 {integers(DType::i32, {1}, {2147483647}), floats({}, {1}), integers(DType::i32, {}, {-2147483648})});
  check_close(y[0], {4294967296.0});
}

TEST_CASE("a scale that does not fit its axis or its blocks is refused") {
  ModelText text(21);
  text.input("x", onnx_f32, {"2", "6"}).initializer("scale", floats({2, 2}, {1, 2, 3, 4}));
  text.node("QuantizeLinear", {"x", "scale"}, {"y"}, {attribute("axis", 1), attribute("block_size", 2)}).output("y");
  CHECK(refusal(text).id == "quantization_c1");
  text.model.graph.nodes[0].attributes = {attribute("axis", 1), attribute("block_size", -1)};
  CHECK(refusal(text).id == "E321");
  text.model.graph.nodes[0].attributes = {attribute("axis", 1), attribute("output_dtype", 4)};
  CHECK(refusal(text).message.find("uint16") != std::string::npos);
}

TEST_CASE("H48: DynamicQuantizeLinear holds 0 in its range and gives zeros their zero") {
  auto y = apply(11, "DynamicQuantizeLinear", {floats({3}, {-1, 0, 254})}, {}, {"y", "scale", "zero"});
  CHECK(elements(y[0]) == Doubles{0, 1, 255});
  check_close(y[1], {1});
  CHECK(elements(y[2]) == Doubles{1});
  y = apply(11, "DynamicQuantizeLinear", {floats({3}, {5, 10, 255})}, {}, {"y", "scale", "zero"});
  CHECK(elements(y[0]) == Doubles{5, 10, 255});
  y = apply(11, "DynamicQuantizeLinear", {floats({2}, {0, 0})}, {}, {"y", "scale", "zero"});
  CHECK(elements(y[0]) == Doubles{0, 0});
  CHECK(elements(y[2]) == Doubles{0});
  CHECK(std::isfinite(y[1].f64(0)));
}

TEST_CASE("H48: MatMulInteger takes vectors and zero points of rows and columns, of either sign") {
  auto y = apply(10, "MatMulInteger",
                 {integers(DType::i8, {2}, {-3, 4}), integers(DType::u8, {2, 2}, {250, 1, 5, 9}),
                  integers(DType::i8, {}, {-1}), integers(DType::u8, {2}, {0, 9})});
  CHECK(y[0].shape == std::vector<int64_t>{2});
  CHECK(elements(y[0]) == Doubles{-2 * 250 + 5 * 5, -2 * -8});
  y = apply(
      10, "MatMulInteger",
      {integers(DType::u8, {2, 1}, {7, 9}), integers(DType::i8, {1, 1}, {-2}), integers(DType::u8, {2}, {10, 0})});
  CHECK(elements(y[0]) == Doubles{6, -18});
}

TEST_CASE("QLinearMatMul multiplies by one factor, rounds half to even and saturates") {
  auto run = [](double y_scale) {
    return elements(apply(10, "QLinearMatMul",
                          {integers(DType::u8, {1, 1}, {5}), floats({}, {0.5}), integers(DType::u8, {}, {0}),
                           integers(DType::i8, {1, 2}, {1, -7}), floats({}, {1}), integers(DType::i8, {}, {0}),
                           floats({}, {static_cast<double>(y_scale)}), integers(DType::i8, {}, {1})})[0]);
  };
  CHECK(run(1) == Doubles{3, -17});  // 2.5 and -17.5 before the zero point
  CHECK(run(0.01) == Doubles{127, -128});
}

TEST_CASE("ConvInteger pads with the zero point") {
  auto y = apply(10, "ConvInteger",
                 {integers(DType::u8, {1, 1, 3}, {2, 3, 4}), integers(DType::u8, {1, 1, 3}, {1, 1, 1}),
                  integers(DType::u8, {}, {1})},
                 {attribute("pads", std::vector<int64_t>{1, 1})});
  CHECK(y[0].dtype == DType::i32);
  CHECK(elements(y[0]) == Doubles{3, 6, 5});
}

TEST_CASE("QLinearConv has a scale and a zero point for each output, and a bias in i32") {
  auto y = apply(10, "QLinearConv",
                 {integers(DType::u8, {1, 1, 2}, {10, 20}), floats({}, {0.5}), integers(DType::u8, {}, {0}),
                  integers(DType::i8, {2, 1, 1}, {1, 3}), floats({2}, {1, 2}), integers(DType::i8, {2}, {0, 1}),
                  floats({}, {1}), integers(DType::u8, {}, {100}), integers(DType::i32, {2}, {2, -100})});
  CHECK(elements(y[0]) == Doubles{106, 111, 20, 40});
}

TEST_CASE("H49: MatMulNBits takes every form of zero points, scales and g_idx") {
  // N = 1, K = 20 in blocks of 16: values 9 in the first block, 5 in the second; the tail of it is ignored.
  std::vector<int64_t> bytes(16, 0x99);
  for (size_t i = 8; i < 16; ++i) bytes[i] = i < 10 ? 0x55 : 0xff;
  const Tensor packed = integers(DType::u8, {1, 2, 8}, bytes);
  const std::vector<Attribute> attributes = {attribute("K", 20), attribute("N", 1), attribute("bits", 4),
                                             attribute("block_size", 16)};
  const Tensor a = floats({1, 20}, std::vector<double>(20, 1));
  auto run = [&](const Tensor& zero) {
    return elements(
        apply(17, "MatMulNBits", {a, packed, floats({1, 2}, {1, 10}), zero}, attributes, {"y"}, microsoft)[0]);
  };
  CHECK(run(integers(DType::u8, {1, 1}, {0x48})) == Doubles{16 * 1 + 4 * 10});  // low bits first: 8, then 4
  CHECK(run(integers(DType::u8, {1}, {0x48})) == Doubles{56});                  // flat
  check_close(apply(17, "MatMulNBits", {a, packed, floats({2}, {1, 10}), floats({1, 2}, {8.5, 4})}, attributes, {"y"},
                    microsoft)[0],
              {16 * 0.5 + 40});
  // No zero point: 8. g_idx gives every second channel to the other block's scale.
  check_close(apply(17, "MatMulNBits", {a, packed, floats({1, 2}, {1, 10})}, attributes, {"y"}, microsoft)[0],
              {16 - 3 * 4 * 10});
  ModelText text(17);
  std::vector<int64_t> groups;
  for (int64_t i = 0; i < 20; ++i) groups.push_back(i % 2);
  text.input("a", onnx_f32, {"1", "20"}).initializer("b", packed).initializer("s", floats({1, 2}, {1, 10}));
  text.initializer("g", integers(DType::i32, {20}, groups));
  text.node("MatMulNBits", {"a", "b", "s", "", "g"}, {"y"}, attributes, microsoft).output("y");
  check_close(onnx::run(text, {a})[0], {8 * 1 + 8 * 10 - 2 * 3 - 2 * 30});
}

TEST_CASE("H49: prepacked weights and sizes that leave int64 are refused") {
  auto model = [](int64_t k, int64_t block, int64_t prepacked) {
    ModelText text(17);
    text.input("a", onnx_f32, {"1", "16"}).initializer("b", integers(DType::u8, {1, 1, 8}, std::vector<int64_t>(8, 0)));
    text.initializer("s", floats({1, 1}, {1}));
    text.node("MatMulNBits", {"a", "b", "s"}, {"y"},
              {attribute("K", k), attribute("N", 1), attribute("bits", 4), attribute("block_size", block),
               attribute("weight_prepacked", prepacked)},
              microsoft);
    text.output("y");
    return text;
  };
  CHECK(refusal(model(16, 16, 1)).id == "E401");
  CHECK(refusal(model(int64_t{1} << 62, 16, 0)).id == "E321");
  CHECK(refusal(model(16, int64_t{1} << 62, 0)).id == "E321");
  CHECK(refusal(model(16, 24, 0)).id == "E321");
}

TEST_CASE("GatherBlockQuantized looks up packed rows and dequantises what it found") {
  std::vector<int64_t> bytes(16, 0x21);
  bytes[8] = 0x4f;
  ModelText text(17);
  text.input("i", onnx_i64, {"2"}).initializer("t", integers(DType::u8, {2, 8}, bytes));
  text.initializer("s", floats({2, 1}, {1, 10})).initializer("z", integers(DType::u8, {2, 1}, {0x01, 0x02}));
  text.node("GatherBlockQuantized", {"t", "i", "s", "z"}, {"y"},
            {attribute("bits", 4), attribute("block_size", 16), attribute("quantize_axis", 1)}, microsoft);
  text.output("y");
  const Tensor y = onnx::run(text, {Tensor::vector({1, -2})})[0];
  CHECK(y.shape == std::vector<int64_t>{2, 16});
  CHECK(y.f64(0) == 130);
  CHECK(y.f64(1) == 20);
  CHECK(y.f64(2) == -10);
  CHECK(y.f64(16) == 0);
  CHECK(y.f64(17) == 1);
}

TEST_CASE("QGemm: transposes, alpha, a bias in i32, and a float result without y_scale") {
  const std::vector<Tensor> inputs = {
      integers(DType::u8, {2, 1}, {3, 4}),        floats({}, {0.5}),   integers(DType::u8, {}, {1}),
      integers(DType::i8, {2, 2}, {1, 2, -3, 4}), floats({2}, {1, 2}), integers(DType::i8, {2}, {0, 1}),
      integers(DType::i32, {2}, {5, -5})};
  const std::vector<Attribute> attributes = {attribute("transA", 1), attribute("transB", 1), attribute("alpha", 2.0f)};
  // A' = [2, 3]; B' = [[1, 2], [-4, 3]]; sums 8 + 5 and 1 - 5.
  check_close(apply(17, "QGemm", inputs, attributes, {"y"}, microsoft)[0], {13, -8});
  std::vector<Tensor> all = inputs;
  all.push_back(floats({}, {2}));
  all.push_back(integers(DType::i8, {}, {-1}));
  CHECK(elements(apply(17, "QGemm", all, attributes, {"y"}, microsoft)[0]) == Doubles{5, -5});
}

TEST_CASE("onnxruntime's QLinear operators compute on the dequantised values") {
  const Tensor x = integers(DType::i8, {1, 1, 4}, {-4, 0, 4, 8});
  auto unary = [&](const char* op, std::vector<Attribute> attributes, double y_scale) {
    return elements(apply(
        17, op,
        {x, floats({}, {0.5}), integers(DType::i8, {}, {0}), floats({}, {y_scale}), integers(DType::i8, {}, {-10})},
        std::move(attributes), {"y"}, microsoft)[0]);
  };
  CHECK(unary("QLinearLeakyRelu", {attribute("alpha", 0.5f)}, 0.25) == Doubles{-14, -10, -2, 6});
  CHECK(unary("QLinearSigmoid", {}, 0.01) == Doubles{2, 40, 78, 88});
  CHECK(unary("QLinearGlobalAveragePool", {}, 0.25) == Doubles{-6});
  CHECK(unary("QLinearGlobalAveragePool", {attribute("channels_last", 1)}, 0.5) == Doubles{-14, -10, -6, -2});
  CHECK(unary("QLinearAveragePool", {attribute("kernel_shape", std::vector<int64_t>{2})}, 0.5) == Doubles{-12, -8, -4});
  CHECK(unary("QLinearReduceMean", {attribute("axes", std::vector<int64_t>{-1}), attribute("keepdims", 0)}, 0.25) ==
        Doubles{-6});
  CHECK(unary("QLinearSoftmax", {attribute("axis", 0), attribute("opset", 13)}, 0.1) == Doubles{0, 0, 0, 0});
  // Before opset 13 all axes from this one on are one: e^-2, 1, e^2 and e^4 of 63.12.
  CHECK(unary("QLinearSoftmax", {attribute("axis", 0), attribute("opset", 12)}, 0.01) == Doubles{-10, -8, 2, 76});
  CHECK(elements(apply(17, "QLinearWhere",
                       {integers(DType::boolean, {2}, {1, 0}), integers(DType::u8, {1}, {10}), floats({}, {1}),
                        integers(DType::u8, {}, {0}), integers(DType::u8, {2}, {20, 30}), floats({}, {0.5}),
                        integers(DType::u8, {}, {10}), floats({}, {2}), integers(DType::u8, {}, {1})},
                       {}, {"y"}, microsoft)[0]) == Doubles{6, 6});
  CHECK(elements(apply(17, "QLinearConcat",
                       {floats({}, {1}), integers(DType::u8, {}, {0}), integers(DType::u8, {1}, {9}), floats({}, {2}),
                        integers(DType::u8, {}, {1}), integers(DType::u8, {1}, {7}), floats({}, {1}),
                        integers(DType::u8, {}, {0})},
                       {attribute("axis", 0)}, {"y"}, microsoft)[0]) == Doubles{16, 7});
}

TEST_CASE("a quantised weight stays quantised through the passes") {
  ModelText text(21);
  Tensor weight(DType::i8, {32, 16}), packed(DType::u8, {8, 1, 8});
  text.input("x", onnx_f32, {"2", "32"})
      .initializer("w", weight)
      .initializer("s", floats({16}, std::vector<double>(16, 0.1)));
  text.initializer("b", packed).initializer("bs", floats({8, 1}, std::vector<double>(8, 1)));
  text.node("DequantizeLinear", {"w", "s"}, {"dw"}, {attribute("axis", 1)});
  text.node("MatMul", {"x", "dw"}, {"h"});
  text.node("MatMulNBits", {"h", "b", "bs"}, {"y"},
            {attribute("K", 16), attribute("N", 8), attribute("bits", 4), attribute("block_size", 16)}, microsoft);
  text.output("y");
  auto result = text.import();
  REQUIRE_MESSAGE(result.ok(), describe(result.error()));
  REQUIRE(run_canonical_pipeline(*result->module));
  CHECK(count(*result->module, Op::dequantize) == 2);
  CHECK(count(*result->module, Op::unpack_bits) == 1);
  int64_t bytes = 0;
  for (const auto& operation : result->module->functions[0]->block.operations()) {
    if (!operation->is(Op::weight)) continue;
    const Type& type = operation->result()->type;
    bytes += *packed_bytes(type.dtype, type.element_count().constant());
  }
  CHECK(bytes <= 32 * 16 + 16 * 4 + 64 + 8 * 4);
}

TEST_CASE("GroupQueryAttention keeps its cache quantised and attends to what it stands for") {
  auto run_with = [](DType stored, int64_t bits, const char* kind, const Tensor& scale) {
    ModelText text(17);
    const std::string size = bits == 4 ? "1" : "2";
    for (const char* name : {"q", "k", "v"}) text.input(name, onnx_f32, {"1", "1", "2"});
    for (const char* name : {"pk", "pv"}) text.input(name, onnx_type(stored), {"1", "1", "0", size});
    text.initializer("lengths", integers(DType::i32, {1}, {0})).initializer("total", integers(DType::i32, {}, {1}));
    text.initializer("scale", scale);
    text.node("GroupQueryAttention",
              {"q", "k", "v", "pk", "pv", "lengths", "total", "", "", "", "", "", "scale", "scale"}, {"y", "nk", "nv"},
              {attribute("num_heads", 1), attribute("kv_num_heads", 1), attribute("k_quant_type", kind),
               attribute("v_quant_type", kind), attribute("kv_cache_bit_width", bits)},
              microsoft);
    text.output("y").output("nk").output("nv");
    const Tensor past(stored, {1, 1, 0, bits == 4 ? 1 : 2});
    return onnx::run(
        text, {floats({1, 1, 2}, {1, 2}), floats({1, 1, 2}, {0.6, -90}), floats({1, 1, 2}, {1.3, -0.2}), past, past});
  };
  auto y = run_with(DType::i8, 8, "PER_TENSOR", floats({1}, {0.5}));
  check_close(y[0], {1.5, 0});
  CHECK(elements(y[1]) == Doubles{1, -128});
  CHECK(elements(y[2]) == Doubles{3, 0});
  y = run_with(DType::i8, 8, "PER_CHANNEL", floats({1, 1, 1, 2}, {0.5, 0.1}));
  check_close(y[0], {1.5, -0.2});
  CHECK(elements(y[2]) == Doubles{3, -2});
  // Two values a byte, low half first, each plus 8.
  y = run_with(DType::u8, 4, "PER_TENSOR", floats({1}, {0.5}));
  check_close(y[0], {1.5, 0});
  CHECK(elements(y[1]) == Doubles{0x09});
  CHECK(elements(y[2]) == Doubles{0x8b});
}

TEST_CASE("GatherBlockQuantized gives zeros for an index outside the axis") {
  ModelText text(17);
  text.input("i", onnx_i64, {"3"}).initializer("t", integers(DType::u8, {2, 16}, std::vector<int64_t>(32, 130)));
  text.initializer("s", floats({2, 1}, {1, 10}));
  text.node("GatherBlockQuantized", {"t", "i", "s"}, {"y"}, {attribute("bits", 8), attribute("block_size", 16)},
            microsoft);
  text.output("y");
  const Tensor y = onnx::run(text, {Tensor::vector({2, -1, -3})})[0];
  CHECK(y.f64(0) == 0);
  CHECK(y.f64(16) == 20);
  CHECK(y.f64(32) == 0);
}
