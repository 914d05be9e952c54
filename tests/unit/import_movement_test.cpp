// Shapes, sizes computed through floats, indices, and element types in operators that only move elements.
#include <doctest/doctest.h>

#include "tests/unit/import_apply.h"

using namespace rtx;
using namespace rtx::onnx;

namespace {

Tensor of_type(DType dtype, std::vector<int64_t> shape, const std::vector<int64_t>& values) {
  Tensor tensor(dtype, std::move(shape));
  for (size_t i = 0; i < values.size(); ++i) tensor.set_i64(static_cast<int64_t>(i), values[i]);
  return tensor;
}

using Sizes = std::vector<int64_t>;

Diagnostic refused(const ModelText& text) {
  auto result = text.import();
  REQUIRE_FALSE(result.ok());
  return result.error().first();
}

// x [n, 4] reshaped by a constant.
ModelText reshaped(const Sizes& shape, int64_t allowzero = 0) {
  ModelText text;
  text.input("x", onnx_f32, {"n", "4"}).initializer("shape", shape);
  text.node("Reshape", {"x", "shape"}, {"y"}, {attribute("allowzero", allowzero)}).output("y");
  return text;
}

}  // namespace

// ---- H22 to H29: shapes

TEST_CASE("H23: -1 beside a copied dim is found without dividing, so that an empty batch keeps its shape") {
  const ModelText text = reshaped({0, -1, 2});
  CHECK(run(text, {Tensor(DType::f32, {0, 4})})[0].shape == Sizes{0, 2, 2});
  CHECK(run(text, {Tensor(DType::f32, {3, 4})})[0].shape == Sizes{3, 2, 2});
  // Copied only where allowzero is 0; with it a 0 is a size, which x does not have.
  CHECK_FALSE(reshaped({0, -1, 2}, 1).import().ok());
}

TEST_CASE("H25: a shape that is no vector is an error at its node") {
  ModelText text;
  text.input("x", onnx_f32, {"2", "2"}).initializer("shape", of_type(DType::i64, {1, 2}, {4, 1}));
  text.add("Reshape", {"x", "shape"}, {"y"}).name = "here";
  text.output("y");
  const Diagnostic diagnostic = refused(text);
  CHECK(diagnostic.kind == ErrorKind::invalid);
  CHECK(diagnostic.where.find("here") != std::string::npos);
}

TEST_CASE("H26: int64 data stays int64, and axes, starts and indices may be int32") {
  const int64_t big = int64_t{1} << 40;
  auto y = apply(14, "Add", {integers({2}, {big, -big}), integers({2}, {1, 1})});
  CHECK(y[0].i64(0) == big + 1);
  CHECK(y[0].i64(1) == 1 - big);
  ModelText text;
  text.input("x", onnx_i64, {"3"}).initializer("start", of_type(DType::i32, {1}, {1}));
  text.initializer("end", of_type(DType::i32, {1}, {INT32_MAX})).initializer("axis", of_type(DType::i32, {1}, {-1}));
  text.node("Slice", {"x", "start", "end", "axis"}, {"s"}).node("Gather", {"s", "i"}, {"y"});
  text.initializer("i", of_type(DType::i32, {2}, {-1, 0})).output("y");
  y = run(text, {integers({3}, {1, big, -big})});
  CHECK(y[0].i64(0) == -big);
  CHECK(y[0].i64(1) == big);
}

TEST_CASE("H27: Expand keeps what its shape has as 1 or not at all") {
  const Tensor x = floats({2, 1, 2}, {1, 2, 3, 4});
  const auto expanded = [&](const Sizes& shape) {
    ModelText text;
    text.input("x", onnx_f32, {"2", "1", "2"}).initializer("s", shape).node("Expand", {"x", "s"}, {"y"}).output("y");
    return run(text, {x})[0];
  };
  CHECK(expanded({1}).shape == Sizes{2, 1, 2});
  CHECK(expanded({3, 1}).shape == Sizes{2, 3, 2});
  CHECK(elements(expanded({3, 1})) == Doubles{1, 2, 1, 2, 1, 2, 3, 4, 3, 4, 3, 4});
  CHECK(expanded({2, 1, 1, 1}).shape == Sizes{2, 2, 1, 2});
}

TEST_CASE("H28: ConstantOfShape: rank 0, no value, values of rank 0 and 1, empty results") {
  const auto filled = [](const Sizes& shape, std::vector<Attribute> attributes) {
    ModelText text;
    text.initializer("s", shape).node("ConstantOfShape", {"s"}, {"y"}, std::move(attributes)).output("y");
    return run(text, {})[0];
  };
  const auto value = [](const Tensor& tensor) { return std::vector{attribute("value", ModelText::entry(tensor))}; };
  CHECK(filled({}, {}).shape.empty());
  CHECK(filled({}, {}).dtype == DType::f32);
  CHECK(elements(filled({2}, {})) == Doubles{0, 0});
  for (const Sizes& shape : {Sizes{}, Sizes{1}}) {
    const Tensor y = filled({2}, value(of_type(DType::i32, shape, {7})));
    CHECK(y.dtype == DType::i32);
    CHECK(elements(y) == Doubles{7, 7});
  }
  CHECK(filled({3, 0}, value(of_type(DType::boolean, {1}, {1}))).shape == Sizes{3, 0});
}

