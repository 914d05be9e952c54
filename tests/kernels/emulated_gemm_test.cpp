// Our own matrix products: the generated text, run on the CPU, against the evaluator.

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "base/text.h"
#include "codegen/plan_kernel.h"
#include "codegen/product.h"
#include "ir/text.h"
#include "tests/kernels/emulator.h"

namespace rtx::testing {
namespace {

// What may be done to the elements of the product.
enum class Epilogue { none, bias_gelu, residual, reshaped_silu, two_results, cast, gate, quarters };

struct Case {
  std::string name;
  DType dtype;
  std::shared_ptr<Block> body;
  SymbolValues sizes;
  size_t kernel = 0;
};

constexpr int64_t largest = 300;
const SymbolRanges symbols = {{"b", {0, 8, 0}},       {"m", {0, largest, 0}}, {"n", {0, largest, 0}},
                              {"k", {0, largest, 0}}, {"few", {0, 16, 0}},    {"many", {0, largest, 40000}}};

struct Form {
  DType dtype = DType::f32;
  Shape lhs_batch, rhs_batch;
  Dim m, n, k;
  bool transpose_lhs = false, transpose_rhs = false;
  Epilogue epilogue = Epilogue::none;
};

std::unique_ptr<Block> make_body(const Form& form) {
  auto body = std::make_unique<Block>();
  auto matrix = [](Shape shape, const Dim& rows, const Dim& columns, bool transposed) {
    shape.push_back(transposed ? columns : rows);
    shape.push_back(transposed ? rows : columns);
    return shape;
  };
  Value* lhs = body->add_argument({form.dtype, matrix(form.lhs_batch, form.m, form.k, form.transpose_lhs)});
  Value* rhs = body->add_argument({form.dtype, matrix(form.rhs_batch, form.k, form.n, form.transpose_rhs)});
  Builder builder(*body);
  auto make = [&](Op op, std::vector<Value*> operands, AttributeList attributes = {}) {
    Result<Value*> value = builder.value(op, std::move(operands), std::move(attributes));
    if (!value) FAIL(to_string(value.error().first()));
    return *value;
  };
  Value* product =
      make(Op::matmul, {lhs, rhs}, {{"transpose_lhs", form.transpose_lhs}, {"transpose_rhs", form.transpose_rhs}});
  const Type type = product->type;
  auto part = [&](Value* value, int64_t index, const Dim& width) {
    Shape starts(type.shape.size(), Dim(0)), sizes = type.shape;
    starts.back() = width * Dim(index);
    sizes.back() = width;
    return make(Op::slice, {value},
                {{"starts", starts}, {"sizes", sizes}, {"steps", std::vector<int64_t>(sizes.size(), 1)}});
  };
  std::vector<Value*> results = {product};
  switch (form.epilogue) {
    case Epilogue::none:
      break;
    case Epilogue::bias_gelu: {
      Value* sum = make(Op::add, {product, body->add_argument({form.dtype, {form.n}})});
      results = {make(Op::gelu, {sum}, {{"approximate", std::string("none")}})};
      break;
    }
    case Epilogue::residual:
      results = {make(Op::add, {body->add_argument(type), product})};
      break;
    case Epilogue::reshaped_silu: {
      Value* flat = make(Op::reshape, {product}, {{"shape", Shape{type.element_count()}}});
      results = {make(Op::silu, {flat})};
      break;
    }
    case Epilogue::two_results: {
      // A factor for each row of each batch.
      Shape rows = type.shape;
      rows.back() = 1;
      Value* scaled = make(Op::mul, {product, body->add_argument({form.dtype, rows})});
      results = {scaled, make(Op::tanh, {scaled}), product};
      break;
    }
    case Epilogue::gate: {
      const Dim half = *form.n.divided_by(Dim(2));
      Value* sum = make(Op::add, {product, body->add_argument({form.dtype, {form.n}})});
      results = {make(Op::mul, {make(Op::silu, {part(sum, 0, half)}), part(sum, 1, half)})};
      break;
    }
    case Epilogue::quarters: {
      const Dim quarter = *form.n.divided_by(Dim(4));
      Value* low = make(Op::sub, {part(product, 0, quarter), part(product, 1, quarter)});
      results = {low, make(Op::sub, {part(product, 2, quarter), part(product, 3, quarter)})};
      break;
    }
    case Epilogue::cast:
      results = {
          make(Op::cast, {product}, {{"to", form.dtype == DType::f64 ? DType::f16 : DType::f64}, {"saturate", true}})};
      break;
  }
  body->insert(nullptr, Op::yield, results, {}, {});
  codegen::slice_before_elementwise(*body);
  return body;
}

Tensor random_tensor(const Type& type, const SymbolValues& sizes, std::mt19937& random) {
  std::vector<int64_t> shape;
  for (const Dim& dim : type.shape) shape.push_back(*dim.evaluate(sizes));
  Tensor tensor(type.dtype, shape);
  std::uniform_real_distribution<double> real(-1, 1);
  for (int64_t i = 0; i < tensor.element_count(); ++i) tensor.set_f64(i, real(random));
  return tensor;
}

double unit_of(DType dtype) {
  return dtype == DType::bf16 ? 0x1p-7 : dtype == DType::f16 ? 0x1p-10 : dtype == DType::f32 ? 0x1p-22 : 0x1p-50;
}

// The product may differ in its last place, and by the rounding of sums of up to `largest` f32 products below 1.
std::string difference(const Tensor& got, const Tensor& want, DType computed) {
  if (got.dtype != want.dtype || got.shape != want.shape) return concat(got.type_str(), ", not ", want.type_str());
  const double unit = std::max(unit_of(computed), unit_of(want.dtype));
  const double absolute = computed == DType::f64 ? 1e-12 : 2e-5 + (computed == DType::f32 ? 0 : unit / 2);
  for (int64_t i = 0; i < want.element_count(); ++i) {
    const double a = got.f64(i), b = want.f64(i);
    if (!(std::fabs(a - b) <= 2 * unit * std::fabs(b) + absolute)) return concat("element ", i, " is ", a, ", not ", b);
  }
  return {};
}

std::string describe(const Form& form, const SymbolValues& sizes) {
  std::string text = concat(to_string(form.dtype), form.transpose_lhs ? " T" : " N", form.transpose_rhs ? "T " : "N ",
                            form.m.str(), " x ", form.n.str(), " x ", form.k.str(), ", epilogue ",
                            static_cast<int>(form.epilogue), ", batch ", form.lhs_batch.size(), form.rhs_batch.size());
  for (const auto& [name, value] : sizes) text += concat(" ", name, " = ", value);
  return text;
}

class Cases {
 public:
  std::vector<Case> list;

