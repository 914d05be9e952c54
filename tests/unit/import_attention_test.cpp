// Rotary embeddings, MultiHeadAttention, EmbedLayerNormalization and GroupQueryAttention: every form of their inputs.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>

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

// One node on inputs of which some are left out (an empty optional); every output that is named.
std::vector<Tensor> node(const char* op, const std::vector<std::optional<Tensor>>& inputs,
                         std::vector<Attribute> attributes, std::vector<std::string> outputs = {"y"}) {
  ModelText text(17);
  std::vector<std::string> names;
  std::vector<Tensor> given;
  for (const auto& input : inputs) {
    names.push_back(input ? "x" + std::to_string(names.size()) : "");
    if (!input) continue;
    ValueInfo info = ModelText::value(names.back(), onnx_type(input->dtype), {});
    for (int64_t size : input->shape) info.shape->push_back({size, {}});
    text.model.graph.inputs.push_back(info);
    given.push_back(*input);
  }
  text.node(op, names, outputs, std::move(attributes), microsoft);
  for (const std::string& name : outputs)
    if (!name.empty()) text.output(name);
  return run(text, std::move(given));
}

}  // namespace

// ---- H54: RotaryEmbedding. A pair (a, b) becomes (a cos - b sin, a sin + b cos).

// Two heads of one pair at two positions, with cos, sin = 2, 1 at the first and 3, 10 at the second:
// (1, 2) -> (0, 5), (3, 4) -> (2, 11), (5, 6) -> (-45, 68), (7, 8) -> (-59, 94).
const Tensor by_position = floats({1, 2, 4}, {1, 2, 3, 4, 5, 6, 7, 8});
const Tensor by_head = floats({1, 2, 2, 2}, {1, 2, 5, 6, 3, 4, 7, 8});
const Doubles turned_by_position = {0, 5, 2, 11, -45, 68, -59, 94};
const Doubles turned_by_head = {0, 5, -45, 68, 2, 11, -59, 94};

TEST_CASE("RotaryEmbedding of ai.onnx: caches of each position, or looked up by position_ids") {
  const Tensor cos = floats({1, 2, 1}, {2, 3}), sin = floats({1, 2, 1}, {1, 10});
  check_close(apply(23, "RotaryEmbedding", {by_position, cos, sin}, {attribute("num_heads", 2)})[0],
              turned_by_position);
  check_close(apply(23, "RotaryEmbedding", {by_head, cos, sin})[0], turned_by_head);
  const Tensor cos_table = floats({4, 1}, {9, 2, 9, 3}), sin_table = floats({4, 1}, {9, 1, 9, 10});
  const Tensor ids = integers({1, 2}, {1, 3});
  check_close(apply(23, "RotaryEmbedding", {by_position, cos_table, sin_table, ids}, {attribute("num_heads", 2)})[0],
              turned_by_position);
  check_close(apply(23, "RotaryEmbedding", {by_head, cos_table, sin_table, ids})[0], turned_by_head);
}

TEST_CASE("RotaryEmbedding of onnxruntime: position_ids come second, and one of them is where the positions start") {
  const Tensor cos = floats({5, 1}, {9, 2, 3, 9, 9}), sin = floats({5, 1}, {9, 1, 10, 9, 9});
  for (const Tensor& ids : {integers({1, 2}, {1, 2}), integers({1}, {1})}) {
    check_close(node("RotaryEmbedding", {by_position, ids, cos, sin}, {attribute("num_heads", 2)})[0],
                turned_by_position);
    check_close(node("RotaryEmbedding", {by_head, ids, cos, sin}, {})[0], turned_by_head);
  }
  // Each row of a batch has positions of its own.
  const Tensor two = floats({2, 1, 1, 2}, {1, 2, 5, 6});
  check_close(node("RotaryEmbedding", {two, integers({2, 1}, {1, 2}), cos, sin}, {})[0], {0, 5, -45, 68});
}

