// Every operation and dtype: the generated text, run on the CPU, against the evaluator.

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <random>

#include "base/text.h"
#include "codegen/emit/c_types.h"
#include "codegen/plan_kernel.h"
#include "ir/text.h"
#include "tests/kernels/emulator.h"

namespace rtx::testing {
namespace {

const SymbolRanges symbols = {{"n", {0, 1000, 0}}, {"wide", {0, int64_t{1} << 31, 0}}};

// How operands are filled.
enum class Fill { mixed, positive, unit, indices };

struct Case {
  std::string kind, name;
  std::unique_ptr<Block> body;
  SymbolValues values;
  Fill fill = Fill::mixed;
  double tolerance = 1e-6;  // relative, for f32 and f64; f16 and bf16 allow one unit of theirs
  size_t kernel = 0;
  std::vector<int64_t> index_bounds;  // operand i holds indices below this where it is not 0
  std::unique_ptr<Block> definition;  // what the body must compute; null: the body itself
};

double unit_of(DType dtype) {
  switch (dtype) {
    case DType::f16:
      return 0x1p-10;
    case DType::bf16:
      return 0x1p-7;
    case DType::f8e4m3:
      return 0x1p-3;
    case DType::f8e5m2:
      return 0x1p-2;
    default:
      return 0;
  }
}

class Cases {
 public:
  std::vector<Case> list;

  // One operation on arguments of these types.
  Case& add(std::string_view kind, Op op, std::vector<Type> types, AttributeList attributes = {},
            SymbolValues values = {}) {
    auto body = std::make_unique<Block>();
    std::vector<Value*> arguments;
    for (Type& type : types) arguments.push_back(body->add_argument(type));
    Builder builder(*body);
    Result<Operation*> made = builder.create(op, arguments, attributes);
    std::string what(to_string(op));
    for (const Type& type : types) what += concat(" ", type.str());
    if (!made) FAIL(what, ": ", to_string(made.error().first()));
    std::vector<Value*> results;
    for (size_t i = 0; i < (*made)->result_count(); ++i) results.push_back((*made)->result(i));
    body->insert(nullptr, Op::yield, std::move(results), {}, {});
    list.push_back({std::string(kind), what, std::move(body), std::move(values)});
    return list.back();
  }

  // The same, with the operation expanded as form_fusions does.
  Case& add_expanded(Op op, std::vector<Type> types, AttributeList attributes, SymbolValues values = {}) {
    Cases whole;
    std::unique_ptr<Block> definition = std::move(whole.add("pointwise", op, types, attributes).body);
    Case& c = add("pointwise", op, std::move(types), std::move(attributes), std::move(values));
    c.definition = std::move(definition);
    Operation* yield = c.body->terminator();
    Operation* operation = yield->operand(0)->def();
    Builder builder(*c.body, operation);
    Result<Value*> expanded = operation->spec().expand(*operation, builder);
    if (!expanded) FAIL(c.name, ": ", to_string(expanded.error().first()));
    yield->set_operand(0, *expanded);
    c.body->erase(operation);
    return c;
  }