  void add(const Form& form, std::initializer_list<SymbolValues> bindings, std::string_view tile = {}) {
    std::shared_ptr<Block> body = make_body(form);
    Result<codegen::KernelPlan> plan =
        codegen::plan_kernel("contract", *body, {symbols, package::Determinism::batch_invariant});
    if (!plan) FAIL(describe(form, {}), ": ", to_string(plan.error().first()));
    REQUIRE(plan->launch);
    CHECK(plan->determinism == package::Determinism::batch_invariant);
    if (!tile.empty()) CHECK(plan->key.tile.find(tile) != std::string::npos);
    const size_t kernel = emulator_.add(*plan, *body);
    for (const SymbolValues& sizes : bindings) list.push_back({describe(form, sizes), form.dtype, body, sizes, kernel});
  }

  void run() {
    if (Result<void> built = emulator_.build(); !built) FAIL(to_string(built.error().first()));
    std::mt19937 random(20240607);
    for (const Case& c : list) {
      std::vector<Tensor> operands;
      for (size_t i = 0; i < c.body->argument_count(); ++i)
        operands.push_back(random_tensor(c.body->argument(i)->type, c.sizes, random));
      Result<std::vector<Tensor>> want = evaluate(*c.body, operands, c.sizes, nullptr);
      if (!want) FAIL(c.name, ": ", to_string(want.error().first()));
      Result<std::vector<Tensor>> got = emulator_.run(c.kernel, operands, c.sizes);
      if (!got) FAIL(c.name, ": ", to_string(got.error().first()));
      for (size_t i = 0; i < want->size(); ++i) {
        const std::string wrong = difference((*got)[i], (*want)[i], c.dtype);
        if (!wrong.empty()) FAIL_CHECK(c.name, ", result ", i, ": ", wrong);
      }
    }
  }

  Emulator& emulator() { return emulator_; }

