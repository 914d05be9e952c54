// Attention kernels under random attributes, masks, shapes and layouts: the generated text, run on the CPU, against the
// evaluator.

#include <doctest/doctest.h>

#include <cmath>
#include <random>

#include "base/text.h"
#include "codegen/plan_kernel.h"
#include "ir/ops/loops.h"
#include "ir/text.h"
#include "tests/kernels/emulator.h"

namespace rtx::testing {
namespace {

const SymbolRanges symbols = {{"b", {0, 64, 0}}, {"q", {0, 4096, 0}}, {"k", {0, 4096, 0}}};
// Planned for so much work that blocks are large, and for so few queries that keys are cut into parts.
const SymbolRanges many = {{"b", {0, 64, 64}}, {"q", {0, 4096, 4096}}, {"k", {0, 4096, 4096}}};
const SymbolRanges short_step = {{"b", {0, 64, 1}}, {"q", {0, 4096, 1}}, {"k", {0, 4096, 4096}}};

struct Case {
  unsigned seed = 0;
  std::unique_ptr<Block> body;
  SymbolValues values;
  double mask_low = -INFINITY;  // what a float mask holds where it forbids
  double fill = -INFINITY;
  size_t kernel = 0;
};

class Draw {
 public:
  explicit Draw(unsigned seed) : random_(seed) {}
  int64_t below(int64_t bound) { return static_cast<int64_t>(random_() % static_cast<uint32_t>(bound)); }
  bool one_in(int64_t count) { return below(count) == 0; }
  template <typename T>
  T of(std::initializer_list<T> list) {
    return list.begin()[below(static_cast<int64_t>(list.size()))];
  }
  double real() { return std::uniform_real_distribution<double>(-1, 1)(random_); }