  Case& add_text(std::string_view kind, std::string_view text, SymbolValues values = {}) {
    Result<std::unique_ptr<Block>> body = parse_body(text, "body");
    if (!body) FAIL(to_string(body.error().first()));
    list.push_back({std::string(kind), std::string(text), std::move(body).value(), std::move(values)});
    return list.back();
  }
};

Tensor random_tensor(const Type& type, const Case& c, size_t operand, std::mt19937& random) {
  std::vector<int64_t> shape;
  for (const Dim& dim : type.shape) shape.push_back(*dim.evaluate(c.values));
  Tensor tensor(type.dtype, shape);
  std::uniform_real_distribution<double> real(-3, 3);
  std::uniform_int_distribution<int64_t> any;
  const double special[] = {0.0, -0.0, INFINITY, -INFINITY, NAN, 1.0, -1.0, 0.5, 2.5, 1e30, -7.0, 3.0};
  for (int64_t i = 0; i < tensor.element_count(); ++i) {
    if (operand < c.index_bounds.size() && c.index_bounds[operand]) {
      const int64_t bound = c.index_bounds[operand];
      tensor.set_i64(i, any(random) % (3 * bound) - bound);  // some outside: they are clamped
    } else if (is_float(type.dtype)) {
      double value = real(random);
      if (c.fill == Fill::mixed && any(random) % 4 == 0) value = special[any(random) % 12];
      if (c.fill == Fill::positive) value = std::fabs(value) + 0.1;
      if (c.fill == Fill::unit) value /= 3;
      tensor.set_f64(i, value);
    } else if (type.dtype == DType::boolean) {
      tensor.set_i64(i, any(random) % 2);
    } else {
      const int64_t pick = any(random) % 4;
      tensor.set_i64(i, pick == 0 ? any(random) : pick == 1 ? -(any(random) % 7) : any(random) % 7);
    }
  }
  return tensor;
}

// The first difference, or nothing.
std::string difference(const Case& c, const Tensor& got, const Tensor& want) {
  if (got.dtype != want.dtype || got.shape != want.shape) return concat(got.type_str(), ", not ", want.type_str());
  const double unit = unit_of(want.dtype), relative = std::max(c.tolerance, unit * 1.001);
  for (int64_t i = 0; i < want.element_count(); ++i) {
    if (!is_float(want.dtype)) {
      if (got.i64(i) != want.i64(i)) return concat("element ", i, " is ", got.i64(i), ", not ", want.i64(i));
      continue;
    }
    const double a = got.f64(i), b = want.f64(i);
    const bool same = (std::isnan(a) && std::isnan(b)) || a == b;
    if (!same && !(std::fabs(a - b) <= relative * std::fabs(b) + c.tolerance)) {
      return concat("element ", i, " is ", a, ", not ", b);
    }
  }
  return {};
}

const DType floats[] = {DType::f64, DType::f32, DType::f16, DType::bf16};
const DType numbers[] = {DType::f64, DType::f32, DType::f16, DType::bf16, DType::i64,
                         DType::i32, DType::i16, DType::i8,  DType::u8};
const DType stored[] = {DType::f64, DType::f32, DType::f16, DType::bf16, DType::f8e4m3, DType::f8e5m2,
                        DType::i64, DType::i32, DType::i16, DType::i8,   DType::u8,     DType::boolean};

void add_elementwise(Cases& cases) {
  for (DType t : floats) {
    for (Op op : {Op::exp, Op::tanh, Op::erf, Op::sigmoid, Op::sin, Op::cos, Op::floor, Op::ceil, Op::round, Op::is_nan,
                  Op::is_inf, Op::silu, Op::reciprocal}) {
      cases.add("pointwise", op, {{t, {5, 8}}}).tolerance = 2e-6;
    }
    for (Op op : {Op::tan, Op::asin, Op::acos, Op::atan, Op::sinh, Op::cosh, Op::asinh, Op::acosh, Op::atanh}) {
      cases.add("pointwise", op, {{t, {5, 8}}}).tolerance = 2e-6;
    }
    for (Op op : {Op::log, Op::sqrt, Op::rsqrt}) cases.add("pointwise", op, {{t, {5, 7}}}).fill = Fill::positive;
    for (const char* form : {"none", "tanh"}) {
      Case& c = cases.add("pointwise", Op::gelu, {{t, {3, 4}}}, {{"approximate", std::string(form)}});
      c.fill = Fill::unit;
      c.tolerance = 2e-6;
    }
    cases.add("pointwise", Op::mod, {{t, {40}}, {t, {40}}}, {{"truncated", true}}).fill = Fill::unit;
    cases.add("pointwise", Op::mod, {{t, {40}}, {t, {40}}}, {{"truncated", false}}).fill = Fill::unit;
    cases.add("pointwise", Op::pow, {{t, {40}}, {t, {40}}}).fill = Fill::positive;
    cases.add("pointwise", Op::pow, {{t, {40}}, {DType::i64, {}}}).fill = Fill::unit;
  }
  for (DType t : numbers) {
    for (Op op : {Op::neg, Op::abs, Op::sign, Op::relu}) cases.add("pointwise", op, {{t, {70}}});
    for (Op op : {Op::add, Op::sub, Op::mul, Op::div, Op::minimum, Op::maximum, Op::equal, Op::less, Op::less_equal}) {
      cases.add("pointwise", op, {{t, {6, 8}}, {t, {8}}});
    }
    cases.add("pointwise", Op::select, {{DType::boolean, {6, 1}}, {t, {6, 8}}, {t, {}}});
    if (!is_float(t)) {
      cases.add("pointwise", Op::bitwise_not, {{t, {3, 5}}});
      for (Op op : {Op::bitwise_and, Op::bitwise_or, Op::bitwise_xor, Op::shift_left, Op::shift_right}) {
        cases.add("pointwise", op, {{t, {6, 8}}, {t, {8}}});
      }
      cases.add("pointwise", Op::mod, {{t, {40}}, {t, {40}}}, {{"truncated", true}});
      cases.add("pointwise", Op::mod, {{t, {40}}, {t, {40}}}, {{"truncated", false}});
      cases.add("pointwise", Op::pow, {{t, {40}}, {t, {40}}});
    }
  }
  for (Op op : {Op::logical_and, Op::logical_or, Op::logical_xor, Op::equal}) {
    cases.add("pointwise", op, {{DType::boolean, {3, 5}}, {DType::boolean, {3, 5}}});
  }
  cases.add("pointwise", Op::logical_not, {{DType::boolean, {3, 5}}});
  for (DType from : stored) {
    for (DType to : stored) cases.add("pointwise", Op::cast, {{from, {60}}}, {{"to", to}});
  }
  for (DType t : {DType::u4, DType::i4}) {
    cases.add("pointwise", Op::cast, {{DType::f32, {61}}}, {{"to", t}});
    cases.add("pointwise", Op::cast, {{DType::i32, {3, 4}}}, {{"to", t}});
    cases.add("pointwise", Op::transpose, {{t, {3, 5}}}, {{"perm", std::vector<int64_t>{1, 0}}});
  }
  for (DType from : {DType::u4, DType::i4}) cases.add("pointwise", Op::cast, {{from, {61}}}, {{"to", DType::f32}});
}

void add_quantization(Cases& cases) {
  const Dim n = Dim::symbol("n");
  const SymbolValues three = {{"n", 3}};
  for (DType to : {DType::i16, DType::i8, DType::u8, DType::i4, DType::u4, DType::f8e4m3, DType::f8e5m2}) {
    auto attributes = [&](int64_t axis, int64_t block) {
      return AttributeList{{"to", to}, {"axis", axis}, {"block", block}};
    };
    for (DType from : {DType::f32, DType::f16}) {
      cases.add_expanded(Op::quantize, {{from, {n, 6}}, {from, {}}}, attributes(0, 0), three);
      cases.add_expanded(Op::quantize, {{from, {n, 6}}, {from, {6}}}, attributes(1, 0), three);
      cases.add_expanded(Op::quantize, {{from, {4, 6}}, {from, {4, 2}}}, attributes(1, 3), three);
      cases.add_expanded(Op::quantize, {{from, {n, 7}}, {from, {n, 3}}}, attributes(1, 3), three);
    }
  }
  for (DType from : {DType::i32, DType::i16, DType::i8, DType::u8, DType::i4, DType::u4}) {
    for (DType to : {DType::f32, DType::f16, DType::bf16}) {
      auto attributes = [&](int64_t axis, int64_t block) {
        return AttributeList{{"to", to}, {"axis", axis}, {"block", block}};
      };
      cases.add_expanded(Op::dequantize, {{from, {n, 7}}, {DType::f32, {}}}, attributes(0, 0), three);
      cases.add_expanded(Op::dequantize, {{from, {n, 7}}, {to, {7}}, {from, {7}}}, attributes(1, 0), three);
      cases.add_expanded(Op::dequantize, {{from, {6, 4}}, {to, {2, 4}}, {from, {2, 4}}}, attributes(0, 3));
      cases.add_expanded(Op::dequantize, {{from, {7, 4}}, {to, {3, 4}}, {to, {3, 4}}}, attributes(0, 3));
    }
  }
  for (int64_t bits : {2, 4}) cases.add("pointwise", Op::unpack_bits, {{DType::u8, {n, 5}}}, {{"bits", bits}}, three);
}

void add_broadcasts(Cases& cases) {
  const Dim n = Dim::symbol("n");
  const SymbolValues three = {{"n", 3}};
  auto f32 = [](Shape shape) { return Type{DType::f32, std::move(shape)}; };
  cases.add("pointwise", Op::add, {f32({n, 4, 5}), f32({5})}, {}, three);
  cases.add("pointwise", Op::add, {f32({n, 4, 5}), f32({n, 1, 5})}, {}, three);
  cases.add("pointwise", Op::add, {f32({n, 4, 5}), f32({n, 1, 1})}, {}, three);
  cases.add("pointwise", Op::add, {f32({n, 1, 5}), f32({4, 1})}, {}, three);
  cases.add("pointwise", Op::add, {f32({n, 4, 8}), f32({4, 8})}, {}, three);
  cases.add("pointwise", Op::add, {f32({n, 4, 8}), f32({n, 4, 1})}, {}, three);
  cases.add("pointwise", Op::add, {f32({}), f32({})});
  cases.add("pointwise", Op::add, {f32({n, 7}), f32({n, 7})}, {}, {{"n", 0}});
  cases.add("pointwise", Op::add, {f32({n, n}), f32({1, n})}, {}, {{"n", 1}});
  cases.add("pointwise", Op::mul, {f32({Dim::symbol("wide"), 4, 8}), f32({4, 1})}, {}, {{"wide", 5}});
}

void add_movement(Cases& cases) {
  const Dim n = Dim::symbol("n");
  const SymbolValues three = {{"n", 3}};
  for (DType t : stored) {
    cases.add("pointwise", Op::transpose, {{t, {n, 4, 5}}}, {{"perm", std::vector<int64_t>{2, 0, 1}}}, three);
    cases.add("pointwise", Op::broadcast, {{t, {n, 1, 5}}}, {{"shape", Shape{2, n, 4, 5}}}, three);
    cases.add("pointwise", Op::slice, {{t, {n, 9}}},
              {{"starts", Shape{n - 1, 8}}, {"sizes", Shape{n, 3}}, {"steps", std::vector<int64_t>{-1, -2}}}, three);
    cases.add("pointwise", Op::concat, {{t, {n, 2}}, {t, {n, 1}}, {t, {n, n}}}, {{"axis", int64_t{1}}}, three);
    cases.add("pointwise", Op::pad, {{t, {n, 4}}, {t, {}}}, {{"low", Shape{1, -1}}, {"high", Shape{n, 2}}}, three);
    cases.add("pointwise", Op::reshape, {{t, {n, 4}}}, {{"shape", Shape{2, n, 2}}}, three);
  }
  cases.add("pointwise", Op::concat, {{DType::f32, {0, 2}}, {DType::f32, {n, 2}}}, {{"axis", int64_t{0}}}, three);
  for (DType t : numbers) {
    cases.add("pointwise", Op::iota, {}, {{"shape", Shape{n, 5}}, {"axis", int64_t{1}}, {"dtype", t}}, three);
  }
  cases.add("pointwise", Op::dim_values, {}, {{"values", Shape{n, n * n + 1, 7}}}, three);
  cases.add("pointwise", Op::dim_values, {}, {{"values", Shape{n * 3}}}, three);
}

void add_indexing(Cases& cases) {
  const Dim n = Dim::symbol("n");
  const SymbolValues three = {{"n", 3}};
  for (DType t : stored) {
    for (DType index : {DType::i64, DType::i32}) {
      cases.add("pointwise", Op::gather, {{t, {2, n, 5}}, {index, {4, 2}}}, {{"axis", int64_t{1}}}, three)
          .index_bounds = {0, 3};
    }
    cases.add("pointwise", Op::gather_elements, {{t, {4, n}}, {DType::i64, {4, 2}}}, {{"axis", int64_t{1}}}, three)
        .index_bounds = {0, 3};
    // Indices longer than the data on the other axis.
    cases.add("pointwise", Op::gather_elements, {{t, {n, 4}}, {DType::i64, {2, n * 2}}}, {{"axis", int64_t{0}}}, three)
        .index_bounds = {0, 3};
    cases
        .add("pointwise", Op::gather_nd, {{t, {2, n, 4, 5}}, {DType::i64, {2, 3, 2}}}, {{"batch_dims", int64_t{1}}},
             three)
        .index_bounds = {0, 4};
  }
  cases.add("pointwise", Op::gather, {{DType::f32, {7, 5}}, {DType::i64, {}}}, {{"axis", int64_t{0}}}).index_bounds = {
      0, 7};
  // Nothing to gather from: zeros, and no read.
  cases.add("pointwise", Op::gather, {{DType::f32, {n, 5}}, {DType::i64, {2}}}, {{"axis", int64_t{0}}}, {{"n", 0}})
      .index_bounds = {0, 1};
}

void add_scatters(Cases& cases) {
  const Dim n = Dim::symbol("n");
  const SymbolValues three = {{"n", 3}};
  for (DType t : stored) {
    for (const char* reduction : {"none", "add", "mul", "min", "max"}) {
      if (!number_dtype(t) && std::string_view(reduction) != "none") continue;
      // f32 sums of what may cancel.
      auto set = [&](Case& c, int64_t bound) {
        c.index_bounds = {0, bound};
        c.fill = Fill::unit;
        c.tolerance = 1e-5;
      };
      const AttributeList how = {{"reduction", std::string(reduction)}};
      for (int64_t axis : {0, 1, 2}) {
        AttributeList with_axis = how;
        with_axis.set("axis", axis);
        const DType index = axis == 0 ? DType::i32 : DType::i64;
        set(cases.add("scatter", Op::scatter_elements, {{t, {n, 4, 5}}, {index, {n, 3, 5}}, {t, {n, 3, 5}}}, with_axis,
                      three),
            3);
      }
      set(cases.add("scatter", Op::scatter_nd, {{t, {n, 4, 5}}, {DType::i64, {2, 7, 2}}, {t, {2, 7, 5}}}, how, three),
          3);
      set(cases.add("scatter", Op::scatter_nd, {{t, {n, 4}}, {DType::i32, {n, 1}}, {t, {n, 4}}}, how, three), 3);
      set(cases.add("scatter", Op::scatter_nd, {{t, {n, 2}}, {DType::i64, {9, 2}}, {t, {9}}}, how, three), 3);
    }
  }
  const Type data{DType::f32, {n, 2}}, indices{DType::i64, {n, 2}};
  cases.add("scatter", Op::scatter_elements, {data, indices, data}, {{"axis", int64_t{0}}}, {{"n", 0}});
}

void add_topk(Cases& cases) {
  const Dim n = Dim::symbol("n");
  for (DType t : numbers) {
    for (bool largest : {false, true}) {
      auto with = [&](int64_t axis, Dim k) {
        return AttributeList{{"axis", axis}, {"k", std::move(k)}, {"largest", largest}};
      };
      cases.add("sort", Op::topk, {{t, {n, 9}}}, with(1, 4), {{"n", 4}});
      cases.add("sort", Op::topk, {{t, {2, n, 3}}}, with(1, n), {{"n", 300}});
      cases.add("sort", Op::topk, {{t, {2, n, 3}}}, with(1, 5), {{"n", 3}});  // two places are left over
      cases.add("sort", Op::topk, {{t, {40}}}, with(0, 0));
      cases.add("sort", Op::topk, {{t, {n, 5}}}, with(1, 2), {{"n", 0}});
    }
  }
}

void add_reductions(Cases& cases) {
  const Dim n = Dim::symbol("n");
  for (DType t : numbers) {
    const double tolerance = t == DType::f32 ? 2e-6 : 1e-6;
    for (Op op : {Op::reduce_sum, Op::reduce_mean, Op::reduce_max, Op::reduce_min, Op::reduce_prod}) {
      const Fill fill = op == Op::reduce_max || op == Op::reduce_min ? Fill::mixed : Fill::unit;
      auto attributes = [](std::vector<int64_t> axes, bool keepdims) {
        return AttributeList{{"axes", std::move(axes)}, {"keepdims", keepdims}};
      };
      auto set = [&](Case& c) {
        c.fill = fill;
        c.tolerance = tolerance;
      };
      set(cases.add("row", op, {{t, {n, 2, 37}}}, attributes({2}, true), {{"n", 3}}));
      set(cases.add("row", op, {{t, {2, 5, n}}}, attributes({1, 2}, false), {{"n", 300}}));
      set(cases.add("row", op, {{t, {2, n}}}, attributes({1}, false), {{"n", 0}}));
      set(cases.add("reduce", op, {{t, {n, 5, 3}}}, attributes({0, 2}, true), {{"n", 4}}));
      set(cases.add("reduce", op, {{t, {n, 5, 3}}}, attributes({0}, false), {{"n", 4}}));
      set(cases.add("reduce", op, {{t, {n, 5}}}, attributes({}, false), {{"n", 4}}));
    }
    for (bool last : {false, true}) {
      cases.add("reduce", Op::argmax, {{t, {n, 9}}}, {{"axis", int64_t{1}}, {"keepdims", false}, {"select_last", last}},
                {{"n", 4}});
      cases.add("reduce", Op::argmax, {{t, {n, 9}}}, {{"axis", int64_t{0}}, {"keepdims", true}, {"select_last", last}},
                {{"n", 4}});
      cases
          .add("scan", Op::cumsum, {{t, {2, n, 3}}}, {{"axis", int64_t{1}}, {"exclusive", last}, {"reverse", false}},
               {{"n", 9}})
          .fill = Fill::unit;
      cases
          .add("scan", Op::cumsum, {{t, {2, n, 3}}}, {{"axis", int64_t{2}}, {"exclusive", last}, {"reverse", true}},
               {{"n", 9}})
          .fill = Fill::unit;
    }
  }
}

void add_rows(Cases& cases) {
  const Dim n = Dim::symbol("n"), wide = Dim::symbol("wide");
  for (DType t : floats) {
    auto set = [&](Case& c) {
      c.fill = Fill::unit;
      c.tolerance = 3e-6;
    };
    for (Op op : {Op::softmax, Op::log_softmax}) {
      set(cases.add("row", op, {{t, {3, n}}}, {{"axis", int64_t{1}}}, {{"n", 45}}));
      set(cases.add("row", op, {{t, {3, n, 4}}}, {{"axis", int64_t{1}}}, {{"n", 45}}));
      set(cases.add("row", op, {{t, {2, wide}}}, {{"axis", int64_t{1}}}, {{"wide", 700}}));
      set(cases.add("row", op, {{t, {2, 2000}}}, {{"axis", int64_t{1}}}));
      set(cases.add("row", op, {{t, {2, 64}}}, {{"axis", int64_t{1}}}));
      cases.add("row", op, {{t, {4, 12}}}, {{"axis", int64_t{1}}}).tolerance = 3e-6;  // with infinities and NaN
    }
    for (const Shape& shape : {Shape{n, 7, 48}, Shape{n, 2, 1500}, Shape{2, 3, wide}}) {
      const SymbolValues values = {{"n", 3}, {"wide", 40}};
      const Type x{t, shape}, p{t, {shape[2]}};
      set(cases.add("row", Op::layer_norm, {x, p, p}, {{"axis", int64_t{2}}, {"epsilon", 1e-5}}, values));
      set(cases.add("row", Op::layer_norm, {x, p}, {{"axis", int64_t{2}}, {"epsilon", 1e-5}}, values));
      set(cases.add("row", Op::rms_norm, {x, p}, {{"axis", int64_t{2}}, {"epsilon", 1e-6}}, values));
      set(cases.add("row", Op::layer_norm, {x, {t, {shape[1], shape[2]}}, p}, {{"axis", int64_t{1}}, {"epsilon", 1e-5}},
                    values));
    }
    set(cases.add("row", Op::rms_norm, {{t, {3, 4, 8}}, {t, {3, 1, 8}}}, {{"axis", int64_t{2}}, {"epsilon", 1e-6}}));
  }
}

void add_contractions(Cases& cases) {
  const Dim n = Dim::symbol("n");
  for (DType t : {DType::i64, DType::i32, DType::i16, DType::i8, DType::u8}) {
    for (bool lhs : {false, true}) {
      for (bool rhs : {false, true}) {
        cases.add("contract", Op::matmul,
                  {{t, {2, 1, lhs ? Dim(4) : n, lhs ? n : Dim(4)}}, {t, {3, rhs ? 5 : 4, rhs ? 4 : 5}}},
                  {{"transpose_lhs", lhs}, {"transpose_rhs", rhs}}, {{"n", 3}});
      }
    }
  }
  for (DType t : floats) {
    auto conv = [&](std::vector<Type> types, std::vector<int64_t> strides, std::vector<int64_t> dilations,
                    std::vector<int64_t> pads, int64_t groups) {
      Case& c =
          cases.add("conv", Op::conv, std::move(types),
                    {{"strides", strides}, {"dilations", dilations}, {"pads", pads}, {"groups", groups}}, {{"n", 11}});
      c.fill = Fill::unit;
      c.tolerance = 2e-6;
    };
    conv({{t, {2, 4, n}}, {t, {6, 4, 3}}, {t, {6}}}, {1}, {1}, {1, 1}, 1);
    conv({{t, {2, 4, n}}, {t, {6, 2, 3}}}, {2}, {2}, {2, 0}, 2);
    conv({{t, {1, 3, n, 8}}, {t, {4, 3, 2, 2}}, {t, {4}}}, {2, 2}, {1, 1}, {0, 0, 0, 0}, 1);
    conv({{t, {1, 4, 5, 6, 7}}, {t, {4, 1, 2, 3, 2}}}, {1, 2, 1}, {1, 1, 2}, {0, 1, 1, 1, 0, 0}, 4);
  }
}

void add_ropes(Cases& cases) {
  const Dim n = Dim::symbol("n");
  const SymbolValues three = {{"n", 3}};
  for (DType t : floats) {
    for (bool interleaved : {false, true}) {
      const AttributeList how = {{"interleaved", interleaved}};
      cases.add("pointwise", Op::rope, {{t, {n, 2, 5, 8}}, {t, {n, 1, 5, 4}}, {t, {n, 1, 5, 4}}}, how, three);
      cases.add("pointwise", Op::rope, {{t, {n, 2, 11}}, {t, {2, 3}}, {t, {2, 3}}}, how, three);
      cases.add("pointwise", Op::rope, {{t, {n, 2}}, {t, {1}}, {t, {1}}}, how, three);
      cases.add("pointwise", Op::rope, {{t, {n, 5}}, {t, {0}}, {t, {0}}}, how, three);
    }
  }
}

// Bodies of several operations: what fusion will make.
void add_graphs(Cases& cases) {
  cases
      .add_text("pointwise", R"((%0: tensor<[n, 8], f16>, %1: tensor<[n, 2], f16>, %2: tensor<[n, 2], f16>) {
  %3 = add(%0, %0) : tensor<[n, 8], f16>
  %4 = reshape(%3) {shape = [n, 2, 4]} : tensor<[n, 2, 4], f16>
  %5 = transpose(%4) {perm = [1, 0, 2]} : tensor<[2, n, 4], f16>
  %6 = rope(%5, %1, %2) {interleaved = false} : tensor<[2, n, 4], f16>
  %7 = add(%6, %6) : tensor<[2, n, 4], f16>
  yield(%7)
}
)",
                {{"n", 5}})
      .fill = Fill::unit;
  cases
      .add_text("pointwise", R"((%0: tensor<[n, 8], f32>, %1: tensor<[8], f32>, %2: tensor<[n, 8], f32>) {
  %3 = add(%0, %1) : tensor<[n, 8], f32>
  %4 = tanh(%3) : tensor<[n, 8], f32>
  %5 = mul(%4, %2) : tensor<[n, 8], f32>
  yield(%5, %4)
}
)",
                {{"n", 5}})
      .tolerance = 2e-6;
  cases
      .add_text("pointwise", R"((%0: tensor<[n, 2, 4], f16>, %1: tensor<[n, 8], f16>, %2: tensor<[n], i64>) {
  %3 = reshape(%0) {shape = [n, 8]} : tensor<[n, 8], f16>
  %4 = concat(%3, %1) {axis = 0} : tensor<[2*n, 8], f16>
  %5 = gather(%4, %2) {axis = 0} : tensor<[n, 8], f16>
  %6 = transpose(%5) {perm = [1, 0]} : tensor<[8, n], f16>
  %7 = constant() {value = dense<[], f16, [0.5]>} : tensor<[], f16>
  %8 = mul(%6, %7) : tensor<[8, n], f16>
  yield(%8)
}
)",
                {{"n", 5}})
      .index_bounds = {0, 0, 10};
  cases
      .add_text("pointwise", R"((%0: tensor<[n, 4], f32>) {
  %1 = iota() {shape = [n, n], axis = 1, dtype = i64} : tensor<[n, n], i64>
  %2 = iota() {shape = [n, n], axis = 0, dtype = i64} : tensor<[n, n], i64>
  %3 = less_equal(%1, %2) : tensor<[n, n], bool>
  %4 = constant() {value = dense<[], f32, [0]>} : tensor<[], f32>
  %5 = constant() {value = dense<[], f32, [-3.4028235e+38]>} : tensor<[], f32>
  %6 = select(%3, %4, %5) : tensor<[n, n], f32>
  %7 = slice(%0) {starts = [0, 1], sizes = [n, 1], steps = [1, 1]} : tensor<[n, 1], f32>
  %8 = add(%6, %7) : tensor<[n, n], f32>
  yield(%8)
}
)",
                {{"n", 6}})
      .fill = Fill::unit;
  cases
      .add_text("row", R"((%0: tensor<[n, 40], f32>, %1: tensor<[n, 40], f32>, %2: tensor<[40], f32>) {
  %3 = add(%0, %1) : tensor<[n, 40], f32>
  %4 = rms_norm(%3, %2) {axis = 1, epsilon = 1e-05} : tensor<[n, 40], f32>
  %5 = silu(%4) : tensor<[n, 40], f32>
  yield(%5)
}
)",
                {{"n", 5}})
      .fill = Fill::unit;
  cases.add_text("pointwise", R"((%0: tensor<[n, 3], i64>) {
  yield(%0)
}
)",
                 {{"n", 5}});
}

