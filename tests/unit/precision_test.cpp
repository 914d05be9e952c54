// convert_precision beyond its goldens: what depends on the data of weights, functions that share them, its report and
// its errors.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "base/text.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "passes/convert_precision.h"
#include "passes/pipeline.h"

namespace rtx {
namespace {

constexpr std::string_view one_product =
    "rtxir 1\nstage imported\nfunc @main(%0 \"x\": tensor<[2, 2], f32>) {\n"
    "  %1 = weight() {name = \"w\", dtype = f32, shape = [2, 2]} : tensor<[2, 2], f32>\n"
    "  %2 = matmul(%0, %1) : tensor<[2, 2], f32> from \"node 'fc' (MatMul)\" as \"hidden\"\n"
    "  yield(%2)\n} outputs \"y\"\n";

std::unique_ptr<Module> parse(std::string_view text) {
  auto module = parse_module(text, "test");
  REQUIRE_MESSAGE(module, to_string(module.error().first()));
  return std::move(*module);
}

Tensor square(std::vector<float> values) {
  Tensor tensor(DType::f32, {2, 2});
  for (size_t i = 0; i < values.size(); ++i) tensor.set_f64(static_cast<int64_t>(i), static_cast<double>(values[i]));
  return tensor;
}

DType dtype_of_product(const Module& module) {
  for (const auto& operation : module.functions[0]->block.operations()) {
    if (operation->is(Op::matmul)) return operation->result()->type.dtype;
  }
  return DType::i64;
}

TEST_CASE("a weight with a finite number beyond f16 keeps its product in f32, in f16 alone") {
  for (const auto& [largest, half, expected] :
       {std::tuple(65519.0f, DType::f16, DType::f16), std::tuple(65520.0f, DType::f16, DType::f32),
        std::tuple(65520.0f, DType::bf16, DType::bf16), std::tuple(-INFINITY, DType::f16, DType::f16)}) {
    CAPTURE(largest);
    std::unique_ptr<Module> module = parse(one_product);
    module->weights->add("w", square({1, 2, 3, largest}));
    PassContext context;
    context.half = half;
    PrecisionReport report;
    context.precision_report = &report;
    REQUIRE(convert_precision(*module, context));
    CHECK(dtype_of_product(*module) == expected);
    if (expected != DType::f32) continue;
    REQUIRE(report.kept.size() == 1);
    CHECK(report.kept[0].operation == "matmul of node 'fc' (MatMul)");
    CHECK(report.kept[0].why == "a number in operand 'rhs' has no place in f16");
    CHECK_FALSE(report.changed());
  }
}

TEST_CASE("a weight is stored once in half under one name, for all functions that read it") {
  const std::string other = std::string(one_product.substr(one_product.find("func")));
  std::string text = concat(one_product, other);
  text.replace(text.rfind("@main"), 5, "@step");
  std::unique_ptr<Module> module = parse(text);
  module->weights->add("w", square({1, 2, 1.0f / 3, 4}));
  PassContext context;
  PrecisionReport report;
  context.precision_report = &report;
  REQUIRE(convert_precision(*module, context).value());
  REQUIRE(verify(*module));
  CHECK(report.weights == std::vector<std::string>{"w"});
  std::vector<std::string> named;
  for (const auto& function : module->functions) {
    for (const auto& operation : function->block.operations()) {
      if (operation->is(Op::weight)) named.push_back(operation->attributes.string("name"));
    }
  }
  CHECK(named == std::vector<std::string>{"w.f16", "w.f16"});
  const Tensor stored = module->weights->load("w.f16").value();
  CHECK(stored.dtype == DType::f16);
  CHECK(stored.f64(2) == 0.333251953125);  // 1/3 in f16: 0x3555
  CHECK(stored.f64(3) == 4);
}

TEST_CASE("a converted weight reads the same in one piece and in pieces of any size") {
  WeightStore store;
  Tensor wide(DType::f32, {1000});
  for (int64_t i = 0; i < 1000; ++i) wide.set_f64(i, static_cast<double>(i * i) / 7 - 300);
  store.add("w", wide);
  REQUIRE(store.add_converted("h", "w", DType::bf16));
  CHECK_FALSE(store.add_converted("h", "w", DType::bf16));
  const Tensor whole = store.load("h").value();
  for (int64_t i = 0; i < 1000; ++i) {
    std::byte rounded[2];
    store_f64(DType::bf16, rounded, 0, wide.f64(i));
    REQUIRE(whole.f64(i) == load_f64(DType::bf16, rounded, 0));
  }
  for (size_t size : {1u, 3u, 7u, 64u}) {
    std::vector<std::byte> pieces(whole.bytes.size());
    for (size_t at = 0; at < pieces.size(); at += size) {
      const size_t now = std::min(size, pieces.size() - at);
      REQUIRE(store.read("h", static_cast<int64_t>(at), std::span(pieces).subspan(at, now)));
    }
    CHECK(pieces == whole.bytes);
  }
}

TEST_CASE("the report names every cast with its types and reason") {
  std::unique_ptr<Module> module = parse(one_product);
  PassContext context;
  PrecisionReport report;
  context.precision_report = &report;
  REQUIRE(convert_precision(*module, context).value());
  REQUIRE(report.casts.size() == 2);
  CHECK(report.casts[0].value == "x");
  CHECK(report.casts[0].to == DType::f16);
  CHECK(report.casts[0].why == "an operand of matmul of node 'fc' (MatMul)");
  CHECK(report.casts[1].value == "hidden");
  CHECK(report.casts[1].from == DType::f16);
  CHECK(report.casts[1].to == DType::f32);
  CHECK(report.casts[1].why == "an output");
  CHECK(report.summary() == "1 of 1 float operations in f16, 2 casts, 1 weights stored in f16");
  const std::string text = report.str();
  CHECK(text.find("matmul                     1         0       0\n") != std::string::npos);
  CHECK(text.find("  x: f32 to f16, an operand of matmul of node 'fc' (MatMul)\n") != std::string::npos);

  // Once more: there is nothing left to do.
  PassContext again;
  again.precision_report = &report;
  CHECK_FALSE(convert_precision(*module, again).value());
  CHECK(report.summary() == "nothing converted to f16: 2 of 3 float operations are in half precision already");
}

TEST_CASE("what stays in f32 can be named by operation, node, origin or value") {
  for (const char* pattern : {"matmul", "fc", "f?", "*(MatMul)", "hidden", "*"}) {
    CAPTURE(pattern);
    std::unique_ptr<Module> module = parse(one_product);
    PassContext context;
    context.keep_f32 = {pattern};
    CHECK_FALSE(convert_precision(*module, context).value());
    CHECK(dtype_of_product(*module) == DType::f32);
  }
}

TEST_CASE("a glob that fits nothing is an error that names it and what is near") {
  std::unique_ptr<Module> module = parse(one_product);
  PassContext context;
  context.keep_f32 = {"matmul", "hiden"};
  Result<bool> result = convert_precision(*module, context);
  REQUIRE_FALSE(result);
  CHECK(result.error().first().id == "E014");
  CHECK(result.error().first().message.find("'hiden'") != std::string::npos);
  CHECK(result.error().first().help == "did you mean 'hidden'?");
}

}  // namespace
}  // namespace rtx