TEST_CASE("RotaryEmbedding turns halves or neighbours, and only the first rotary_embedding_dim elements") {
  const Tensor x = floats({1, 1, 1, 6}, {1, 2, 5, 6, 70, 80});
  const Tensor cos = floats({1, 2}, {2, 3}), sin = floats({1, 2}, {1, 10});
  // Halves: (1, 5) and (2, 6).
  const Doubles halves = {2 - 5, 6 - 60, 1 + 10, 20 + 18, 70, 80}, neighbours = {0, 5, -45, 68, 70, 80};
  for (int interleaved : {0, 1}) {
    const Doubles& expected = interleaved ? neighbours : halves;
    const std::vector<Attribute> attributes = {attribute("interleaved", interleaved),
                                               attribute("rotary_embedding_dim", 4), attribute("num_heads", 1)};
    check_close(apply(23, "RotaryEmbedding", {x, cos, sin, integers({1, 1}, {0})}, attributes)[0], expected);
    check_close(node("RotaryEmbedding", {x, integers({1, 1}, {0}), cos, sin}, attributes)[0], expected);
    const Tensor flat = floats({1, 1, 6}, elements(x));
    check_close(apply(23, "RotaryEmbedding", {flat, cos, sin, integers({1, 1}, {0})}, attributes)[0], expected);
    check_close(node("RotaryEmbedding", {flat, integers({1}, {0}), cos, sin}, attributes)[0], expected);
  }
}

TEST_CASE("the scale of onnxruntime's RotaryEmbedding has no effect, with a warning") {
  ModelText text(17);
  text.input("x", onnx_f32, {"1", "1", "1", "2"}).initializer("p", std::vector<int64_t>{0});
  text.initializer("cos", floats({1, 1}, {2})).initializer("sin", floats({1, 1}, {1}));
  text.node("RotaryEmbedding", {"x", "p", "cos", "sin"}, {"y"}, {attribute("scale", 3.0f)}, microsoft).output("y");
  check_close(run(text, {floats({1, 1, 1, 2}, {1, 2})})[0], {0, 5});
  auto result = text.import();
  REQUIRE(result.ok());
  REQUIRE(result->warnings.size() == 1);
  CHECK(result->warnings[0].id == "W207");
}

// ---- H57: MultiHeadAttention

namespace {

// Numbers without pattern in [-1, 1].
Tensor noise(std::vector<int64_t> shape, double seed) {
  Tensor tensor(DType::f32, std::move(shape));
  for (int64_t i = 0; i < tensor.element_count(); ++i)
    tensor.set_f64(i, std::sin(seed + 1.7 * static_cast<double>(i) + 0.3 * static_cast<double>(i * i % 7)));
  return tensor;
}

constexpr int64_t B = 2, S = 2, T = 3, N = 2, D = 2;

using Term = std::function<double(int64_t b, int64_t n, int64_t i, int64_t j)>;

// softmax(q k^T / sqrt(D) + term) v for q [B, S, N * D], k and v [B, keys, N * D].
Doubles attended(const Tensor& q, const Tensor& k, const Tensor& v, const Term& term) {
  const int64_t queries = q.shape[1], keys = k.shape[1];
  Doubles result(static_cast<size_t>(B * queries * N * D));
  for (int64_t b = 0; b < B; ++b)
    for (int64_t n = 0; n < N; ++n)
      for (int64_t i = 0; i < queries; ++i) {
        Doubles weights;
        double sum = 0;
        for (int64_t j = 0; j < keys; ++j) {
          double score = 0;
          for (int64_t d = 0; d < D; ++d)
            score += q.f64(((b * queries + i) * N + n) * D + d) * k.f64(((b * keys + j) * N + n) * D + d);
          weights.push_back(std::exp(score / std::sqrt(double{D}) + term(b, n, i, j)));
          sum += weights.back();
        }
        for (int64_t d = 0; d < D; ++d)
          for (int64_t j = 0; j < keys; ++j)
            result[static_cast<size_t>(((b * queries + i) * N + n) * D + d)] +=
                weights[static_cast<size_t>(j)] / sum * v.f64(((b * keys + j) * N + n) * D + d);
      }
  return result;
}

double nothing(int64_t, int64_t, int64_t, int64_t) { return 0; }

// Tensors of [B, keys, N, D] beside each other on axis 3: [B, keys, N, count, D].
Tensor packed(const std::vector<Tensor>& parts) {
  const int64_t keys = parts[0].shape[1], count = static_cast<int64_t>(parts.size());
  Tensor result(DType::f32, {B, keys, N, count, D});
  for (int64_t row = 0; row < B * keys * N; ++row)
    for (int64_t part = 0; part < count; ++part)
      for (int64_t d = 0; d < D; ++d)
        result.set_f64((row * count + part) * D + d, parts[static_cast<size_t>(part)].f64(row * D + d));
  return result;
}

// [B, keys, N * D] -> [B, N, keys, D]
Tensor heads_first(const Tensor& x) {
  const int64_t keys = x.shape[1];
  Tensor result(DType::f32, {B, N, keys, D});
  for (int64_t b = 0; b < B; ++b)
    for (int64_t j = 0; j < keys; ++j)
      for (int64_t n = 0; n < N; ++n)
        for (int64_t d = 0; d < D; ++d)
          result.set_f64(((b * N + n) * keys + j) * D + d, x.f64(((b * keys + j) * N + n) * D + d));
  return result;
}

Tensor plus(const Tensor& x, const Tensor& bias, int64_t start) {
  Tensor result = x;
  for (int64_t i = 0; i < x.element_count(); ++i) result.set_f64(i, x.f64(i) + bias.f64(start + i % (N * D)));
  return result;
}

// Checks to the precision of sums of floats.
void check_near(const Tensor& got, const Doubles& expected) {
  REQUIRE(got.element_count() == static_cast<int64_t>(expected.size()));
  for (size_t i = 0; i < expected.size(); ++i) {
    CAPTURE(i);
    CHECK(std::abs(got.f64(static_cast<int64_t>(i)) - expected[i]) < 1e-5);
  }
}

std::vector<Attribute> two_heads() { return {attribute("num_heads", int64_t{N})}; }

const Tensor q = noise({B, S, N*D}, 1), k = noise({B, T, N*D}, 2), v = noise({B, T, N*D}, 3);
const std::nullopt_t none = std::nullopt;

}  // namespace

