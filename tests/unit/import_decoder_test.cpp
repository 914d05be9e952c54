// Attention of decoders, state-space operators and position biases of onnxruntime and of ai.onnx 27, against values
// computed by hand.
#include <doctest/doctest.h>

#include <cmath>

#include "tests/unit/import_apply.h"

using namespace rtx;
using namespace rtx::onnx;

namespace {

constexpr const char* microsoft = "com.microsoft";

Tensor int32s(std::vector<int64_t> shape, const std::vector<int64_t>& values) {
  Tensor tensor(DType::i32, std::move(shape));
  for (size_t i = 0; i < values.size(); ++i) tensor.set_i64(static_cast<int64_t>(i), values[i]);
  return tensor;
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

}  // namespace

TEST_CASE("SwiGLU takes the gate first, scales it inside the sigmoid and does not broadcast") {
  auto y = apply(28, "SwiGLU", {floats({2}, {1, -2}), floats({2}, {3, 5})}, {attribute("alpha", 2.0f)});
  check_close(y[0], {3 * sigmoid(2), -10 * sigmoid(-4)});
}

TEST_CASE("CausalConvWithState sees its state before the input and gives the positions that end it") {
  Tensor x = floats({1, 1, 2}, {10, 20}), weight = floats({1, 1, 3}, {1, 2, 3});
  auto y =
      apply(27, "CausalConvWithState", {x, weight, floats({1}, {0.5}), floats({1, 1, 2}, {1, 2})}, {}, {"y", "state"});
  check_close(y[0], {1 + 4 + 30 + 0.5, 2 + 20 + 60 + 0.5});
  check_close(y[1], {10, 20});
  // Without a state the positions before are zeros, and stay in the new state where the input is short.
  y = apply(27, "CausalConvWithState", {floats({1, 1, 1}, {10}), weight}, {}, {"y", "state"});
  check_close(y[0], {30});
  check_close(y[1], {0, 10});
}

TEST_CASE("CausalConvWithState of onnxruntime: dilation, channels last, and a window of states") {
  Tensor x = floats({1, 3, 1}, {1, 2, 3}), weight = floats({1, 1, 2}, {10, 1});
  auto y = apply(17, "CausalConvWithState", {x, weight},
                 {attribute("dilation", 2), attribute("channels_last", 1), attribute("state_window", 2)},
                 {"y", "states"}, microsoft);
  check_close(y[0], {1, 2, 13});
  REQUIRE(y[1].shape == std::vector<int64_t>{2, 1, 2, 1});
  check_close(y[1], {1, 2, 2, 3});  // after position 1 and after position 2
}

TEST_CASE("LinearAttention: each rule of its recurrence") {
  Tensor q = floats({1, 2, 1}, {1, 1}), k = floats({1, 2, 1}, {2, 1}), v = floats({1, 2, 1}, {3, 5});
  Tensor decay = floats({1, 2, 1}, {std::log(0.5), std::log(0.25)}), beta = floats({1, 2, 1}, {0.5, 0.5});
  Tensor past = floats({1, 1, 1, 1}, {4});
  std::vector<Attribute> heads = {attribute("q_num_heads", 1), attribute("kv_num_heads", 1)};
  auto rule = [&](const char* name, std::vector<std::string> inputs) {
    ModelText text(27);
    text.input("q", onnx_f32, {"1", "2", "1"}).input("k", onnx_f32, {"1", "2", "1"});
    text.input("v", onnx_f32, {"1", "2", "1"}).input("past", onnx_f32, {"1", "1", "1", "1"});
    text.input("decay", onnx_f32, {"1", "2", "1"}).input("beta", onnx_f32, {"1", "2", "1"});
    std::vector<Attribute> attributes = heads;
    attributes.push_back(attribute("update_rule", name));
    text.node("LinearAttention", std::move(inputs), {"y", "state"}, attributes).output("y").output("state");
    return run(text, {q, k, v, past, decay, beta});
  };
  auto y = rule("linear", {"q", "k", "v", "past"});
  check_close(y[0], {10, 15});
  check_close(y[1], {15});
  check_close(rule("gated", {"q", "k", "v", "past", "decay"})[0], {2 + 6, 8 * 0.25 + 5});
  // 4 + 0.5 * 2 * (3 - 8) = -1; -1 + 0.5 * (5 + 1) = 2
  check_close(rule("delta", {"q", "k", "v", "past", "", "beta"})[0], {-1, 2});
  // 2 + (3 - 4) = 1; 0.25 + 0.5 * (5 - 0.25) = 2.625
  check_close(rule("gated_delta", {"q", "k", "v", "past", "decay", "beta"})[0], {1, 2.625});
}

TEST_CASE("LinearAttention needs a length that is known") {
  ModelText text(27);
  for (const char* name : {"q", "k", "v"}) text.input(name, onnx_f32, {"1", "n", "1"});
  text.node("LinearAttention", {"q", "k", "v"}, {"y", "state"},
            {attribute("q_num_heads", 1), attribute("kv_num_heads", 1), attribute("update_rule", "linear")});
  text.output("y");
  auto result = text.import();
  REQUIRE_FALSE(result.ok());
  CHECK(result.error().first().id == "E401");
  CHECK(result.error().first().message.find("a sequence of length n") != std::string::npos);
}

TEST_CASE("DecoderMaskedMultiHeadAttention sees the keys that its buffer holds, and writes the new one behind them") {
  // All scores are 0, so y is the mean of the values seen: of 2, 4 and the new 9, not of the 100 behind.
  auto y =
      apply(17, "DecoderMaskedMultiHeadAttention",
            {floats({1, 1, 1}, {0}), floats({1, 1, 1}, {7}), floats({1, 1, 1}, {9}), int32s({1, 3}, {1, 1, 1}),
             floats({1, 1, 1, 1}, {0}), floats({1, 1, 4, 1}, {1, 1, 100, 100}), floats({1, 1, 4, 1}, {2, 4, 100, 100}),
             int32s({1}, {2})},
            {attribute("num_heads", 1), attribute("past_present_share_buffer", 1)}, {"y", "key", "value"}, microsoft);
  check_close(y[0], {5});
  check_close(y[1], {1, 1, 7, 100});
  check_close(y[2], {2, 4, 9, 100});
}

TEST_CASE("RelativePositionBias has exact buckets first and the lower half of both directions for keys before") {
  ModelText text(17);
  text.initializer("table", floats({4, 1}, {0, 1, 2, 3})).initializer("n", std::vector<int64_t>{4});
  text.node("RelativePositionBias", {"table", "n", "n"}, {"y"}, {attribute("max_distance", 4)}, microsoft).output("y");
  // Two exact buckets; distance 2 is bucket 2, 3 is 2 + floor(2 * ln(3/2) / ln(2)) = 3.
  check_close(run(text, {})[0], {0, 0, 0, 0, 1, 0, 0, 0, 2, 1, 0, 0, 3, 2, 1, 0});
}

TEST_CASE("Inverse of small matrices") {
  check_close(apply(17, "Inverse", {floats({2, 2}, {4, 7, 2, 6})}, {}, {"y"}, microsoft)[0], {0.6, -0.7, -0.2, 0.4});
  check_close(apply(17, "Inverse", {floats({1, 1, 1}, {4})}, {}, {"y"}, microsoft)[0], {0.25});
  check_close(apply(17, "Inverse", {floats({3, 3}, {2, 0, 0, 0, 0, 4, 0, 5, 0})}, {}, {"y"}, microsoft)[0],
              {0.5, 0, 0, 0, 0, 0.2, 0, 0.25, 0});
}

TEST_CASE("GroupNorm is channels last unless told otherwise, SkipGroupNorm gives the sum too") {
  // Two channels in two groups over two positions: each is normalised over its own positions.
  Tensor x = floats({1, 1, 2, 2}, {1, 10, 3, 30}), gamma = floats({2}, {1, 2}), beta = floats({2}, {0, 1});
  std::vector<Attribute> attributes = {attribute("groups", 2), attribute("activation", 0)};
  check_close(
      apply(17, "GroupNorm", {x, gamma, beta}, attributes, {"y"}, microsoft)[0],
      {-1 / std::sqrt(1 + 1e-5), 1 - 2 / std::sqrt(1 + 1e-7), 1 / std::sqrt(1 + 1e-5), 1 + 2 / std::sqrt(1 + 1e-7)});
  auto y = apply(17, "SkipGroupNorm", {x, gamma, beta, floats({1, 2}, {1, 2}), floats({2}, {4, 8})}, attributes,
                 {"y", "sum"}, microsoft);
  check_close(y[1], {6, 20, 8, 40});
}

TEST_CASE("causal rows of Attention align at the end of the past, and at the top left without one") {
  // Scores are 0: y is the mean of the values that a query sees.
  Tensor q = floats({1, 1, 2, 1}, {0, 0}), k = floats({1, 1, 3, 1}, {0, 0, 0}), v = floats({1, 1, 3, 1}, {3, 6, 9});
  check_close(apply(23, "Attention", {q, k, v}, {attribute("is_causal", 1)})[0], {3, 4.5});
  ModelText text(23);
  text.input("q", onnx_f32, {"1", "1", "2", "1"}).input("k", onnx_f32, {"1", "1", "2", "1"});
  text.input("v", onnx_f32, {"1", "1", "2", "1"});
  text.input("pk", onnx_f32, {"1", "1", "1", "1"}).input("pv", onnx_f32, {"1", "1", "1", "1"});
  text.node("Attention", {"q", "k", "v", "", "pk", "pv"}, {"y"}, {attribute("is_causal", 1)}).output("y");
  Tensor two = floats({1, 1, 2, 1}, {0, 0});
  check_close(
      run(text, {q, two, floats({1, 1, 2, 1}, {6, 9}), floats({1, 1, 1, 1}, {0}), floats({1, 1, 1, 1}, {3})})[0],
      {4.5, 6});
}

TEST_CASE("the soft cap of Attention comes before the mask, so that a masked key has no weight") {
  Tensor q = floats({1, 1, 1, 1}, {1}), k = floats({1, 1, 2, 1}, {1, 1}), v = floats({1, 1, 2, 1}, {5, 7});
  Tensor mask = floats({1, 2}, {0, -infinity});
  check_close(apply(23, "Attention", {q, k, v, mask}, {attribute("softcap", 2.0f)})[0], {5});
}

TEST_CASE("SkipLayerNormalization: output 3 is the sum with the bias, outputs 1 and 2 mean and inverse deviation") {
  auto y = apply(17, "SkipLayerNormalization",
                 {floats({1, 1, 2}, {1, 2}), floats({1, 1, 2}, {1, 3}), floats({2}, {1, 1}), floats({2}, {0, 10}),
                  floats({2}, {0, 1})},
                 {}, {"y", "mean", "inverse", "sum"}, microsoft);
  check_close(y[3], {2, 6});
  check_close(y[1], {4});
  check_close(y[2], {0.5});
  check_close(y[0], {-1, 11});
}

TEST_CASE("masks of com.microsoft.Attention: lengths, ends and starts, keys, queries and keys") {
  // One head of size 1; the value of a token is the token, the scores are 0.
  auto y = [](Tensor mask) {
    Tensor x = floats({1, 3, 1}, {3, 6, 9}), weights = floats({1, 3}, {0, 0, 1});
    return apply(17, "Attention", {x, weights, floats({3}, {0, 0, 0}), std::move(mask)}, {attribute("num_heads", 1)},
                 {"y"}, microsoft)[0];
  };
  check_close(y(int32s({1}, {2})), {4.5, 4.5, 4.5});
  check_close(y(int32s({2}, {3, 1})), {7.5, 7.5, 7.5});
  check_close(y(int32s({5}, {2, 0, 2, 0, 2})), {4.5, 4.5, 4.5});
  check_close(y(int32s({1, 3}, {1, 0, 1})), {6, 6, 6});
  check_close(y(int32s({1, 3, 3}, {1, 0, 0, 1, 1, 0, 1, 1, 1})), {3, 4.5, 6});
  check_close(y(int32s({1, 1, 3, 3}, {1, 0, 0, 1, 1, 0, 1, 1, 1})), {3, 4.5, 6});
}