TEST_CASE("H29: operators on axes of length 0") {
  auto y = apply(13, "MatMul", {Tensor(DType::f32, {2, 0}), Tensor(DType::f32, {0, 3})});
  CHECK(elements(y[0]) == Doubles{0, 0, 0, 0, 0, 0});
  CHECK(apply(13, "Softmax", {Tensor(DType::f32, {2, 0})})[0].shape == Sizes{2, 0});
  CHECK(apply(14, "Add", {Tensor(DType::f32, {0, 2}), floats({1, 2}, {1, 2})})[0].shape == Sizes{0, 2});
  CHECK(apply(13, "Gather", {floats({2, 2}, {1, 2, 3, 4}), Tensor(DType::i64, {0})})[0].shape == Sizes{0, 2});
  CHECK(apply(13, "Transpose", {Tensor(DType::f32, {0, 2})})[0].shape == Sizes{2, 0});
}

// ---- H30: sizes through floats

TEST_CASE("H30: sizes are computed in the type that the file has: a half is not 0, floor and ceil come after") {
  const auto size = [](int64_t axis, double factor, const char* rounding) {
    ModelText text;
    text.input("x", onnx_f32, {std::to_string(axis)}).initializer("f", floats({1}, {factor}));
    text.initializer("zero", floats({1}, {0}));
    text.node("Shape", {"x"}, {"s"}).node("Cast", {"s"}, {"real"}, {attribute("to", 1)});
    text.node("Mul", {"real", "f"}, {"product"}).node(rounding, {"product"}, {"rounded"});
    text.node("Cast", {"rounded"}, {"size"}, {attribute("to", 7)}).node("Expand", {"zero", "size"}, {"y"}).output("y");
    return run(text, {Tensor(DType::f32, {axis})})[0].shape[0];
  };
  CHECK(size(1024, 0.5, "Identity") == 512);
  CHECK(size(7, 0.5, "Floor") == 3);
  CHECK(size(7, 0.5, "Ceil") == 4);
  CHECK(size(7, 0.5, "Identity") == 3);
  CHECK(size(64, 1, "Sqrt") == 8);
}

TEST_CASE("H30: the root of a size is a scale, in floats") {
  ModelText text;
  text.input("x", onnx_f32, {"8"}).node("Shape", {"x"}, {"s"}).node("Cast", {"s"}, {"real"}, {attribute("to", 1)});
  text.node("Sqrt", {"real"}, {"root"}).node("Div", {"x", "root"}, {"y"}).output("y");
  check_close(run(text, {floats({8}, {1, 0, 0, 0, 0, 0, 0, 0})})[0], {1 / std::sqrt(8.0), 0, 0, 0, 0, 0, 0, 0});
}

// ---- H31: indices

TEST_CASE("H31: negative indices count from the end, outside, a constant is an error and data is clamped") {
  const Tensor x = floats({3, 2}, {1, 2, 3, 4, 5, 6});
  CHECK(elements(apply(13, "Gather", {x, integers({2}, {-1, -3})})[0]) == Doubles{5, 6, 1, 2});
  CHECK(elements(apply(13, "GatherElements", {x, integers({1, 2}, {-1, -2})}, {attribute("axis", 0)})[0]) ==
        Doubles{5, 4});
  CHECK(elements(apply(13, "GatherND", {x, integers({2, 2}, {-1, -2, 0, -1})})[0]) == Doubles{5, 2});
  CHECK(elements(apply(13, "Gather", {x, integers({2}, {3, -4})})[0]) == Doubles{5, 6, 1, 2});
  for (const char* op : {"Gather", "GatherElements", "GatherND"})
    for (int64_t bad : {3, -4}) {
      ModelText text(13);
      text.input("x", onnx_f32, {"3", "2"}).initializer("i", integers({1, 1}, {bad}));
      text.node(op, {"x", "i"}, {"y"}).output("y");
      CAPTURE(op);
      CHECK(refused(text).id == "E333");
    }
}

// ---- H32: sizes frozen by tracing

TEST_CASE("H32: a constant shape that fixes a named dim says which node does, and the dim can be given another size") {
  ModelText text;
  text.input("x", onnx_f32, {"n", "4"}).initializer("shape", Sizes{3, 8});
  text.add("Reshape", {"x", "shape"}, {"y"}).name = "frozen";
  text.output("y");
  auto result = text.import();
  REQUIRE(result.ok());
  REQUIRE(result->warnings.size() == 1);
  CHECK(result->warnings[0].id == "W202");
  CHECK(result->warnings[0].where.find("frozen") != std::string::npos);
  CHECK(result->warnings[0].message == "dim 'n' is 6");
  ImportOptions options;
  options.ranges["n"] = {5, 5, 5};
  auto other = text.import(options);
  REQUIRE_FALSE(other.ok());
  CHECK(describe(other.error()).find("frozen") != std::string::npos);
}