 private:
  std::mt19937 random_;
};

Value* made(Builder& builder, Op op, std::vector<Value*> operands, AttributeList attributes = {}) {
  Result<Value*> value = builder.value(op, std::move(operands), std::move(attributes));
  REQUIRE_MESSAGE(value.ok(), to_string(value.error().first()));
  return *value;
}

// [batch, heads, length, size], as an operand: whole, or with heads beside the elements, then in the part from `start`
// of a wider operand.
Value* operand(Block& body, Builder& builder, Draw& draw, DType dtype, const Shape& shape) {
  if (draw.one_in(2)) return body.add_argument({dtype, shape});
  const Dim &heads = shape[1], &size = shape[3];
  const int64_t width = (heads * size).constant(), start = draw.of<int64_t>({0, width, 3});
  Value* x = body.add_argument({dtype, {shape[0], shape[2], Dim(start + width)}});
  if (start != 0) {
    x = made(builder, Op::slice, {x},
             {{"starts", Shape{0, 0, start}},
              {"sizes", Shape{shape[0], shape[2], width}},
              {"steps", std::vector<int64_t>{1, 1, 1}}});
  }
  x = made(builder, Op::reshape, {x}, {{"shape", Shape{shape[0], shape[2], heads, size}}});
  return made(builder, Op::transpose, {x}, {{"perm", std::vector<int64_t>{0, 2, 1, 3}}});
}

Case random_case(unsigned seed, DType dtype) {
  Draw draw(seed);
  Case c;
  c.seed = seed;
  c.body = std::make_unique<Block>();
  Block& body = *c.body;
  Builder builder(body);
  const Dim b = Dim::symbol("b"), q = Dim::symbol("q"), k = Dim::symbol("k");
  const int64_t kv_heads = draw.of<int64_t>({1, 2}), group = draw.of<int64_t>({1, 1, 2, 3});
  const int64_t size = draw.of<int64_t>({1, 4, 7, 16, 20, 32, 64, 80, 128, 160, 256});
  const int64_t value_size = draw.one_in(3) ? draw.of<int64_t>({1, 6, 33, 64, 96, 256}) : size;
  const bool square = draw.one_in(3);  // as many keys as queries
  c.values = {{"b", draw.of<int64_t>({1, 2})},
              {"q", draw.of<int64_t>({1, 5, 17, 40})},
              {"k", draw.of<int64_t>({1, 9, 33, 70, 300})}};
  if (draw.one_in(25)) c.values["k"] = 0;
  if (draw.one_in(25)) c.values["q"] = 0;
  if (draw.one_in(30)) c.values["b"] = 0;
  const Dim keys = square ? q : k;
  const Shape scores = {b, kv_heads * group, q, keys};
  std::vector<Value*> operands = {operand(body, builder, draw, dtype, {b, kv_heads * group, q, size}),
                                  operand(body, builder, draw, dtype, {b, kv_heads, keys, size}),
                                  operand(body, builder, draw, dtype, {b, kv_heads, keys, value_size})};
  c.mask_low = draw.of<double>({-INFINITY, -10000.0, 0.0});
  for (int64_t masks = draw.of<int64_t>({0, 0, 1, 1, 2}); masks > 0; --masks) {
    Shape shape = scores;
    for (Dim& dim : shape) {
      if (draw.one_in(2)) dim = 1;
    }
    while (!shape.empty() && shape[0].is(1) && draw.one_in(2)) shape.erase(shape.begin());
    const DType type = draw.of<DType>({DType::boolean, DType::boolean, dtype, DType::f32});
    operands.push_back(body.add_argument({type, shape}));
  }
  if (draw.one_in(5)) {  // computed inside: a bias that a mask of keys cuts off
    Value* keep = body.add_argument({DType::boolean, {b, 1, 1, keys}});
    Value* bias = body.add_argument({dtype, {1, kv_heads * group, q, keys}});
    Tensor low(dtype, {});
    low.set_f64(0, -100);
    operands.push_back(made(builder, Op::select, {keep, bias, made(builder, Op::constant, {}, {{"value", low}})}));
  }
  AttributeList attributes = {{"scale", draw.of<double>({1.0, 0.125, -0.3})}};
  if (draw.one_in(4)) attributes.set("softcap", draw.of<double>({2.0, 30.0}));
  if (draw.one_in(2)) attributes.set("causal", true);
  attributes.set("offset", draw.of<Dim>({Dim(0), Dim(0), keys - q, Dim(3), Dim(-2)}));
  if (draw.one_in(3)) attributes.set("window", draw.of<Dim>({Dim(1), Dim(8), Dim(50), q}));
  c.fill = draw.of<double>({-INFINITY, -INFINITY, -10000.0, -3.4028234663852886e38, -2.0});
  attributes.set("fill", c.fill);
  if (draw.one_in(2)) attributes.set("guard", true);
  Value* y = made(builder, Op::attention, operands, attributes);
  if (draw.one_in(2)) {
    y = made(builder, Op::transpose, {y}, {{"perm", std::vector<int64_t>{0, 2, 1, 3}}});
    y = made(builder, Op::reshape, {y}, {{"shape", Shape{b, q, kv_heads * group * value_size}}});
  }
  body.insert(nullptr, Op::yield, {y}, {}, {});
  return c;
}

Tensor random_operand(const Type& type, const Case& c, Draw& draw) {
  std::vector<int64_t> shape;
  for (const Dim& dim : type.shape) shape.push_back(*dim.evaluate(c.values));
  Tensor tensor(type.dtype, shape);
  for (int64_t i = 0; i < tensor.element_count(); ++i) {
    if (type.dtype == DType::boolean) {
      tensor.set_i64(i, draw.one_in(3) ? 0 : 1);
    } else {
      tensor.set_f64(i, draw.real());
    }
  }
  return tensor;
}

// Float masks: some elements forbid.
void forbid(Tensor& mask, const Case& c, Draw& draw) {
  for (int64_t i = 0; i < mask.element_count(); ++i) {
    if (draw.one_in(3)) mask.set_f64(i, c.mask_low);
  }
}

// Scores of a row that is masked as a whole lie near -10000 or -20000, where neighbouring floats are 2^-10 and 2^-9
// apart.
std::string difference(const Case& c, const Tensor& got, const Tensor& want) {
  double relative = want.dtype == DType::f16 ? 0x1p-9 : want.dtype == DType::bf16 ? 0x1p-6 : 4e-5;
  if (c.mask_low == -10000 || c.fill == -10000) relative += 0x1p-8;
  for (int64_t i = 0; i < want.element_count(); ++i) {
    const double a = got.f64(i), b = want.f64(i);
    if (std::isnan(a) && std::isnan(b)) continue;
    if (!(std::fabs(a - b) <= relative * std::max(std::fabs(b), 0.1)))
      return concat("element ", i, " is ", a, ", not ", b);
  }
  return {};
}

std::vector<Tensor> random_operands(const Case& c) {
  Draw draw(c.seed + 1);
  std::vector<Tensor> operands;
  for (size_t i = 0; i < c.body->argument_count(); ++i) {
    const Value* argument = c.body->argument(i);
    operands.push_back(random_operand(argument->type, c, draw));
    const Use& use = argument->uses()[0];
    if (use.user->is(Op::attention) && use.index >= 3 && is_float(argument->type.dtype))
      forbid(operands.back(), c, draw);
  }
  return operands;
}

TEST_CASE("attention kernels compute what the evaluator says, whatever the attributes, masks and layouts") {
  if (!Emulator::available()) {
    MESSAGE("skipped: no C++ compiler to run generated text with");
    return;
  }
  std::vector<Case> cases;
  Emulator emulator;
  for (unsigned i = 0; i < 240; ++i) {
    Case c = random_case(1000 + 7 * i, i % 4 == 0 ? DType::f32 : i % 4 == 1 ? DType::bf16 : DType::f16);
    Result<codegen::KernelPlan> plan = codegen::plan_attention(*c.body, {i % 3 == 0   ? symbols
                                                                         : i % 3 == 1 ? many
                                                                                      : short_step});
    REQUIRE_MESSAGE(plan.ok(), "seed ", c.seed, ": ", to_string(plan.error().first()));
    CHECK(plan->determinism == package::Determinism::batch_invariant);
    c.kernel = emulator.add(*plan, *c.body);
    cases.push_back(std::move(c));
  }
  if (Result<void> built = emulator.build(); !built) FAIL(to_string(built.error().first()));
  for (const Case& c : cases) {
    CAPTURE(c.seed);
    const std::vector<Tensor> operands = random_operands(c);
    Result<std::vector<Tensor>> want = evaluate(*c.body, operands, c.values, nullptr);
    REQUIRE_MESSAGE(want.ok(), to_string(want.error().first()));
    Result<std::vector<Tensor>> got = emulator.run(c.kernel, operands, c.values);
    REQUIRE_MESSAGE(got.ok(), to_string(got.error().first()));
    const std::string wrong = difference(c, (*got)[0], (*want)[0]);
    if (!wrong.empty()) FAIL_CHECK("seed ", c.seed, ": ", wrong, "\n", print_body(*c.body));
  }
}

TEST_CASE("a row of attention has the same bits alone and in a batch") {
  if (!Emulator::available()) return;
  Emulator emulator;
  Result<std::unique_ptr<Block>> body =
      parse_body(R"((%0: tensor<[b, 2, q, 32], f16>, %1: tensor<[b, 2, k, 32], f16>, %2: tensor<[b, 2, k, 32], f16>) {
  %3 = attention(%0, %1, %2) {scale = 0.2, softcap = 0, causal = true, offset = k - q, window = 0, fill = -inf, guard = false} : tensor<[b, 2, q, 32], f16>
  yield(%3)
}
)",
                 "body");
  REQUIRE(body.ok());
  Result<codegen::KernelPlan> plan = codegen::plan_attention(**body, {symbols});
  REQUIRE(plan.ok());
  const size_t kernel = emulator.add(*plan, **body);
  REQUIRE(emulator.build().ok());
  Draw draw(5);
  Case c;
  c.values = {{"b", 3}, {"q", 30}, {"k", 50}};
  std::vector<Tensor> all;
  for (size_t i = 0; i < 3; ++i) all.push_back(random_operand((*body)->argument(i)->type, c, draw));
  Result<std::vector<Tensor>> batch = emulator.run(kernel, all, c.values);
  REQUIRE(batch.ok());
  // The last query of the last batch.
  c.values = {{"b", 1}, {"q", 1}, {"k", 50}};
  Tensor q(DType::f16, {1, 2, 1, 32});
  for (int64_t h = 0; h < 2; ++h) copy_elements(q, h * 32, all[0], ((2 * 2 + h) * 30 + 29) * 32, 32);
  std::vector<Tensor> one = {q};
  for (size_t i : {1, 2}) {
    one.emplace_back(DType::f16, std::vector<int64_t>{1, 2, 50, 32});
    copy_elements(one.back(), 0, all[i], int64_t{2} * 2 * 50 * 32, int64_t{2} * 50 * 32);
  }
  Result<std::vector<Tensor>> alone = emulator.run(kernel, one, c.values);
  REQUIRE(alone.ok());
  for (int64_t h = 0; h < 2; ++h) {
    for (int64_t d = 0; d < 32; ++d)
      CHECK((*alone)[0].f64(h * 32 + d) == (*batch)[0].f64(((2 * 2 + h) * 30 + 29) * 32 + d));
  }
}