TEST_CASE("MultiHeadAttention: separate, packed and 4-D inputs are one attention") {
  const Doubles cross = attended(q, k, v, nothing);
  check_near(node("MultiHeadAttention", {q, k, v}, two_heads())[0], cross);
  check_near(node("MultiHeadAttention", {q, packed({k, v})}, two_heads())[0], cross);
  check_near(node("MultiHeadAttention", {q, heads_first(k), heads_first(v)}, two_heads())[0], cross);
  check_near(node("MultiHeadAttention", {packed({k, v, k})}, two_heads())[0], attended(k, v, k, nothing));
}

TEST_CASE("MultiHeadAttention adds its bias, those of Q, K and V one after the other, before the heads split") {
  const Tensor bias = noise({3 * N * D}, 4);
  auto y = node("MultiHeadAttention", {q, k, v, bias}, two_heads(), {"y", "key", "value"});
  const Tensor key = plus(k, bias, N * D), value = plus(v, bias, 2 * N * D);
  check_near(y[0], attended(plus(q, bias, 0), key, value, nothing));
  // The outputs present are the keys and values attended to, split.
  CHECK(y[1].shape == std::vector<int64_t>{B, N, T, D});
  check_near(y[1], elements(heads_first(key)));
  check_near(y[2], elements(heads_first(value)));
}

TEST_CASE("the attention_bias of MultiHeadAttention broadcasts over batch and heads") {
  for (int64_t batch : {int64_t{1}, B})
    for (int64_t heads : {int64_t{1}, N}) {
      const Tensor bias = noise({batch, heads, S, T}, 5);
      const auto term = [&](int64_t b, int64_t n, int64_t i, int64_t j) {
        return bias.f64(((b % batch * heads + n % heads) * S + i) * T + j);
      };
      check_near(node("MultiHeadAttention", {q, k, v, none, none, bias}, two_heads())[0], attended(q, k, v, term));
    }
}

TEST_CASE("the key_padding_mask of MultiHeadAttention: lengths, running sums behind them, keys, queries and keys") {
  const auto check = [](const Tensor& mask, const std::function<bool(int64_t, int64_t, int64_t)>& keep) {
    CAPTURE(mask.type_str());
    // The filter value is finite: 1 would show through.
    auto attributes = two_heads();
    attributes.push_back(attribute("mask_filter_value", -1.0f));
    check_near(node("MultiHeadAttention", {q, k, v, none, mask}, attributes)[0],
               attended(q, k, v, [&](int64_t b, int64_t, int64_t i, int64_t j) { return keep(b, i, j) ? 0 : -1; }));
  };
  const int64_t lengths[B] = {3, 1};
  const auto before_end = [&](int64_t b, int64_t, int64_t j) { return j < lengths[b]; };
  check(int32s({B}, {3, 1}), before_end);
  check(int32s({3 * B + 2}, {3, 1, 0, 2, 4, 0, 3, 6}), before_end);
  const std::vector<int64_t> keys = {1, 0, 1, 0, 1, 1}, pairs = {1, 0, 0, 1, 1, 0, 0, 0, 1, 1, 0, 1};
  check(int32s({B, T}, keys), [&](int64_t b, int64_t, int64_t j) { return keys[static_cast<size_t>(b * T + j)] != 0; });
  check(int32s({B, S, T}, pairs),
        [&](int64_t b, int64_t i, int64_t j) { return pairs[static_cast<size_t>((b * S + i) * T + j)] != 0; });
}