 private:
  Emulator emulator_;
};

const DType dtypes[] = {DType::f64, DType::f32, DType::f16, DType::bf16};

TEST_CASE("own products compute what the evaluator says, whatever the sizes, layouts and epilogues") {
  if (!Emulator::available()) {
    MESSAGE("skipped: no C++ compiler to run generated text with");
    return;
  }
  const Dim b = Dim::symbol("b"), m = Dim::symbol("m"), n = Dim::symbol("n"), k = Dim::symbol("k");
  const Dim few = Dim::symbol("few"), many = Dim::symbol("many");
  const SymbolValues ragged = {{"b", 2}, {"m", 37}, {"n", 71}, {"k", 45}};
  const SymbolValues whole = {{"b", 3}, {"m", 64}, {"n", 72}, {"k", 88}};
  const SymbolValues ones = {{"b", 1}, {"m", 1}, {"n", 1}, {"k", 1}};
  const SymbolValues empty = {{"b", 2}, {"m", 5}, {"n", 6}, {"k", 0}};
  Cases cases;
  for (DType t : dtypes) {
    for (bool lhs : {false, true}) {
      for (bool rhs : {false, true}) {
        cases.add({t, {}, {}, m, n, k, lhs, rhs}, {ragged, whole, ones, empty}, "64x64");
        cases.add({t, {b}, {b}, few, 40, k, lhs, rhs},
                  {{{"b", 2}, {"few", 16}, {"k", 72}}, {{"b", 2}, {"few", 3}, {"k", 130}}}, "16x64");
        cases.add({t, {}, {}, many, 136, 40, lhs, rhs}, {{{"many", 150}}},
                  t == DType::f64   ? "64x64"
                  : t == DType::f32 ? "128x64"
                                    : "128x128");
      }
    }
    cases.add({t, {b}, {}, m, 24, 16, false, true, Epilogue::bias_gelu}, {ragged, whole, empty});
    cases.add({t, {}, {b}, m, n, k}, {ragged});
    cases.add({t, {}, {b, 2}, m, n, k, false, true, Epilogue::residual}, {ragged, whole});
    cases.add({t, {b}, {b}, m, n, k, false, true, Epilogue::two_results}, {ragged, whole});
    cases.add({t, {}, {}, m, n, k, false, false, Epilogue::reshaped_silu}, {ragged, ones, empty});
    cases.add({t, {b}, {}, m, n, k, true, false, Epilogue::cast}, {ragged});
    for (bool rhs : {false, true}) {
      cases.add({t, {}, {}, m, Dim(2) * n, k, false, rhs, Epilogue::gate}, {ragged, whole, ones, empty}, ".p2");
      cases.add({t, {b}, {b}, few, Dim(2) * n, 24, false, rhs, Epilogue::gate},
                {{{"b", 2}, {"few", 11}, {"n", 72}}, {{"b", 2}, {"few", 3}, {"n", 37}}}, "16x64");
      cases.add({t, {}, {}, many, 272, 40, false, rhs, Epilogue::gate}, {{{"many", 150}}}, ".p2");
      cases.add({t, {}, {}, m, Dim(4) * n, k, false, rhs, Epilogue::quarters}, {ragged, whole}, ".p4");
    }
    cases.add({t, {}, {}, m, n, k}, {{{"m", 0}, {"n", 5}, {"k", 3}}, {{"m", 5}, {"n", 0}, {"k", 3}}});
  }
  cases.run();
}

TEST_CASE("a row of a product has the same bits in every batch and by every tile shape") {
  if (!Emulator::available()) return;
  for (DType t : dtypes) {
    Cases cases;
    constexpr int64_t k = 200, n = 40;
    auto add = [&](const Dim& rows) { cases.add({t, {}, {}, rows, n, k, false, true, Epilogue::bias_gelu}, {{}}); };
    add(Dim::symbol("few"));
    add(Dim::symbol("m"));
    add(Dim::symbol("many"));
    if (Result<void> built = cases.emulator().build(); !built) FAIL(to_string(built.error().first()));
    std::mt19937 random(7);
    const Type all{t, {largest, k}};
    const Tensor lhs = random_tensor(all, {}, random), rhs = random_tensor({t, {n, k}}, {}, random);
    const Tensor bias = random_tensor({t, {n}}, {}, random);
    const size_t row_bytes = lhs.bytes.size() / largest;
    std::vector<std::byte> expected;  // of the rows, as the last ones of a batch
    for (int64_t rows : {1, 2, 15, 16, 17, 64, 65, 150}) {
      Tensor part(t, {rows, k});
      std::copy(lhs.bytes.end() - static_cast<long>(row_bytes * static_cast<size_t>(rows)), lhs.bytes.end(),
                part.bytes.begin());
      for (size_t kernel = rows <= 16 ? 0 : 1; kernel < 3; ++kernel) {
        const Result<std::vector<Tensor>> got =
            cases.emulator().run(kernel, {part, rhs, bias}, {{"few", rows}, {"m", rows}, {"many", rows}});
        REQUIRE(got.ok());
        const std::vector<std::byte>& bytes = (*got)[0].bytes;
        const size_t last = bytes.size() / static_cast<size_t>(rows);
        const std::vector<std::byte> row(bytes.end() - static_cast<long>(last), bytes.end());
        if (expected.empty()) expected = row;
        CHECK(row == expected);
      }
    }
  }
}

}  // namespace
}  // namespace rtx::testing