// [b, 2, q, 64] in f16 against as many keys, causal in the second case.
std::unique_ptr<Block> plain_body(bool causal) {
  Result<std::unique_ptr<Block>> body = parse_body(
      concat(R"((%0: tensor<[b, 2, q, 64], f16>, %1: tensor<[b, 2, k, 64], f16>, %2: tensor<[b, 2, k, 64], f16>) {
  %3 = attention(%0, %1, %2) {scale = 0.125, softcap = 0, causal = )",
             causal ? "true" : "false",
             R"(, offset = k - q, window = 0, fill = -inf, guard = false} : tensor<[b, 2, q, 64], f16>
  yield(%3)
}
)"),
      "body");
  REQUIRE(body.ok());
  return std::move(body).value();
}

std::vector<Tensor> operands_at(const Block& body, const SymbolValues& values) {
  Case c;
  c.values = values;
  Draw draw(11);
  std::vector<Tensor> operands;
  for (size_t i = 0; i < body.argument_count(); ++i)
    operands.push_back(random_operand(body.argument(i)->type, c, draw));
  return operands;
}

TEST_CASE("blocks of 64 and of 128 rows give the same bits") {
  if (!Emulator::available()) return;
  Emulator emulator;
  const auto body = plain_body(false);
  std::vector<std::string> tiles;
  for (const SymbolRanges* ranges : {&symbols, &many}) {
    Result<codegen::KernelPlan> plan = codegen::plan_attention(*body, {*ranges});
    REQUIRE(plan.ok());
    tiles.push_back(plan->key.tile);
    emulator.add(*plan, *body);
  }
  CHECK(tiles == std::vector<std::string>{"tensor.q64k64.i32", "tensor.q128k64.i32"});
  REQUIRE(emulator.build().ok());
  const SymbolValues values = {{"b", 2}, {"q", 150}, {"k", 100}};
  const std::vector<Tensor> operands = operands_at(*body, values);
  Result<std::vector<Tensor>> small = emulator.run(0, operands, values), large = emulator.run(1, operands, values);
  REQUIRE(small.ok());
  REQUIRE(large.ok());
  CHECK((*small)[0].bytes == (*large)[0].bytes);
}

