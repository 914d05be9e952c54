// Operators that scatter, order and choose elements, and the pooling and block operators next to them.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/unit/import_apply.h"

using namespace rtx;
using namespace rtx::onnx;

namespace {

using Integers = std::vector<int64_t>;

Tensor of(DType dtype, std::vector<int64_t> shape, const std::vector<int64_t>& values) {
  Tensor tensor(dtype, std::move(shape));
  for (size_t i = 0; i < values.size(); ++i) tensor.set_i64(static_cast<int64_t>(i), values[i]);
  return tensor;
}

std::string refused_id(const ModelText& text) {
  auto result = text.import();
  REQUIRE_FALSE(result.ok());
  return std::string(result.error().first().id);
}

}  // namespace

TEST_CASE("bitwise operators and shifts act on every bit of the type") {
  Tensor a = of(DType::u8, {3}, {0b1100, 255, 1}), b = of(DType::u8, {3}, {0b1010, 1, 9});
  CHECK(elements(apply(18, "BitwiseAnd", {a, b})[0]) == Doubles{0b1000, 1, 1});
  CHECK(elements(apply(18, "BitwiseOr", {a, b})[0]) == Doubles{0b1110, 255, 9});
  CHECK(elements(apply(18, "BitwiseXor", {a, b})[0]) == Doubles{0b0110, 254, 8});
  CHECK(elements(apply(18, "BitwiseNot", {of(DType::i8, {2}, {0, 5})})[0]) == Doubles{-1, -6});
  CHECK(elements(apply(11, "BitShift", {a, b}, {attribute("direction", "LEFT")})[0]) == Doubles{0, 254, 0});
  CHECK(elements(apply(11, "BitShift", {a, b}, {attribute("direction", "RIGHT")})[0]) == Doubles{0, 127, 0});
}

TEST_CASE("ScatterElements wraps negative indices, and the last of several updates for a place stays") {
  Tensor x = floats({2, 3}, {0, 0, 0, 0, 0, 0}), u = floats({1, 3}, {1, 2, 3});
  for (auto [opset, op] : {std::pair(9, "Scatter"), std::pair(11, "ScatterElements"), std::pair(18, "ScatterElements")})
    CHECK(elements(apply(opset, op, {x, integers({1, 3}, {1, -1, 0}), u})[0]) == Doubles{0, 0, 3, 1, 2, 0});
  CHECK(elements(apply(13, "ScatterElements", {x, integers({1, 3}, {1, 1, -2}), u}, {attribute("axis", -1)})[0]) ==
        Doubles{0, 3, 0, 0, 0, 0});
}

TEST_CASE("scatters combine updates in their order, of bools the sum is or, the product is and") {
  Tensor x = floats({2}, {1, 2}), i = integers({3}, {0, 0, 1}), u = floats({3}, {5, 7, -3});
  auto reduced = [&](const char* how) {
    return elements(apply(18, "ScatterElements", {x, i, u}, {attribute("reduction", how)})[0]);
  };
  CHECK(reduced("add") == Doubles{13, -1});
  CHECK(reduced("mul") == Doubles{35, -6});
  CHECK(reduced("min") == Doubles{1, -3});
  CHECK(reduced("max") == Doubles{7, 2});
  Tensor nd = integers({3, 1}, {0, 0, 1});
  CHECK(elements(apply(16, "ScatterND", {x, nd, u}, {attribute("reduction", "add")})[0]) == Doubles{13, -1});
  Tensor yes = of(DType::boolean, {2}, {0, 1}), no = of(DType::boolean, {3}, {0, 1, 0});
  CHECK(elements(apply(18, "ScatterND", {yes, nd, no}, {attribute("reduction", "add")})[0]) == Doubles{1, 1});
  CHECK(elements(apply(18, "ScatterND", {yes, nd, no}, {attribute("reduction", "mul")})[0]) == Doubles{0, 0});
}

