// What imported operators compute: the corners that other importers got wrong.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "tests/unit/import_apply.h"

using namespace rtx;
using namespace rtx::onnx;

TEST_CASE("Softmax before opset 13 normalises over everything from its axis on, after that over the axis") {
  Tensor x = floats({1, 2, 2}, {0, 0, 0, 0});
  check_close(apply(12, "Softmax", {x})[0], {0.25, 0.25, 0.25, 0.25});
  check_close(apply(13, "Softmax", {x})[0], {0.5, 0.5, 0.5, 0.5});
  check_close(apply(12, "LogSoftmax", {x}, {attribute("axis", 2)})[0], {-M_LN2, -M_LN2, -M_LN2, -M_LN2});
}

TEST_CASE("a softmax row of -inf is NaN, so that the exporters' IsNaN guard works") {
  check_close(apply(13, "Softmax", {floats({1, 2}, {-infinity, -infinity})})[0], {nan_value, nan_value});
}

TEST_CASE("integer Div truncates and Mod takes the sign of the divisor unless fmod is set") {
  Tensor a = integers({4}, {7, -7, 7, -7}), b = integers({4}, {2, 2, -2, -2});
  CHECK(elements(apply(14, "Div", {a, b})[0]) == Doubles{3, -3, -3, 3});
  Tensor c = integers({4}, {3, 3, -3, -3});
  CHECK(elements(apply(13, "Mod", {a, c})[0]) == Doubles{1, 2, -2, -1});
  CHECK(elements(apply(13, "Mod", {a, c}, {attribute("fmod", 1)})[0]) == Doubles{1, -1, 1, -1});
}

TEST_CASE("Clip keeps NaN and gives the maximum where the bounds cross") {
  Tensor x = floats({3}, {nan_value, -1, 9});
  check_close(apply(13, "Clip", {x, floats({}, {0}), floats({}, {5})})[0], {nan_value, 0, 5});
  check_close(apply(13, "Clip", {x, floats({}, {6}), floats({}, {5})})[0], {nan_value, 5, 5});
  check_close(apply(6, "Clip", {x}, {attribute("max", 1.0f)})[0], {nan_value, -1, 1});
  ModelText text(11);  // an empty tensor stands for a bound that is not given
  text.input("x", onnx_f32, {"2"}).initializer("none", Tensor(DType::f32, {0})).initializer("max", floats({}, {1}));
  text.node("Clip", {"x", "none", "max"}, {"y"}).output("y");
  check_close(run(text, {floats({2}, {-7, 7})})[0], {-7, 1});
}

TEST_CASE("Min and Max pass NaN on and take any number of inputs") {
  check_close(apply(13, "Max", {floats({2}, {1, nan_value}), floats({2}, {nan_value, 2}), floats({1}, {3})})[0],
              {nan_value, nan_value});
  check_close(apply(13, "Min", {floats({2}, {4, 5})})[0], {4, 5});
}

TEST_CASE("Pow has the type of its base") {
  Tensor base(DType::f16, {2});
  base.set_f64(0, 3);
  base.set_f64(1, -4);
  auto result = apply(13, "Pow", {base, floats({}, {2})});
  CHECK(result[0].dtype == DType::f16);
  CHECK(elements(result[0]) == Doubles{9, 16});
  check_close(apply(13, "Pow", {floats({1}, {-2}), floats({}, {0.5})})[0], {nan_value});
}

TEST_CASE("Cast truncates, saturates and gives 0 for NaN, to bool anything but zero is true") {
  Tensor x = floats({4}, {-1.9, 3e9, nan_value, 0});
  CHECK(elements(apply(13, "Cast", {x}, {attribute("to", onnx_i32)})[0]) == Doubles{-1, 2147483647, 0, 0});
  CHECK(elements(apply(13, "Cast", {x}, {attribute("to", onnx_bool)})[0]) == Doubles{1, 1, 1, 0});
}