// The comparison sees what is wrong: each of these lines matters.
TEST_CASE("attention on tensor cores is wrong without its waits, its limits or its last keys") {
  if (!Emulator::available()) return;
  const std::pair<std::string_view, std::string_view> changes[] = {
      {"", ""},
      {"    rtx_copy_wait<0>();\n", ""},
      {"if (place >= keys) x = __uint_as_float(0xff800000u);", ""},
      {"x += __uint_as_float(0xff800000u)", "x += 0.0f"},
      {"acc[r / 2][n][r % 2 * 2] *= fade;", ""},
      {"rtx_along<depth / 8>(k_now, d)", "rtx_along<depth / 8>(k_now, 0)"},
  };
  Emulator emulator;
  const auto body = plain_body(true);
  for (const auto& [from, to] : changes) {
    Result<codegen::KernelPlan> plan = codegen::plan_attention(*body, {symbols});
    REQUIRE(plan.ok());
    std::string& text = plan->launch->text;
    const size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    text.replace(at, from.size(), to);
    emulator.add(*plan, *body);
  }
  if (Result<void> built = emulator.build(); !built) FAIL(to_string(built.error().first()));
  const SymbolValues values = {{"b", 1}, {"q", 70}, {"k", 150}};
  const std::vector<Tensor> operands = operands_at(*body, values);
  Result<std::vector<Tensor>> want = evaluate(*body, operands, values, nullptr);
  REQUIRE(want.ok());
  for (size_t i = 0; i < std::size(changes); ++i) {
    CAPTURE(changes[i].first);
    Result<std::vector<Tensor>> got = emulator.run(i, operands, values);
    REQUIRE(got.ok());
    CHECK(difference(Case(), (*got)[0], (*want)[0]).empty() == (i == 0));
  }
}