TEST_CASE("dims that may be equal but have no one solution are refused by name, with what to do") {
  ModelText text;
  text.input("a", onnx_f32, {"p"}).input("b", onnx_f32, {"t"}).initializer("k", floats({4}, {1, 2, 3, 4}));
  text.node("Shape", {"a"}, {"p"}).node("Shape", {"b"}, {"t"}).node("Max", {"p", "t"}, {"m"});
  text.node("Expand", {"one", "m"}, {"ones"}).initializer("one", floats({1}, {1}));
  text.node("Add", {"ones", "k"}, {"y"}).output("y");
  CHECK(refused(text).id == "E406");
  CHECK(refused(text).kind == ErrorKind::unsupported);
  CHECK(refused(text).help.find("fix one of the dims p, t with --fix-dim NAME=SIZE") != std::string::npos);
  ImportOptions options;
  options.ranges["p"] = {0, 0, 0};
  CHECK(text.import(options).ok());
}

// ---- H33: element types

TEST_CASE("H33: every type moves") {
  for (DType dtype : {DType::boolean, DType::u8, DType::i8, DType::i16, DType::i32, DType::i64, DType::f16, DType::bf16,
                      DType::f32, DType::f64}) {
    CAPTURE(to_string(dtype));
    const Tensor x = of_type(dtype, {2, 2}, {1, 0, 0, 1}), other = of_type(dtype, {2, 2}, {0, 1, 1, 1});
    const Tensor condition = of_type(DType::boolean, {2, 2}, {1, 1, 0, 0});
    const auto check = [&](const std::vector<Tensor>& y, const Doubles& expected) {
      CHECK(y[0].dtype == dtype);
      CHECK(elements(y[0]) == expected);
    };
    check(apply(13, "Gather", {x, integers({1}, {-1})}), {0, 1});
    check(apply(13, "Concat", {x, other}, {attribute("axis", 1)}), {1, 0, 0, 1, 0, 1, 1, 1});
    check(apply(13, "Where", {condition, x, other}), {1, 0, 1, 1});
    check(apply(13, "Transpose", {other}), {0, 1, 1, 1});
    check(apply(13, "Identity", {x}), {1, 0, 0, 1});
    check(apply(13, "Flatten", {x}, {attribute("axis", 0)}), {1, 0, 0, 1});
    check(apply(1, "Unsqueeze", {x}, {attribute("axes", Sizes{0})}), {1, 0, 0, 1});
    check(apply(1, "Slice", {x}, {attribute("starts", Sizes{1}), attribute("ends", Sizes{2})}), {0, 1});
    check(apply(11, "GatherElements", {x, integers({1, 2}, {1, 0})}, {attribute("axis", 0)}), {0, 0});
    ModelText text;
    text.model.graph.inputs = {ModelText::value("x", onnx_type(dtype), {"2", "2"})};
    text.initializer("s", Sizes{2, 1, 1}).initializer("flat", Sizes{-1});
    text.node("Expand", {"x", "s"}, {"e"}).node("Reshape", {"e", "flat"}, {"y"}).output("y");
    check(run(text, {x}), {1, 0, 0, 1, 1, 0, 0, 1});
  }
}

TEST_CASE("H33: masks go through uint8 and bool and back") {
  const Tensor x = of_type(DType::i64, {4}, {0, 1, 256, -3});
  auto bytes = apply(13, "Cast", {x}, {attribute("to", 2)});
  CHECK(elements(bytes[0]) == Doubles{0, 1, 0, 253});
  CHECK(elements(apply(13, "Cast", {bytes[0]}, {attribute("to", 9)})[0]) == Doubles{0, 1, 0, 1});
  CHECK(elements(apply(13, "Cast", {x}, {attribute("to", 9)})[0]) == Doubles{0, 1, 1, 1});
  CHECK(elements(apply(13, "Cast", {of_type(DType::boolean, {2}, {1, 0})}, {attribute("to", 2)})[0]) == Doubles{1, 0});
}

TEST_CASE("H33: Neg and Abs of sizes stay sizes") {
  ModelText text;
  text.input("x", onnx_f32, {"n"}).initializer("zero", floats({1}, {0}));
  text.node("Shape", {"x"}, {"s"}).node("Neg", {"s"}, {"minus"}).node("Abs", {"minus"}, {"size"});
  text.node("Expand", {"zero", "size"}, {"y"}).output("y");
  CHECK(run(text, {Tensor(DType::f32, {3})})[0].shape == Sizes{3});
}