TEST_CASE("a constant scatter index outside is an error, and so is a reduction that the version does not have") {
  auto model = [](int64_t opset, int64_t index, const char* reduction) {
    ModelText text(opset);
    text.input("x", onnx_f32, {"2"}).input("u", onnx_f32, {"1"});
    text.initializer("i", of(DType::i64, {1, 1}, {index}));
    text.node("ScatterND", {"x", "i", "u"}, {"y"}, {attribute("reduction", reduction)}).output("y");
    return text;
  };
  CHECK(model(16, -2, "add").import().ok());
  CHECK(refused_id(model(16, 2, "add")) == "E333");
  CHECK(refused_id(model(16, -3, "add")) == "E333");
  CHECK(refused_id(model(16, 0, "max")) == "E321");
  CHECK(refused_id(model(18, 0, "most")) == "E321");
}

TEST_CASE("a size scattered into a shape stays a size, with a reduction it is not taken as one") {
  auto model = [](const char* reduction) {
    ModelText text;
    text.input("x", onnx_f32, {"n", "4"}).initializer("shape", Integers{-1, 2, 1}).initializer("u", Integers{2});
    text.initializer("i", of(DType::i64, {1, 1}, {2}));
    text.node("ScatterND", {"shape", "i", "u"}, {"s"}, {attribute("reduction", reduction)});
    text.node("Reshape", {"x", "s"}, {"y"}).output("y");
    return run(text, {floats({3, 4}, Doubles(12, 1))})[0].shape;
  };
  CHECK(model("none") == Integers{3, 2, 2});
  CHECK(model("mul") == Integers{3, 2, 2});  // 1 * 2, of constants
}

TEST_CASE("TopK orders equal elements by index, takes NaN as largest, and k from attribute, input or shape") {
  Tensor x = floats({1, 5}, {3, nan_value, 1, 3, 2});
  auto first = apply(1, "TopK", {x}, {attribute("k", 3)}, {"v", "i"});
  check_close(first[0], {nan_value, 3, 3});
  CHECK(elements(first[1]) == Doubles{1, 0, 3});
  ModelText text(11);
  text.input("x", onnx_f32, {"n", "5"}).input("z", onnx_f32, {"k"});
  text.node("Shape", {"z"}, {"count"});
  text.node("TopK", {"x", "count"}, {"v", "i"}, {attribute("largest", 0), attribute("sorted", 0)});
  text.output("v").output("i");
  auto smallest = run(text, {x, floats({2}, {0, 0})});
  check_close(smallest[0], {1, 2});
  CHECK(elements(smallest[1]) == Doubles{2, 4});
  CHECK(smallest[1].dtype == DType::i64);
  ModelText many(11);
  many.input("x", onnx_f32, {"5"}).initializer("k", Integers{6});
  many.node("TopK", {"x", "k"}, {"v", "i"}).output("v");
  CHECK(refused_id(many) == "topk_c1");
}

TEST_CASE("NonZero, Compress and Unique need constants, and say so") {
  for (const char* op : {"NonZero", "Unique"}) {
    ModelText text(13);
    text.input("x", onnx_f32, {"4"}).node(op, {"x"}, {"y"}).output("y");
    auto result = text.import();
    REQUIRE_FALSE(result.ok());
    CHECK(result.error().first().id == "E402");
    CHECK(result.error().first().message.find("the shape of the result depends on the data") != std::string::npos);
  }
  ModelText text(13);
  text.initializer("x", floats({2, 2}, {0, nan_value, 3, 0})).node("NonZero", {"x"}, {"y"}).output("y");
  Tensor y = run(text, {})[0];
  CHECK(y.shape == Integers{2, 2});
  CHECK(elements(y) == Doubles{0, 1, 1, 0});
}