TEST_CASE("MultiHeadAttention with a past: the mask covers it, causal queries stand at the end, present is all keys") {
  const Tensor past_key = noise({B, N, 1, D}, 6), past_value = noise({B, N, 1, D}, 7);
  const auto joined = [](const Tensor& past, const Tensor& x) {  // [B, 1 + T, N * D]
    Tensor result(DType::f32, {B, 1 + T, N * D});
    for (int64_t b = 0; b < B; ++b)
      for (int64_t j = 0; j < 1 + T; ++j)
        for (int64_t e = 0; e < N * D; ++e)
          result.set_f64((b * (1 + T) + j) * N * D + e,
                         j == 0 ? past.f64(b * N * D + e) : x.f64((b * T + j - 1) * N * D + e));
    return result;
  };
  const Tensor all_keys = joined(past_key, k), all_values = joined(past_value, v);
  auto attributes = two_heads();
  attributes.push_back(attribute("unidirectional", 1));
  const Tensor mask = int32s({B, 1 + T}, {1, 1, 1, 1, 0, 1, 1, 1});
  auto y = node("MultiHeadAttention", {noise({B, T, N * D}, 8), k, v, none, mask, none, past_key, past_value},
                attributes, {"y", "key", "value"});
  check_near(y[0],
             attended(noise({B, T, N * D}, 8), all_keys, all_values, [](int64_t b, int64_t, int64_t i, int64_t j) {
               return j > i + 1 ? -infinity : b == 1 && j == 0 ? -10000 : 0;
             }));
  check_near(y[1], elements(heads_first(all_keys)));
  check_near(y[2], elements(heads_first(all_values)));
}

TEST_CASE("a causal query of MultiHeadAttention over a longer key sees it whole where it is the last") {
  auto attributes = two_heads();
  attributes.push_back(attribute("unidirectional", 1));
  const Tensor last = noise({B, 1, N * D}, 9);
  check_near(node("MultiHeadAttention", {last, heads_first(k), heads_first(v)}, attributes)[0],
             attended(last, k, v, nothing));
}

// ---- H58: EmbedLayerNormalization

TEST_CASE("EmbedLayerNormalization: positions of each row, shared, or counted, segments or none") {
  const Tensor words = floats({3, 2}, {0, 1, 10, 12, 20, 25}),
               positions = floats({4, 2}, {0, 0, 100, 200, 300, 400, 5, 6});
  const Tensor segments = floats({2, 2}, {1000, 2000, 3000, 5000}), gamma = floats({2}, {1, 2}),
               beta = floats({2}, {0, 5});
  const Tensor ids = int32s({2, 2}, {0, 1, 2, 0});
  const std::vector<std::string> outputs = {"y", "index", "sum"};
  const auto sums = [&](std::optional<Tensor> segment, std::optional<Tensor> position, std::optional<Tensor> mask) {
    return node("EmbedLayerNormalization",
                {ids, segment, words, positions, segment ? std::optional(segments) : none, gamma, beta, mask, position},
                {}, outputs);
  };
  auto y = sums(none, none, none);
  check_close(y[2], {0, 1, 110, 212, 20, 25, 100, 201});
  CHECK(elements(y[1]) == Doubles{0, 0});
  // Of two elements the smaller becomes -1, the larger 1; then gamma and beta.
  for (int64_t i = 0; i < 8; ++i) CHECK(y[0].f64(i) == doctest::Approx(i % 2 ? 7 : -1).epsilon(1e-4));
  check_close(sums(none, int32s({1, 2}, {1, 3}), none)[2], {100, 201, 15, 18, 120, 225, 5, 7});
  check_close(sums(none, int32s({2, 2}, {1, 3, 0, 2}), none)[2], {100, 201, 15, 18, 20, 25, 300, 401});
  check_close(sums(int32s({2, 2}, {0, 1, 1, 0}), none, none)[2], {1000, 2001, 3110, 5212, 3020, 5025, 1100, 2201});
  // mask_index is where the mask first turns 0.
  CHECK(elements(sums(none, none, int32s({2, 2}, {1, 1, 1, 0}))[1]) == Doubles{2, 1});
  CHECK(elements(sums(none, none, int32s({2, 2}, {0, 1, 0, 0}))[1]) == Doubles{0, 0});
}