// Bodies of rows: work after the row operation, several results, several row operations side by side.
void add_row_graphs(Cases& cases) {
  for (const char* length : {"40", "2100"}) {  // rows of warps, kept in registers, and of blocks
    auto add = [&](std::string text, SymbolValues values) {
      for (size_t at; (at = text.find("LENGTH")) != std::string::npos;) text.replace(at, 6, length);
      for (size_t at; (at = text.find("HALF")) != std::string::npos;)
        text.replace(at, 4, std::to_string(std::stoi(length) / 2));
      Case& c = cases.add_text("row", text, std::move(values));
      c.fill = Fill::unit;
      c.tolerance = 1e-5;
    };
    for (const char* interleaved : {"false", "true"}) {
      std::string text = R"((%0: tensor<[n, 2, LENGTH], f16>, %1: tensor<[LENGTH], f32>, %2: tensor<[n, 1, HALF], f32>,
 %3: tensor<[n, 1, HALF], f32>) {
  %4 = transpose(%0) {perm = [1, 0, 2]} : tensor<[2, n, LENGTH], f16>
  %5 = cast(%4) {to = f32, saturate = true} : tensor<[2, n, LENGTH], f32>
  %6 = rms_norm(%5, %1) {axis = 2, epsilon = 1e-05} : tensor<[2, n, LENGTH], f32>
  %7 = reshape(%2) {shape = [1, n, HALF]} : tensor<[1, n, HALF], f32>
  %8 = reshape(%3) {shape = [1, n, HALF]} : tensor<[1, n, HALF], f32>
  %9 = rope(%6, %7, %8) {interleaved = WHICH} : tensor<[2, n, LENGTH], f32>
  %10 = neg(%9) : tensor<[2, n, LENGTH], f32>
  yield(%10)
}
)";
      text.replace(text.find("WHICH"), 5, interleaved);
      add(std::move(text), {{"n", 3}});
    }
    add(R"((%0: tensor<[n, LENGTH], f16>, %1: tensor<[n, LENGTH], f16>, %2: tensor<[LENGTH], f32>) {
  %3 = add(%0, %1) : tensor<[n, LENGTH], f16>
  %4 = cast(%3) {to = f32, saturate = true} : tensor<[n, LENGTH], f32>
  %5 = layer_norm(%4, %2, %2) {axis = 1, epsilon = 1e-05} : tensor<[n, LENGTH], f32>
  %6 = cast(%5) {to = f16, saturate = true} : tensor<[n, LENGTH], f16>
  yield(%6, %3)
}
)",
        {{"n", 5}});
    add(R"((%0: tensor<[n, LENGTH], f32>, %1: tensor<[5, LENGTH], f32>, %2: tensor<[LENGTH], f32>) {
  %3 = rms_norm(%0, %2) {axis = 1, epsilon = 1e-05} : tensor<[n, LENGTH], f32>
  %4 = softmax(%1) {axis = 1} : tensor<[5, LENGTH], f32>
  %5 = reduce_max(%0) {axes = [1]} : tensor<[n], f32>
  %6 = neg(%5) : tensor<[n], f32>
  yield(%3, %4, %6)
}
)",
        {{"n", 6}});
  }
  cases
      .add_text("pointwise", R"((%0: tensor<[n, 24], f32>, %1: tensor<[3, n], f32>) {
  %2 = slice(%0) {starts = [0, 4], sizes = [n, 16], steps = [1, 1]} : tensor<[n, 16], f32>
  %3 = transpose(%2) {perm = [1, 0]} : tensor<[16, n], f32>
  %4 = exp(%0) : tensor<[n, 24], f32>
  %5 = neg(%1) : tensor<[3, n], f32>
  yield(%3, %4, %5, %2)
}
)",
                {{"n", 50}})
      .fill = Fill::unit;
}