TEST_CASE("Compress takes where a constant condition holds, along an axis or of everything flat") {
  auto model = [](std::vector<Attribute> attributes, std::vector<int64_t> condition) {
    ModelText text(11);
    int64_t count = static_cast<int64_t>(condition.size());
    text.input("x", onnx_f32, {"2", "3"}).initializer("c", of(DType::boolean, {count}, condition));
    text.node("Compress", {"x", "c"}, {"y"}, std::move(attributes)).output("y");
    return text;
  };
  const std::vector<Tensor> x = {floats({2, 3}, {1, 2, 3, 4, 5, 6})};
  CHECK(elements(run(model({attribute("axis", -1)}, {0, 1, 1}), x)[0]) == Doubles{2, 3, 5, 6});
  CHECK(elements(run(model({attribute("axis", 0)}, {0, 1}), x)[0]) == Doubles{4, 5, 6});
  CHECK(elements(run(model({}, {1, 0, 0, 0, 1}), x)[0]) == Doubles{1, 5});
  CHECK(refused_id(model({attribute("axis", 0)}, {0, 0, 1})) == "E333");
}

TEST_CASE("Unique gives the slices, where they are first, the number of each, and their counts") {
  auto unique = [](Tensor x, std::vector<Attribute> attributes) {
    ModelText text(11);
    text.initializer("x", x).node("Unique", {"x"}, {"y", "first", "which", "count"}, std::move(attributes));
    for (const char* name : {"y", "first", "which", "count"}) text.output(name);
    return run(text, {});
  };
  Tensor x = floats({6}, {2, 1, 1, 3, 4, 3});
  auto sorted = unique(x, {});
  CHECK(elements(sorted[0]) == Doubles{1, 2, 3, 4});
  CHECK(elements(sorted[1]) == Doubles{1, 0, 3, 4});
  CHECK(elements(sorted[2]) == Doubles{1, 0, 0, 2, 3, 2});
  CHECK(elements(sorted[3]) == Doubles{2, 1, 2, 1});
  auto as_found = unique(x, {attribute("sorted", 0)});
  CHECK(elements(as_found[0]) == Doubles{2, 1, 3, 4});
  CHECK(elements(as_found[1]) == Doubles{0, 1, 3, 4});
  CHECK(elements(as_found[2]) == Doubles{0, 1, 1, 2, 3, 2});
  CHECK(elements(as_found[3]) == Doubles{1, 2, 2, 1});
  auto columns = unique(floats({2, 3}, {1, 0, 1, 2, 2, 2}), {attribute("axis", 1)});
  CHECK(columns[0].shape == Integers{2, 2});
  CHECK(elements(columns[0]) == Doubles{0, 1, 2, 2});
  CHECK(elements(columns[2]) == Doubles{1, 0, 1});
}

TEST_CASE("MaxPool gives the place of each maximum in the whole input, row-major or column-major, never in padding") {
  Tensor x = floats({1, 2, 2, 3}, {1, 5, 2, 4, 3, 6, -infinity, -infinity, 0, -infinity, -infinity, nan_value});
  std::vector<Attribute> window = {attribute("kernel_shape", Integers{2, 2}), attribute("pads", Integers{1, 1, 0, 0})};
  auto rows = apply(12, "MaxPool", {x}, window, {"y", "i"});
  check_close(rows[0], {1, 5, 5, 4, 5, 6, -infinity, -infinity, 0, -infinity, -infinity, nan_value});
  CHECK(elements(rows[1]) == Doubles{0, 1, 1, 3, 1, 5, 6, 6, 8, 6, 6, 11});
  window.push_back(attribute("storage_order", 1));
  auto columns = apply(8, "MaxPool", {x}, window, {"y", "i"});
  CHECK(elements(columns[1]) == Doubles{0, 2, 2, 1, 2, 5, 6, 6, 10, 6, 6, 11});
}