// ---- GroupQueryAttention

namespace {

// All scores are 0, so that each query gives the mean of the values it sees.
std::vector<Tensor> means(const Tensor& values, const std::optional<Tensor>& past, const Tensor& seqlens, int64_t total,
                          std::vector<Attribute> attributes = {}) {
  const int64_t batch = values.shape[0], length = values.shape[1];
  ModelText text(17);
  const std::string b = std::to_string(batch), s = std::to_string(length);
  text.input("q", onnx_f32, {b, s, "1"}).input("k", onnx_f32, {b, s, "1"}).input("v", onnx_f32, {b, s, "1"});
  text.input("lengths", onnx_i32, {b}).initializer("total", int32s({}, {total}));
  std::vector<Tensor> inputs = {Tensor(DType::f32, values.shape), Tensor(DType::f32, values.shape), values, seqlens};
  if (past) {
    const std::string p = std::to_string(past->shape[2]);
    text.input("pk", onnx_f32, {b, "1", p, "1"}).input("pv", onnx_f32, {b, "1", p, "1"});
    inputs.push_back(*past);
    inputs.push_back(*past);
  }
  attributes.push_back(attribute("num_heads", 1));
  attributes.push_back(attribute("kv_num_heads", 1));
  text.node("GroupQueryAttention", {"q", "k", "v", past ? "pk" : "", past ? "pv" : "", "lengths", "total"},
            {"y", "", "present"}, std::move(attributes), microsoft);
  text.output("y").output("present");
  return run(text, std::move(inputs));
}

}  // namespace

TEST_CASE("GroupQueryAttention: causal rows stand behind the filled part of each row's cache") {
  // seqlens_k + 1 keys with the 2 new ones: row 0 has 2 past keys, row 1 has 1; what lies behind is not seen.
  auto y = means(floats({2, 2, 1}, {5, 7, 6, 8}), floats({2, 1, 3, 1}, {1, 3, 99, 4, 99, 99}), int32s({2}, {3, 2}), 4);
  check_close(y[0], {3, 4, 5, 6});
  CHECK(y[1].shape == std::vector<int64_t>{2, 1, 4, 1});
  CHECK(Doubles{y[1].f64(0), y[1].f64(1), y[1].f64(2), y[1].f64(3)} == Doubles{1, 3, 5, 7});
  CHECK(Doubles{y[1].f64(4), y[1].f64(5), y[1].f64(6)} == Doubles{4, 6, 8});
  // A buffer as long as all keys is written in place.
  y = means(floats({1, 1, 1}, {5}), floats({1, 1, 4, 1}, {1, 3, 99, 98}), int32s({1}, {2}), 3);
  check_close(y[0], {3});
  check_close(y[1], {1, 3, 5, 98});
}

TEST_CASE("GroupQueryAttention: a prompt padded on the right starts at 0 in every row") {
  auto y = means(floats({2, 3, 1}, {3, 5, 99, 2, 4, 9}), std::nullopt, int32s({2}, {1, 2}), 3);
  CHECK(y[0].f64(0) == doctest::Approx(3));
  CHECK(y[0].f64(1) == doctest::Approx(4));
  CHECK(y[0].f64(3) == doctest::Approx(2));
  CHECK(y[0].f64(4) == doctest::Approx(3));
  CHECK(y[0].f64(5) == doctest::Approx(5));
  check_close(y[1], {3, 5, 99, 2, 4, 9});
}

TEST_CASE("GroupQueryAttention: a window counts the query's own key, causal = 0 sees all keys that are filled") {
  const Tensor values = floats({1, 2, 1}, {5, 7}), past = floats({1, 1, 2, 1}, {1, 3}), lengths = int32s({1}, {3});
  check_close(means(values, past, lengths, 4, {attribute("local_window_size", 2)})[0], {4, 6});
  check_close(means(values, past, lengths, 4, {attribute("causal", 0)})[0], {4, 4});
}