TEST_CASE("Gemm scales, transposes and broadcasts C along either axis, but not the result") {
  Tensor a = floats({2, 2}, {1, 2, 3, 4}), b = floats({2, 2}, {1, 0, 0, 1});
  check_close(apply(13, "Gemm", {a, b, floats({2}, {10, 20})})[0], {11, 22, 13, 24});
  check_close(apply(13, "Gemm", {a, b, floats({2, 1}, {10, 20})})[0], {11, 12, 23, 24});
  check_close(apply(13, "Gemm", {a, b, floats({}, {1})},
                    {attribute("alpha", 2.0f), attribute("beta", 0.5f), attribute("transA", 1)})[0],
              {2.5, 6.5, 4.5, 8.5});
  check_close(apply(13, "Gemm", {a, b})[0], {1, 2, 3, 4});
  ModelText text;
  text.input("a", onnx_f32, {"1", "2"}).input("b", onnx_f32, {"2", "2"}).input("c", onnx_f32, {"3", "2"});
  text.node("Gemm", {"a", "b", "c"}, {"y"}).output("y");
  auto result = text.import();
  REQUIRE_FALSE(result.ok());
  CHECK(result.error().first().id == "E334");
}

TEST_CASE("MatMul follows numpy for vectors and batches") {
  Tensor v = floats({2}, {1, 2}), m = floats({2, 2}, {1, 2, 3, 4});
  auto dot = apply(13, "MatMul", {v, v});
  CHECK(dot[0].shape.empty());
  check_close(dot[0], {5});
  auto left = apply(13, "MatMul", {v, m});
  CHECK(left[0].shape == std::vector<int64_t>{2});
  check_close(left[0], {7, 10});
  check_close(apply(13, "MatMul", {m, v})[0], {5, 11});
  auto batched = apply(13, "MatMul", {floats({2, 1, 2}, {1, 0, 0, 1}), floats({2, 2}, {1, 2, 3, 4})});
  CHECK(batched[0].shape == std::vector<int64_t>{2, 1, 2});
  check_close(batched[0], {1, 2, 3, 4});
}

TEST_CASE("LayerNormalization gives mean and inverse deviation, and takes scales that broadcast") {
  Tensor x = floats({1, 2, 2}, {1, 3, 5, 9});
  auto result = apply(17, "LayerNormalization", {x, floats({2}, {1, 2}), floats({2}, {0, 1})},
                      {attribute("epsilon", 0.0f)}, {"y", "mean", "inverse"});
  check_close(result[0], {-1, 3, -1, 3});
  check_close(result[1], {2, 7});
  check_close(result[2], {1, 0.5});
  CHECK(result[1].shape == std::vector<int64_t>{1, 2, 1});
  check_close(apply(17, "LayerNormalization", {x, floats({}, {2})}, {attribute("epsilon", 0.0f)})[0], {-2, 2, -2, 2});
  // Below opset 17 it is onnxruntime's operator in the default domain.
  check_close(apply(11, "LayerNormalization", {x, floats({2}, {1, 1})}, {attribute("epsilon", 0.0f)})[0],
              {-1, 1, -1, 1});
}

TEST_CASE("a float16 RMS norm does not overflow at 256") {
  Tensor x(DType::f16, {1, 2}), scale(DType::f16, {2});
  for (int i = 0; i < 2; ++i) {
    x.set_f64(i, 300);
    scale.set_f64(i, 1);
  }
  CHECK(elements(apply(17, "SimplifiedLayerNormalization", {x, scale})[0]) == Doubles{1, 1});
}

TEST_CASE("SkipLayerNormalization returns the sum with its bias") {
  auto result = apply(17, "SkipLayerNormalization",
                      {floats({1, 1, 2}, {1, 2}), floats({1, 2}, {1, 1}), floats({2}, {1, 1}), floats({2}, {0, 0}),
                       floats({2}, {0, 1})},
                      {}, {"y", "", "", "sum"}, "com.microsoft");
  check_close(result[0], {-1, 1});
  check_close(result[1], {2, 4});
}