// Query heads in groups of 4, one query: f16 on tensor cores, f32 not.
std::unique_ptr<Block> step_body(std::string_view dtype) {
  auto type = [&](std::string_view heads, std::string_view length) {
    return concat("tensor<[b, ", heads, ", ", length, ", 32], ", dtype, ">");
  };
  Result<std::unique_ptr<Block>> body = parse_body(
      concat("(%0: ", type("8", "1"), ", %1: ", type("2", "k"), ", %2: ", type("2", "k"), ") {\n  %3 = attention(%0, ",
             "%1, %2) {scale = 0.25, softcap = 0, causal = true, offset = k - 1, window = 0, fill = -inf, guard = ",
             "false} : ", type("8", "1"), "\n  yield(%3)\n}\n"),
      "body");
  REQUIRE_MESSAGE(body.ok(), to_string(body.error().first()));
  return std::move(body).value();
}

TEST_CASE("a step of one query has the same bits alone and in a batch, in parts of the keys that are added in order") {
  if (!Emulator::available()) return;
  Emulator emulator;
  for (const char* dtype : {"f16", "f32"}) {
    const auto body = step_body(dtype);
    Result<codegen::KernelPlan> plan = codegen::plan_attention(*body, {symbols});
    REQUIRE(plan.ok());
    CHECK(plan->determinism == package::Determinism::batch_invariant);
    CHECK(plan->key.tile == (dtype[1] == '1' ? "tensor.q16k64.split256.i32" : "simt.q16k32.split256.i32"));
    const SymbolValues sizes = {{"b", 3}, {"k", 700}, {"q", 1}};
    CHECK(*plan->launch->grid[0].evaluate(sizes) == 3 * 2 * 3);
    CHECK(*plan->launch->counters.evaluate(sizes) == 3 * 2);
    CHECK(*plan->launch->workspace_bytes.evaluate(sizes) == 3 * 2 * 3 * 4 * (32 + 2) * 4);
    emulator.add(*plan, *body);
    // The comparison sees when a part is left out.
    std::string& text = plan->launch->text;
    const size_t at = text.find("total += __ldcg");
    REQUIRE(at != std::string::npos);
    text.insert(at, "if (i == 0) continue;\n");
    emulator.add(*plan, *body);
  }
  if (Result<void> built = emulator.build(); !built) FAIL(to_string(built.error().first()));
  for (size_t kernel : {0, 2}) {
    const auto body = step_body(kernel == 0 ? "f16" : "f32");
    for (int64_t keys : {1, 255, 256, 257, 700}) {
      CAPTURE(keys);
      SymbolValues values = {{"b", 3}, {"k", keys}, {"q", 1}};
      std::vector<Tensor> operands = operands_at(*body, values);
      Result<std::vector<Tensor>> want = evaluate(*body, operands, values, nullptr);
      Result<std::vector<Tensor>> batch = emulator.run(kernel, operands, values);
      REQUIRE(want.ok());
      REQUIRE_MESSAGE(batch.ok(), to_string(batch.error().first()));
      CHECK(difference(Case(), (*batch)[0], (*want)[0]) == "");
      if (keys == 700) {
        Result<std::vector<Tensor>> broken = emulator.run(kernel + 1, operands, values);
        REQUIRE(broken.ok());
        CHECK(difference(Case(), (*broken)[0], (*want)[0]) != "");
      }
      // The last of the batch.
      for (Tensor& operand : operands) {
        const int64_t count = operand.element_count() / 3;
        Tensor one(operand.dtype, {1, operand.shape[1], operand.shape[2], operand.shape[3]});
        copy_elements(one, 0, operand, 2 * count, count);
        operand = one;
      }
      values["b"] = 1;
      Result<std::vector<Tensor>> alone = emulator.run(kernel, operands, values);
      REQUIRE(alone.ok());
      const size_t bytes = (*alone)[0].bytes.size();
      CHECK(std::equal((*alone)[0].bytes.begin(), (*alone)[0].bytes.end(), (*batch)[0].bytes.begin() + 2 * bytes));
    }
  }
}