TEST_CASE("generated kernels compute what the evaluator says, for every operation and dtype") {
  if (!Emulator::available()) {
    MESSAGE("skipped: no C++ compiler to run generated text with");
    return;
  }
  Cases cases;
  add_elementwise(cases);
  add_quantization(cases);
  add_broadcasts(cases);
  add_movement(cases);
  add_indexing(cases);
  add_scatters(cases);
  add_topk(cases);
  add_reductions(cases);
  add_rows(cases);
  add_contractions(cases);
  add_ropes(cases);
  add_graphs(cases);
  add_row_graphs(cases);
  Emulator emulator;
  for (Case& c : cases.list) {
    Result<codegen::KernelPlan> plan = codegen::plan_kernel(c.kind, *c.body, {symbols});
    if (!plan) FAIL(c.name, ": ", to_string(plan.error().first()));
    c.kernel = emulator.add(*plan, *c.body);
  }
  if (Result<void> built = emulator.build(); !built) FAIL(to_string(built.error().first()));
  std::mt19937 random(20240607);
  for (const Case& c : cases.list) {
    std::vector<Tensor> operands;
    for (size_t i = 0; i < c.body->argument_count(); ++i) {
      operands.push_back(random_tensor(c.body->argument(i)->type, c, i, random));
    }
    Result<std::vector<Tensor>> want = evaluate(c.definition ? *c.definition : *c.body, operands, c.values, nullptr);
    if (!want) FAIL(c.name, ": ", to_string(want.error().first()));
    Result<std::vector<Tensor>> got = emulator.run(c.kernel, operands, c.values);
    if (!got) FAIL(c.name, ": ", to_string(got.error().first()));
    for (size_t i = 0; i < want->size(); ++i) {
      const std::string wrong = difference(c, (*got)[i], (*want)[i]);
      if (!wrong.empty()) FAIL_CHECK(c.name, ": ", wrong);
    }
  }
  MESSAGE(cases.list.size(), " kernels");
}