TEST_CASE("the five forms of GELU stay apart") {
  Tensor x = floats({1}, {1});
  check_close(apply(20, "Gelu", {x})[0], {0.84134475});
  check_close(apply(20, "Gelu", {x}, {attribute("approximate", "tanh")})[0], {0.84119199});
  check_close(apply(17, "FastGelu", {x}, {}, {"y"}, "com.microsoft")[0], {0.84119199});
  check_close(apply(17, "BiasGelu", {x, floats({1}, {0})}, {}, {"y"}, "com.microsoft")[0], {0.84134475});
  check_close(apply(17, "QuickGelu", {x}, {}, {"y"}, "com.microsoft")[0], {1 / (1 + std::exp(-1.702))});
}

TEST_CASE("reductions over an empty axis give their neutral element") {
  Tensor x(DType::f32, {2, 0});
  auto reduced = [&](const char* op) {
    return apply(13, op, {x}, {attribute("axes", std::vector<int64_t>{1}), attribute("keepdims", 0)})[0];
  };
  check_close(reduced("ReduceProd"), {1, 1});
  check_close(reduced("ReduceMax"), {-infinity, -infinity});
  check_close(reduced("ReduceMean"), {nan_value, nan_value});
  check_close(apply(13, "ReduceL2", {floats({2}, {3, 4})})[0], {5});
  check_close(apply(13, "ReduceLogSumExp", {floats({2}, {1000, 1000})})[0], {1000 + M_LN2});
}

TEST_CASE("ReduceSum with empty axes reduces all, or nothing with noop_with_empty_axes") {
  Tensor x = floats({2, 2}, {1, 2, 3, 4});
  check_close(apply(13, "ReduceSum", {x}, {attribute("keepdims", 0)})[0], {10});
  check_close(apply(13, "ReduceSum", {x}, {attribute("noop_with_empty_axes", 1)})[0], {1, 2, 3, 4});
}

TEST_CASE("Trilu keeps the chosen triangle with its offset") {
  Tensor x = floats({2, 3}, {1, 2, 3, 4, 5, 6});
  check_close(apply(14, "Trilu", {x})[0], {1, 2, 3, 0, 5, 6});
  check_close(apply(14, "Trilu", {x}, {attribute("upper", 0)})[0], {1, 0, 0, 4, 5, 0});
  ModelText text;
  text.input("x", onnx_f32, {"2", "3"})
      .initializer("k", Tensor::scalar(DType::i64, 1))
      .node("Trilu", {"x", "k"}, {"y"})
      .output("y");
  check_close(run(text, {x})[0], {0, 2, 3, 0, 0, 6});
}

TEST_CASE("Split with num_outputs has a smaller last part, and equal parts before opset 18") {
  auto parts = apply(18, "Split", {floats({5}, {1, 2, 3, 4, 5})}, {attribute("num_outputs", 2)}, {"a", "b"});
  CHECK(parts[0].shape == std::vector<int64_t>{3});
  check_close(parts[1], {4, 5});
  ModelText text(13);
  text.input("x", onnx_f32, {"5"}).node("Split", {"x"}, {"a", "b"}).output("a");
  auto result = text.import();
  REQUIRE_FALSE(result.ok());
  CHECK(result.error().first().id == "E332");
}

TEST_CASE("Range starts anywhere and has symbolic length") {
  ModelText text;
  text.input("x", onnx_f32, {"n"})
      .initializer("two", Tensor::scalar(DType::i64, 2))
      .initializer("one", Tensor::scalar(DType::i64, 1))
      .node("Size", {"x"}, {"n"})
      .node("Add", {"n", "two"}, {"end"})
      .node("Range", {"n", "end", "one"}, {"short"})
      .node("Range", {"one", "n", "two"}, {"odd"})
      .output("short")
      .output("odd");
  auto result = run(text, {Tensor(DType::f32, {6})});
  CHECK(elements(result[0]) == Doubles{6, 7});
  CHECK(elements(result[1]) == Doubles{1, 3, 5});
}

TEST_CASE("OneHot wraps negative indices and gives nothing for those outside") {
  ModelText text;
  text.input("i", onnx_i64, {"3"})
      .initializer("depth", Tensor::scalar(DType::i64, 3))
      .initializer("values", floats({2}, {0, 1}));
  text.node("OneHot", {"i", "depth", "values"}, {"y"}).output("y");
  check_close(run(text, {integers({3}, {0, -1, 5})})[0], {1, 0, 0, 0, 0, 1, 0, 0, 0});
}