TEST_CASE("MaxUnpool puts elements back and grows to output_shape at the end") {
  Tensor x = floats({1, 1, 2, 2}, {1, 2, 3, 4}), i = integers({1, 1, 2, 2}, {5, 7, 13, 15});
  std::vector<Attribute> window = {attribute("kernel_shape", Integers{2, 2}), attribute("strides", Integers{2, 2})};
  CHECK(elements(apply(11, "MaxUnpool", {x, i}, window)[0]) == Doubles{0, 0, 0, 0, 0, 1, 0, 2, 0, 0, 0, 0, 0, 3, 0, 4});
  ModelText text(11);
  text.input("x", onnx_f32, {"1", "1", "2", "2"}).input("i", onnx_i64, {"1", "1", "2", "2"});
  text.initializer("shape", Integers{1, 1, 4, 5});
  text.node("MaxUnpool", {"x", "i", "shape"}, {"y"}, window).output("y");
  CHECK(elements(run(text, {x, i})[0]) == Doubles{0, 0, 0, 0, 0, 0, 1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 3, 0, 4, 0});
}

TEST_CASE("LpPool, LRN and MeanVarianceNormalization follow their formulas") {
  Tensor x = floats({1, 1, 4}, {3, -4, 0, 1});
  check_close(apply(2, "LpPool", {x}, {attribute("kernel_shape", Integers{2}), attribute("strides", Integers{2})})[0],
              {5, 1});
  check_close(apply(18, "LpPool", {x}, {attribute("kernel_shape", Integers{2}), attribute("p", 1)})[0], {7, 4, 1});
  check_close(apply(2, "GlobalLpPool", {x}, {attribute("p", 3)})[0], {std::cbrt(27 + 64 + 1)});
  // Channels 0..2 with one neighbour after each: size 2 takes none before.
  check_close(
      apply(13, "LRN", {floats({1, 3, 1}, {1, 2, 3})},
            {attribute("size", 2), attribute("alpha", 2.0f), attribute("beta", 1.0f), attribute("bias", 0.0f)})[0],
      {1.0 / 5, 2.0 / 13, 3.0 / 9});
  check_close(apply(13, "MeanVarianceNormalization", {floats({1, 2, 1, 2}, {1, 3, 5, 5})})[0], {-1, 1, 0, 0});
}

TEST_CASE("DepthToSpace and SpaceToDepth undo each other in both modes") {
  Tensor x(DType::f32, {1, 8, 1, 2});
  for (int64_t i = 0; i < 16; ++i) x.set_f64(i, static_cast<double>(i));
  Attribute block = attribute("blocksize", 2);
  Tensor dcr = apply(1, "DepthToSpace", {x}, {block})[0];
  CHECK(dcr.shape == Integers{1, 2, 2, 4});
  CHECK(elements(dcr) == Doubles{0, 4, 1, 5, 8, 12, 9, 13, 2, 6, 3, 7, 10, 14, 11, 15});
  CHECK(apply(13, "SpaceToDepth", {dcr}, {block})[0] == x);
  Tensor crd = apply(11, "DepthToSpace", {x}, {block, attribute("mode", "CRD")})[0];
  CHECK(elements(crd) == Doubles{0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11, 12, 14, 13, 15});
  CHECK(apply(28, "SpaceToDepth", {crd}, {block, attribute("mode", "CRD")})[0] == x);
}

TEST_CASE("CenterCropPad cuts and pads about the centre, ReverseSequence turns the first elements") {
  ModelText text(18);
  text.input("x", onnx_f32, {"5", "2"}).initializer("shape", Integers{2, 5});
  text.node("CenterCropPad", {"x", "shape"}, {"y"}).output("y");
  CHECK(elements(run(text, {floats({5, 2}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9})})[0]) ==
        Doubles{0, 2, 3, 0, 0, 0, 4, 5, 0, 0});
  Tensor x = floats({3, 2}, {1, 2, 3, 4, 5, 6}), lengths = integers({2}, {2, 3});
  CHECK(elements(apply(10, "ReverseSequence", {x, lengths})[0]) == Doubles{3, 6, 1, 4, 5, 2});
  CHECK(elements(apply(10, "ReverseSequence", {x, integers({3}, {1, 2, 0})},
                       {attribute("time_axis", 1), attribute("batch_axis", 0)})[0]) == Doubles{1, 2, 4, 3, 5, 6});
}