TEST_CASE("what plan_attention refuses, and why") {
  auto refusal = [](std::string_view text) {
    Result<std::unique_ptr<Block>> body = parse_body(std::string(text), "body");
    REQUIRE_MESSAGE(body.ok(), to_string(body.error().first()));
    Result<codegen::KernelPlan> plan = codegen::plan_attention(**body, {symbols});
    REQUIRE(!plan.ok());
    CHECK(plan.error().first().id == "E441");
    return plan.error().first().message;
  };
  auto attention = [&](std::string_view dtype, std::string_view size, std::string_view fill) {
    const std::string type = concat("tensor<[b, 2, q, ", size, "], ", dtype, ">");
    return refusal(concat(
        "(%0: ", type,
        ") {\n  %1 = attention(%0, %0, %0) {scale = 1, softcap = 0, causal = false, offset = 0, window = 0, fill = ",
        fill, ", guard = false} : ", type, "\n  yield(%1)\n}\n"));
  };
  CHECK(attention("f64", "8", "-inf") == "no attention kernel: f64 is not computed");
  CHECK(attention("f32", "257", "-inf") == "no attention kernel: heads are not of 1 to 256 elements");
  CHECK(attention("f32", "q", "-inf") == "no attention kernel: heads are not of 1 to 256 elements");
  CHECK(attention("f32", "8", "-1e300") == "no attention kernel: the fill is beyond f32");
  CHECK(refusal("(%0: tensor<[b, 2, q, 8], f32>) {\n  %1 = relu(%0) : tensor<[b, 2, q, 8], f32>\n  %2 = attention(%1, "
                "%0, %0) {scale = 1, "
                "softcap = 0, causal = false, offset = 0, window = 0, fill = -inf, guard = false} : tensor<[b, 2, q, "
                "8], f32>\n  yield(%2)\n}\n") == "no attention kernel: q, k or v is not a view of an operand");
  CHECK(refusal("(%0: tensor<[b, 2, q, 8], f32>) {\n  %1 = slice(%0) {starts = [0, 0, k, 0], sizes = [b, 2, 1, 8], "
                "steps = [1, 1, 1, 1]} : "
                "tensor<[b, 2, 1, 8], f32>\n  %2 = attention(%0, %1, %1) {scale = 1, softcap = 0, causal = false, "
                "offset = 0, window = 0, "
                "fill = -inf, guard = false} : tensor<[b, 2, q, 8], f32>\n  yield(%2)\n}\n") ==
        "no attention kernel: a slice may leave its operand");
  CHECK(refusal("(%0: tensor<[b, 2, q, 8], f32>) {\n  %1 = attention(%0, %0, %0) {scale = 1, softcap = 0, causal = "
                "false, offset = 0, "
                "window = 0, fill = -inf, guard = false} : tensor<[b, 2, q, 8], f32>\n  %2 = relu(%1) : tensor<[b, 2, "
                "q, 8], f32>\n  yield(%2)\n}\n") == "no attention kernel: the result is not a view of the attention");
  CHECK(refusal("(%0: tensor<[b, 2, q, 8], f32>) {\n  yield(%0)\n}\n") ==
        "no attention kernel: the body does not have exactly one attention");
}

}  // namespace
}  // namespace rtx::testing