TEST_CASE("Einsum is matmul, transpose, sum and outer product") {
  Tensor a = floats({2, 2}, {1, 2, 3, 4}), b = floats({2, 2}, {5, 6, 7, 8});
  auto einsum = [&](const char* equation, std::vector<Tensor> inputs) {
    return apply(12, "Einsum", std::move(inputs), {attribute("equation", equation)})[0];
  };
  check_close(einsum("ij,jk->ik", {a, b}), {19, 22, 43, 50});
  check_close(einsum(" i j , k j -> i k ", {a, b}), {17, 23, 39, 53});
  check_close(einsum("ij->ji", {a}), {1, 3, 2, 4});
  check_close(einsum("ij->", {a}), {10});
  check_close(einsum("ij,ij->i", {a, b}), {17, 53});
  check_close(einsum("i,j->ij", {floats({2}, {1, 2}), floats({2}, {3, 4})}), {3, 4, 6, 8});
  check_close(einsum("...ij,...jk", {a, b}), {19, 22, 43, 50});
  check_close(einsum("ji", {a}), {1, 3, 2, 4});  // without an arrow the result is in the order of the letters
}

TEST_CASE("Attention gives zeros for a row without keys and aligns causal rows at the end of the past") {
  Tensor q = floats({1, 1, 2, 2}, {1, 0, 0, 1}), k = q, v = floats({1, 1, 2, 2}, {1, 2, 3, 4});
  Tensor mask(DType::boolean, {2, 2});
  mask.set_i64(0, 1);  // row 1 sees nothing
  check_close(apply(23, "Attention", {q, k, v, mask})[0], {1, 2, 0, 0});
  auto causal = apply(23, "Attention", {q, k, v}, {attribute("is_causal", 1)})[0];
  CHECK(causal.f64(0) == doctest::Approx(1));  // the first row sees the first key only
  ModelText text(23);
  for (const char* name : {"q", "k", "v", "pk", "pv"})
    text.input(name, onnx_f32, {"1", "1", name[0] == 'p' ? "past" : "1", "2"});
  text.node("Attention", {"q", "k", "v", "", "pk", "pv"}, {"y", "present", ""}, {attribute("is_causal", 1)});
  text.output("y").output("present");
  auto step = run(text, {floats({1, 1, 1, 2}, {0, 0}), floats({1, 1, 1, 2}, {1, 1}), floats({1, 1, 1, 2}, {4, 6}),
                         floats({1, 1, 1, 2}, {1, 1}), floats({1, 1, 1, 2}, {2, 2})});
  check_close(step[0], {3, 4});  // one query at position 1 sees both keys alike
  CHECK(step[1].shape == std::vector<int64_t>{1, 1, 2, 2});
}

TEST_CASE("rank 0 stays rank 0 through Gather, Squeeze and Unsqueeze") {
  CHECK(apply(11, "Squeeze", {floats({1, 1}, {4})})[0].shape.empty());
  CHECK(apply(13, "Gather", {floats({3}, {1, 2, 3}), integers({}, {-1})})[0].shape.empty());
  check_close(apply(13, "Gather", {floats({3}, {1, 2, 3}), integers({}, {-1})})[0], {3});
  CHECK(apply(11, "Unsqueeze", {floats({}, {4})}, {attribute("axes", std::vector<int64_t>{0, 1})})[0].shape ==
        std::vector<int64_t>{1, 1});
}

TEST_CASE("empty tensors pass through Concat and Expand") {
  CHECK(apply(13, "Concat", {Tensor(DType::f32, {1, 0, 2}), floats({1, 1, 2}, {1, 2})}, {attribute("axis", 1)})[0]
            .shape == std::vector<int64_t>{1, 1, 2});
  ModelText text;
  text.input("x", onnx_f32, {"0", "1"})
      .initializer("shape", std::vector<int64_t>{1, 3})
      .node("Expand", {"x", "shape"}, {"y"})
      .output("y");
  CHECK(run(text, {Tensor(DType::f32, {0, 1})})[0].shape == std::vector<int64_t>{0, 3});
}
