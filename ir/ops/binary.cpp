// Elementwise operations of several operands, which broadcast as in numpy.

#include <cmath>

#include "ir/ops/loops.h"
#include "ir/ops/records.h"
#include "ir/ops/rules.h"

namespace rtx {
namespace {

using Evaluate = Result<std::vector<Tensor>> (*)(const EvaluateContext&);
using Infer = Result<std::vector<Type>> (*)(const InferContext&);

// dtype_c1, broadcast_c1
Result<std::vector<Type>> infer_binary(const InferContext& context) {
  RTX_TRY(check_same_dtype(context));
  RTX_ASSIGN(Shape shape, broadcast_operands(context));
  return std::vector<Type>{{context.operands[0].dtype, shape}};
}

// dtype_c1, broadcast_c1
Result<std::vector<Type>> infer_comparison(const InferContext& context) {
  RTX_ASSIGN(std::vector<Type> types, infer_binary(context));
  types[0].dtype = DType::boolean;
  return types;
}

constexpr OpSpec binary(std::string_view name, std::string_view summary, DTypePredicate allows, Infer infer,
                        Evaluate evaluate, uint32_t traits = trait_none) {
  return {.name = name,
          .family = OpFamily::elementwise,
          .summary = summary,
          .operands = {{{"lhs", allows}, {"rhs", allows}}},
          .traits = traits | trait_broadcasts,
          .infer = infer,
          .evaluate = evaluate};
}

template <typename Body>
void walk(const EvaluateContext& context, const Tensor& out, Body body) {
  std::array<Strides, 2> strides = {broadcast_strides(context.operands[0]->shape, out.shape),
                                    broadcast_strides(context.operands[1]->shape, out.shape)};
  for_each_element<2>(out.shape, strides, body);
}

template <double (*on_floats)(double, double), int64_t (*on_integers)(int64_t, int64_t)>
Result<std::vector<Tensor>> evaluate_arithmetic(const EvaluateContext& context) {
  Tensor out = context.results[0];
  const Tensor &lhs = *context.operands[0], &rhs = *context.operands[1];
  if (in_f64(lhs)) {
    walk(context, out, [&](int64_t i, const auto& at) { out.set_f64(i, on_floats(lhs.f64(at[0]), rhs.f64(at[1]))); });
  } else {
    walk(context, out, [&](int64_t i, const auto& at) { out.set_i64(i, on_integers(lhs.i64(at[0]), rhs.i64(at[1]))); });
  }
  return one(std::move(out));
}

template <bool (*on_floats)(double, double), bool (*on_integers)(int64_t, int64_t)>
Result<std::vector<Tensor>> evaluate_comparison(const EvaluateContext& context) {
  Tensor out = context.results[0];
  const Tensor &lhs = *context.operands[0], &rhs = *context.operands[1];
  if (in_f64(lhs)) {
    walk(context, out, [&](int64_t i, const auto& at) { out.set_i64(i, on_floats(lhs.f64(at[0]), rhs.f64(at[1]))); });
  } else {
    walk(context, out, [&](int64_t i, const auto& at) { out.set_i64(i, on_integers(lhs.i64(at[0]), rhs.i64(at[1]))); });
  }
  return one(std::move(out));
}

double add_f64(double a, double b) { return a + b; }
double sub_f64(double a, double b) { return a - b; }
double mul_f64(double a, double b) { return a * b; }
double div_f64(double a, double b) { return a / b; }
int64_t div_i64(int64_t a, int64_t b) {
  if (b == 0) return 0;
  return b == -1 ? wrap_sub(0, a) : a / b;
}
int64_t min_i64(int64_t a, int64_t b) { return a < b ? a : b; }
int64_t max_i64(int64_t a, int64_t b) { return a > b ? a : b; }
bool equal_f64(double a, double b) { return a == b; }
bool equal_i64(int64_t a, int64_t b) { return a == b; }
bool less_f64(double a, double b) { return a < b; }
bool less_i64(int64_t a, int64_t b) { return a < b; }
bool less_equal_f64(double a, double b) { return a <= b; }
bool less_equal_i64(int64_t a, int64_t b) { return a <= b; }
bool and_i64(int64_t a, int64_t b) { return a != 0 && b != 0; }
bool or_i64(int64_t a, int64_t b) { return a != 0 || b != 0; }
bool xor_i64(int64_t a, int64_t b) { return (a != 0) != (b != 0); }
int64_t bitwise_and_i64(int64_t a, int64_t b) { return a & b; }
int64_t bitwise_or_i64(int64_t a, int64_t b) { return a | b; }
int64_t bitwise_xor_i64(int64_t a, int64_t b) { return a ^ b; }
int64_t shift_left_i64(int64_t a, int64_t b) {
  return b < 0 || b > 63 ? 0 : static_cast<int64_t>(static_cast<uint64_t>(a) << b);
}
int64_t shift_right_i64(int64_t a, int64_t b) { return a >> (b < 0 || b > 63 ? 63 : b); }
double no_float(double, double) { return 0; }     // bitwise ops take integers only
bool no_floats(double, double) { return false; }  // logical ops take bool only

// broadcast_c1. The exponent may have a dtype of its own.
Result<std::vector<Type>> infer_pow(const InferContext& context) {
  RTX_ASSIGN(Shape shape, broadcast_operands(context));
  return std::vector<Type>{{context.operands[0].dtype, shape}};
}

// Exact modulo 2^64 by squaring; a negative exponent gives the truncated reciprocal, and 0 for base 0.
int64_t pow_i64(int64_t base, int64_t exponent) {
  if (exponent < 0) {
    if (base == 1) return 1;
    if (base == -1) return exponent % 2 == 0 ? 1 : -1;
    return 0;
  }
  int64_t result = 1;
  for (; exponent > 0; exponent >>= 1) {
    if (exponent & 1) result = wrap_mul(result, base);
    base = wrap_mul(base, base);
  }
  return result;
}

Result<std::vector<Tensor>> evaluate_pow(const EvaluateContext& context) {
  Tensor out = context.results[0];
  const Tensor &base = *context.operands[0], &exponent = *context.operands[1];
  bool integers = !in_f64(base) && !in_f64(exponent);
  walk(context, out, [&](int64_t i, const auto& at) {
    if (integers) {
      out.set_i64(i, pow_i64(base.i64(at[0]), exponent.i64(at[1])));
    } else {
      out.set_f64(i, std::pow(base.f64(at[0]), exponent.f64(at[1])));
    }
  });
  return one(std::move(out));
}

double floor_mod_f64(double a, double b) {
  double remainder = std::fmod(a, b);
  if (remainder == 0) return std::copysign(0.0, b);
  return (remainder < 0) != (b < 0) ? remainder + b : remainder;
}

double mod_f64(double a, double b, bool truncated) { return truncated ? std::fmod(a, b) : floor_mod_f64(a, b); }

int64_t mod_i64(int64_t a, int64_t b, bool truncated) {
  if (b == 0 || b == -1) return 0;  // INT64_MIN % -1 would trap
  int64_t remainder = a % b;
  return !truncated && remainder != 0 && (remainder < 0) != (b < 0) ? remainder + b : remainder;
}

Result<std::vector<Tensor>> evaluate_mod(const EvaluateContext& context) {
  Tensor out = context.results[0];
  const Tensor &lhs = *context.operands[0], &rhs = *context.operands[1];
  bool truncated = context.attributes.boolean("truncated");
  walk(context, out, [&](int64_t i, const auto& at) {
    if (in_f64(lhs)) {
      out.set_f64(i, mod_f64(lhs.f64(at[0]), rhs.f64(at[1]), truncated));
    } else {
      out.set_i64(i, mod_i64(lhs.i64(at[0]), rhs.i64(at[1]), truncated));
    }
  });
  return one(std::move(out));
}

// dtype_c1 over the two branches, broadcast_c1 over all three
Result<std::vector<Type>> infer_select(const InferContext& context) {
  RTX_TRY(check_same_dtype(context, 1));
  RTX_ASSIGN(Shape shape, broadcast_operands(context));
  return std::vector<Type>{{context.operands[1].dtype, shape}};
}

Result<std::vector<Tensor>> evaluate_select(const EvaluateContext& context) {
  Tensor out = context.results[0];
  std::array<Strides, 3> strides;
  for (size_t k = 0; k < 3; ++k) strides[k] = broadcast_strides(context.operands[k]->shape, out.shape);
  for_each_element<3>(out.shape, strides, [&](int64_t i, const auto& at) {
    size_t chosen = context.operands[0]->i64(at[0]) != 0 ? 1 : 2;
    copy_elements(out, i, *context.operands[chosen], at[chosen], 1);
  });
  return one(std::move(out));
}

}  // namespace

constinit const OpSpec op_add = following(binary("add", "lhs + rhs; integers wrap.", number_dtype, infer_binary,
                                                 evaluate_arithmetic<add_f64, wrap_add>, trait_commutative));
constinit const OpSpec op_sub = following(
    binary("sub", "lhs - rhs; integers wrap.", number_dtype, infer_binary, evaluate_arithmetic<sub_f64, wrap_sub>));
constinit const OpSpec op_mul = following(binary("mul", "lhs * rhs; integers wrap.", number_dtype, infer_binary,
                                                 evaluate_arithmetic<mul_f64, wrap_mul>, trait_commutative));
constinit const OpSpec op_div = following(binary("div", "lhs / rhs; integers truncate toward zero, and x / 0 is 0.",
                                                 number_dtype, infer_binary, evaluate_arithmetic<div_f64, div_i64>));

constinit const OpSpec op_pow = {
    .name = "pow",
    .family = OpFamily::elementwise,
    .summary =
        "base to the exponent, in the dtype of the base; integers wrap, and a negative integer exponent gives the "
        "truncated reciprocal (0 for base 0).",
    .operands = {{{"base", number_dtype}, {"exponent", number_dtype}}},
    .traits = trait_broadcasts,
    .infer = infer_pow,
    .evaluate = evaluate_pow,
};

constinit const OpSpec op_mod = {
    .name = "mod",
    .family = OpFamily::elementwise,
    .summary =
        "Remainder of lhs / rhs with the sign of rhs, or with the sign of lhs if `truncated` (C's fmod). "
        "Integers: x mod 0 is 0.",
    .operands = {{{"lhs", number_dtype}, {"rhs", number_dtype}}},
    .attributes = {{{"truncated", AttrKind::boolean, "false"}}},
    .traits = trait_broadcasts,
    .infer = infer_binary,
    .evaluate = evaluate_mod,
};

constinit const OpSpec op_minimum =
    following(binary("minimum", "The smaller one; NaN if either is NaN, -0 is below 0.", number_dtype, infer_binary,
                     evaluate_arithmetic<nan_minimum, min_i64>, trait_commutative));
constinit const OpSpec op_maximum =
    following(binary("maximum", "The larger one; NaN if either is NaN, -0 is below 0.", number_dtype, infer_binary,
                     evaluate_arithmetic<nan_maximum, max_i64>, trait_commutative));
constinit const OpSpec op_logical_and = binary("logical_and", "lhs and rhs.", bool_dtype, infer_binary,
                                               evaluate_comparison<no_floats, and_i64>, trait_commutative);
constinit const OpSpec op_logical_or = binary("logical_or", "lhs or rhs.", bool_dtype, infer_binary,
                                              evaluate_comparison<no_floats, or_i64>, trait_commutative);
constinit const OpSpec op_logical_xor = binary("logical_xor", "Exactly one of lhs and rhs.", bool_dtype, infer_binary,
                                               evaluate_comparison<no_floats, xor_i64>, trait_commutative);
constinit const OpSpec op_bitwise_and = binary("bitwise_and", "The bits set in both.", integer_dtype, infer_binary,
                                               evaluate_arithmetic<no_float, bitwise_and_i64>, trait_commutative);
constinit const OpSpec op_bitwise_or = binary("bitwise_or", "The bits set in either.", integer_dtype, infer_binary,
                                              evaluate_arithmetic<no_float, bitwise_or_i64>, trait_commutative);
constinit const OpSpec op_bitwise_xor =
    binary("bitwise_xor", "The bits set in exactly one.", integer_dtype, infer_binary,
           evaluate_arithmetic<no_float, bitwise_xor_i64>, trait_commutative);
constinit const OpSpec op_shift_left =
    binary("shift_left", "lhs moved rhs bits up, zeros from below; 0 where rhs is not in [0, bits of the dtype).",
           integer_dtype, infer_binary, evaluate_arithmetic<no_float, shift_left_i64>);
constinit const OpSpec op_shift_right =
    binary("shift_right",
           "lhs moved rhs bits down, copies of the sign (unsigned: zeros) from above; only those are left where rhs is "
           "not in [0, bits of the dtype).",
           integer_dtype, infer_binary, evaluate_arithmetic<no_float, shift_right_i64>);
constinit const OpSpec op_equal = binary("equal", "lhs == rhs, as bool; false with NaN.", any_dtype, infer_comparison,
                                         evaluate_comparison<equal_f64, equal_i64>, trait_commutative);
constinit const OpSpec op_less = binary("less", "lhs < rhs, as bool; false with NaN.", number_dtype, infer_comparison,
                                        evaluate_comparison<less_f64, less_i64>);
constinit const OpSpec op_less_equal = binary("less_equal", "lhs <= rhs, as bool; false with NaN.", number_dtype,
                                              infer_comparison, evaluate_comparison<less_equal_f64, less_equal_i64>);

constinit const OpSpec op_select = {
    .name = "select",
    .family = OpFamily::elementwise,
    .summary = "if_true where condition holds, else if_false; copies bits.",
    .operands = {{{"condition", bool_dtype}, {"if_true", any_dtype}, {"if_false", any_dtype}}},
    .traits = trait_broadcasts,
    .precision = Precision::follows,
    .infer = infer_select,
    .evaluate = evaluate_select,
};

}  // namespace rtx