TEST_CASE("CumProd runs forwards, backwards and without the element itself, at any length up to the bound") {
  for (int64_t n : {0, 1, 2, 5}) {
    for (int form = 0; form < 4; ++form) {
      bool exclusive = form % 2 == 1, reverse = form >= 2;
      ModelText text(26);
      text.input("x", onnx_f32, {"n"}).initializer("axis", Tensor::scalar(DType::i64, 0));
      text.node("CumProd", {"x", "axis"}, {"y"}, {attribute("exclusive", exclusive), attribute("reverse", reverse)});
      text.output("y");
      Doubles x, want(static_cast<size_t>(n));
      for (int64_t i = 0; i < n; ++i) x.push_back(static_cast<double>(i + 2));
      double product = 1;
      for (int64_t k = 0; k < n; ++k) {
        size_t i = static_cast<size_t>(reverse ? n - 1 - k : k);
        want[i] = exclusive ? product : product * x[i];
        product *= x[i];
      }
      check_close(run(text, {floats({n}, x)})[0], want);
    }
  }
}

TEST_CASE("EyeLike, Hardmax, Shrink and the window functions") {
  Tensor x = floats({2, 3}, {1, 4, 4, 7, 0, -7});
  CHECK(elements(apply(9, "EyeLike", {x}, {attribute("k", 1)})[0]) == Doubles{0, 1, 0, 0, 0, 1});
  CHECK(apply(9, "EyeLike", {x}, {attribute("dtype", onnx_i64)})[0].dtype == DType::i64);
  CHECK(elements(apply(13, "Hardmax", {x})[0]) == Doubles{0, 1, 0, 1, 0, 0});
  CHECK(elements(apply(11, "Hardmax", {x}, {attribute("axis", 0)})[0]) == Doubles{0, 0, 0, 1, 0, 0});
  CHECK(elements(apply(9, "Shrink", {x}, {attribute("lambd", 1.5f), attribute("bias", 1.0f)})[0]) ==
        Doubles{0, 3, 3, 6, 0, -6});
  ModelText text(17);
  text.initializer("n", Tensor::scalar(DType::i64, 4));
  text.node("HannWindow", {"n"}, {"hann"}).node("HammingWindow", {"n"}, {"hamming"}, {attribute("periodic", 0)});
  text.node("BlackmanWindow", {"n"}, {"blackman"}).output("hann").output("hamming").output("blackman");
  auto windows = run(text, {});
  CHECK(windows[0].f64(1) == doctest::Approx(0.5));
  CHECK(windows[0].f64(2) == doctest::Approx(1));
  CHECK(windows[1].f64(1) == doctest::Approx(25.0 / 46 + 21.0 / 92));
  CHECK(windows[2].f64(2) == doctest::Approx(1));
}

TEST_CASE("logarithms of reduced integers are cut to integers") {
  Tensor x = of(DType::i32, {1, 3}, {5, 6, 9});
  CHECK(elements(apply(13, "ReduceLogSum", {x}, {attribute("axes", Integers{1})})[0]) == Doubles{2});     // 2.99
  CHECK(elements(apply(13, "ReduceLogSumExp", {x}, {attribute("axes", Integers{1})})[0]) == Doubles{9});  // 9.07
}

TEST_CASE("a maximum of bools over nothing is false") {
  Tensor none(DType::boolean, {2, 0});
  ModelText text(20);
  text.input("x", onnx_bool, {"2", "0"}).initializer("axes", Integers{1});
  text.node("ReduceMax", {"x", "axes"}, {"most"}).node("ReduceMin", {"x", "axes"}, {"least"});
  text.output("most").output("least");
  auto result = run(text, {none});
  CHECK(elements(result[0]) == Doubles{0, 0});
  CHECK(elements(result[1]) == Doubles{1, 1});
}