TEST_CASE("the emulator notices a kernel that computes something else, and one that writes outside") {
  if (!Emulator::available()) return;
  Cases cases;
  const Case& c = cases.add("pointwise", Op::add, {{DType::f32, {5, 7}}, {DType::f32, {5, 7}}});
  Result<codegen::KernelPlan> plan = codegen::plan_kernel("pointwise", *c.body, {symbols});
  REQUIRE(plan.ok());
  auto replaced = [&](std::string_view from, std::string_view to) {
    codegen::KernelPlan changed = *plan;
    const size_t at = changed.launch->text.rfind(from);
    REQUIRE(at != std::string::npos);
    changed.launch->text.replace(at, from.size(), to);
    return changed;
  };
  Emulator emulator;
  const size_t subtracts = emulator.add(replaced("v0 + v1", "v0 - v1"), *c.body);
  const size_t outside = emulator.add(replaced("r0[i0]", "r0[i0 + 1]"), *c.body);
  REQUIRE(emulator.build().ok());
  std::mt19937 random(1);
  const std::vector<Tensor> operands = {random_tensor(c.body->argument(0)->type, c, 0, random),
                                        random_tensor(c.body->argument(1)->type, c, 1, random)};
  Result<std::vector<Tensor>> want = evaluate(*c.body, operands, {}, nullptr),
                              got = emulator.run(subtracts, operands, {});
  REQUIRE(got.ok());
  CHECK(!difference(c, (*got)[0], (*want)[0]).empty());
  CHECK(!emulator.run(outside, operands, {}).ok());
}

TEST_CASE("a planner refuses what its kind cannot do") {
  Result<std::unique_ptr<Block>> body = parse_body(
      "(%0: tensor<[4], f32>) {\n  %1 = softmax(%0) {axis = 0} : tensor<[4], f32>\n  yield(%1)\n}\n", "body");
  REQUIRE(body.ok());
  for (const char* kind : {"pointwise", "reduce", "contract", "conv", "scan", "scatter", "sort"}) {
    Result<codegen::KernelPlan> plan = codegen::plan_kernel(kind, **body, {symbols});
    REQUIRE(!plan.ok());
    CHECK(plan.error().first().id == "E441");
  }
  CHECK(codegen::plan_kernel("row", **body, {symbols}).ok());
}

}  // namespace
}  // namespace rtx::testing
