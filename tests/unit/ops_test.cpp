#include <doctest/doctest.h>

#include <cmath>
#include <set>

#include "base/file.h"
#include "base/text.h"
#include "ir/evaluate.h"
#include "ir/op_docs.h"
#include "ir/ops/loops.h"
#include "ir/text.h"

namespace rtx {
namespace {

std::unique_ptr<Module> parse(std::string_view text) {
  auto module = parse_module(text, "test");
  REQUIRE_MESSAGE(module, to_string(module.error().first()));
  return std::move(*module);
}

// Equal bits, any nan for any nan; within `relative` also other floats, since numpy's exp and ours may round
// f64 differently before both round to f32.
std::string difference(const Tensor& got, const Tensor& expected, double relative) {
  if (got.dtype != expected.dtype || got.shape != expected.shape)
    return concat(got.type_str(), " for ", expected.type_str());
  for (int64_t i = 0; i < got.element_count(); ++i) {
    if (!is_float(got.dtype)) {
      if (got.i64(i) != expected.i64(i)) return concat("element ", i, ": ", got.i64(i), " for ", expected.i64(i));
      continue;
    }
    double x = got.f64(i), y = expected.f64(i);
    bool same = (std::isnan(x) && std::isnan(y)) || (x == y && std::signbit(x) == std::signbit(y)) ||
                (std::isfinite(x) && x != y && std::fabs(x - y) <= relative * std::fabs(y));
    if (!same) return concat("element ", i, ": ", x, " for ", y);
  }
  return {};
}

TEST_CASE("every op gives the values that numpy gives") {
  std::string path = concat(RTX_TEST_DIR, "/unit/op_values.rtxir");
  std::unique_ptr<Module> module = parse(read_text_file(path, int64_t{1} << 24).value());
  std::set<Op> seen;
  for (const auto& function : module->functions) {
    CAPTURE(function->name);
    const Operation* operation = function->block.terminator()->operand(0)->def();
    seen.insert(operation->op);
    Result<std::vector<Tensor>> results = evaluate(*function, {}, *module->weights);
    REQUIRE_MESSAGE(results, to_string(results.error().first()));
    bool movement = operation->spec().family == OpFamily::movement || operation->spec().family == OpFamily::indexing;
    double relative = movement ? 0 : (*results)[0].dtype == DType::f16 ? 1e-3 : 1.2e-7;
    CHECK(difference((*results)[0], (*results)[1], relative) == "");
  }
  for (Op op : all_ops()) {
    bool structure = op == Op::constant || op == Op::weight || op == Op::fusion || op == Op::yield;
    CHECK_MESSAGE((structure || seen.contains(op)), to_string(op), " has no case in make_op_values.py");
  }
}

TEST_CASE("the comparison with numpy sees a wrong value") {
  Tensor one = Tensor::scalar(DType::f32, 1), other = Tensor::scalar(DType::f32, 1.0001);
  CHECK(difference(one, one, 0) == "");
  CHECK(difference(one, other, 1.2e-7) != "");
  CHECK(difference(Tensor::scalar(DType::f32, -0.0), Tensor::scalar(DType::f32, 0.0), 1.2e-7) != "");
  CHECK(difference(Tensor::scalar(DType::f32, NAN), one, 1.2e-7) != "");
  CHECK(difference(Tensor::vector({1}), Tensor::vector({2}), 1) != "");
}

TEST_CASE("casts to the eight-bit floats saturate or not as asked") {
  auto cast = [](std::string_view dtype, std::string_view saturate) {
    std::unique_ptr<Module> module = parse(concat(
        "rtxir 1\nstage imported\nfunc @main() {\n  %0 = constant() {value = dense<[3], f32, [1000, 1e6, inf]>} : "
        "tensor<[3], f32>\n  %1 = cast(%0) {to = ",
        dtype, ", saturate = ", saturate, "} : tensor<[3], ", dtype,
        ">\n  %2 = cast(%1) {to = f32} : tensor<[3], f32>\n  yield(%2)\n} outputs \"y\"\n"));
    Tensor y = std::move(evaluate(*module->functions[0], {}, *module->weights).value()[0]);
    return std::vector<double>{y.f64(0), y.f64(1), y.f64(2)};
  };
  CHECK(cast("f8e4m3", "true") == std::vector<double>{448, 448, 448});
  CHECK(cast("f8e5m2", "true") == std::vector<double>{1024, 57344, 57344});
  CHECK(cast("f8e5m2", "false") == std::vector<double>{1024, INFINITY, INFINITY});
  std::vector<double> e4m3 = cast("f8e4m3", "false");  // no infinity in this form: nan
  CHECK(std::isnan(e4m3[0]));
  CHECK(std::isnan(e4m3[2]));
}

TEST_CASE("four-bit elements are moved one by one") {
  std::unique_ptr<Module> module = parse(
      "rtxir 1\nstage imported\nfunc @main() {\n  %0 = constant() {value = dense<[3], i4, [1, -2, 3]>} : tensor<[3], "
      "i4>\n"
      "  %1 = slice(%0) {starts = [2], sizes = [3], steps = [-1]} : tensor<[3], i4>\n"
      "  %2 = concat(%0, %1) {axis = 0} : tensor<[6], i4>\n  %3 = cast(%2) {to = i64} : tensor<[6], i64>\n  yield(%3)\n"
      "} outputs \"y\"\n");
  Tensor y = std::move(evaluate(*module->functions[0], {}, *module->weights).value()[0]);
  CHECK(load_all_i64(y) == std::vector<int64_t>{1, -2, 3, 3, -2, 1});
}

constexpr std::string_view symbolic =
    "rtxir 1\nstage imported\nsymbol past 0..16\nsymbol seq 1..8\n"
    "func @main(%0 \"mask\": tensor<[past + seq], f32>, %1 \"x\": tensor<[seq, 4], f32>) {\n"
    "  %2 = slice(%0) {starts = [past], sizes = [seq], steps = [1]} : tensor<[seq], f32>\n"
    "  %3 = reshape(%2) {shape = [seq, 1]} : tensor<[seq, 1], f32>\n"
    "  %4 = mul(%1, %3) : tensor<[seq, 4], f32>\n  yield(%4)\n} outputs \"y\"\n";

Tensor iota(std::vector<int64_t> shape) {
  Tensor tensor(DType::f32, std::move(shape));
  for (int64_t i = 0; i < tensor.element_count(); ++i) tensor.set_f64(i, static_cast<double>(i));
  return tensor;
}

TEST_CASE("symbols are bound from lone axes and then from sums") {
  std::unique_ptr<Module> module = parse(symbolic);
  auto result = evaluate(*module->functions[0], {iota({5}), iota({2, 4})}, *module->weights, module->symbols);
  REQUIRE_MESSAGE(result, to_string(result.error().first()));
  CHECK((*result)[0].f64(1) == 3);
  CHECK((*result)[0].f64(7) == 28);
}

TEST_CASE("inputs that do not fit the types are refused with the name of the input") {
  std::unique_ptr<Module> module = parse(symbolic);
  auto error = [&](std::vector<Tensor> inputs) {
    auto result = evaluate(*module->functions[0], std::move(inputs), *module->weights, module->symbols);
    REQUIRE_FALSE(result);
    return result.error().first();
  };
  CHECK(error({iota({5})}).id == "E343");
  Diagnostic dtype = error({Tensor(DType::f16, {5}), iota({2, 4})});
  CHECK(dtype.id == "E344");
  CHECK(dtype.message.find("\"mask\"") != std::string::npos);
  CHECK(error({iota({5}), iota({2, 4, 1})}).id == "E345");
  CHECK(error({iota({5}), iota({2, 3})}).message.find("axis 1 of input \"x\"") != std::string::npos);
  CHECK(error({iota({1}), iota({2, 4})}).id == "E346");   // past would be -1
  CHECK(error({iota({30}), iota({2, 4})}).id == "E346");  // past would be 28
}

TEST_CASE("an evaluation error names the node") {
  std::unique_ptr<Module> module = parse(
      "rtxir 1\nstage imported\nsymbol n 0..8\nfunc @main(%0 \"x\": tensor<[n], f32>) {\n"
      "  %1 = slice(%0) {starts = [3], sizes = [1], steps = [1]} : tensor<[1], f32> from \"node 'first' (Slice)\"\n"
      "  yield(%1)\n} outputs \"y\"\n");
  CHECK(evaluate(*module->functions[0], {iota({4})}, *module->weights));
  auto result = evaluate(*module->functions[0], {iota({3})}, *module->weights);
  REQUIRE_FALSE(result);
  CHECK(result.error().first().id == "slice_c4");
  CHECK(result.error().first().where.find("'first'") != std::string::npos);
}

TEST_CASE("a weight is read from the store and its type is checked") {
  std::unique_ptr<Module> module = parse(
      "rtxir 1\nstage imported\nfunc @main() {\n  %0 = weight() {name = \"w\", dtype = f32, shape = [2]} : tensor<[2], "
      "f32>\n"
      "  yield(%0)\n} outputs \"y\"\n");
  CHECK(evaluate(*module->functions[0], {}, *module->weights).error().first().id == "E620");
  module->weights->add("w", iota({2}));
  CHECK(evaluate(*module->functions[0], {}, *module->weights).value()[0] == iota({2}));
  WeightStore other;
  other.add("w", iota({3}));
  CHECK(evaluate(*module->functions[0], {}, other).error().first().id == "E620");
}

TEST_CASE("a fusion computes what its body computes") {
  std::unique_ptr<Module> module = parse(
      "rtxir 1\nstage fused\nsymbol n 1..8\nfunc @main(%0 \"x\": tensor<[n], f32>) {\n"
      "  %1, %2 = fusion(%0) {kind = \"pointwise\"} (%3: tensor<[n], f32>) {\n    %4 = add(%3, %3) : tensor<[n], f32>\n"
      "    %5 = mul(%4, %3) : tensor<[n], f32>\n    yield(%4, %5)\n  } : tensor<[n], f32>, tensor<[n], f32>\n"
      "  yield(%1, %2)\n} outputs \"y\", \"z\"\n");
  auto result = evaluate(*module->functions[0], {iota({4})}, *module->weights).value();
  CHECK(result[0].f64(3) == 6);
  CHECK(result[1].f64(3) == 18);
}

TEST_CASE("an absurd size is refused before memory is taken") {
  std::unique_ptr<Module> module = parse(
      "rtxir 1\nstage imported\nsymbol n 0..2147483648\nfunc @main(%0 \"x\": tensor<[n], f32>) {\n"
      "  %1 = iota() {shape = [n*1048576*1048576], axis = 0, dtype = i64} : tensor<[1099511627776*n], i64>\n"
      "  yield(%1)\n} outputs \"y\"\n");
  CHECK(evaluate(*module->functions[0], {iota({0})}, *module->weights));
  CHECK(evaluate(*module->functions[0], {iota({3})}, *module->weights).error().first().id == "E504");
}

// The hook of the importer: two dims that must be equal are asked about once, and the answer is taken.
TEST_CASE("dims that must be equal are offered for unification") {
  Dim n = Dim::symbol("n");
  std::vector<Type> types = {{DType::f32, {2, n}}, {DType::f32, {7, 3}}};
  std::vector<std::pair<std::string, std::string>> asked;
  std::function<bool(const Dim&, const Dim&)> unify = [&](const Dim& a, const Dim& b) {
    asked.emplace_back(a.str(), b.str());
    return true;
  };
  AttributeList attributes;
  CHECK(infer_types(Op::matmul, types, attributes, &unify).value()[0].str() == "tensor<[2, 3], f32>");
  CHECK(asked == std::vector<std::pair<std::string, std::string>>{{"n", "7"}});
  CHECK_FALSE(infer_types(Op::matmul, types, attributes));
  std::vector<Type> sums = {{DType::f32, {n}}, {DType::f32, {5}}};
  AttributeList none;
  CHECK(infer_types(Op::add, sums, none, &unify).value()[0].str() == "tensor<[5], f32>");
}

TEST_CASE("docs/ir_ops.md is what the records say") {
  std::string committed = read_text_file(concat(RTX_TEST_DIR, "/../docs/ir_ops.md"), int64_t{1} << 24).value();
  CHECK_MESSAGE(committed == ops_markdown(), "write it again: build/dev/cli/rtx-opt --list-ops > docs/ir_ops.md");
}

}  // namespace
}  // namespace rtx
