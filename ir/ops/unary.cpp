// Elementwise operations of one operand. The result has the operand's shape, and its dtype unless the record says
// otherwise.

#include <cmath>
#include <limits>

#include "ir/ops/loops.h"
#include "ir/ops/records.h"
#include "ir/ops/rules.h"

namespace rtx {
namespace {

using Evaluate = Result<std::vector<Tensor>> (*)(const EvaluateContext&);

constexpr OpSpec unary(std::string_view name, std::string_view summary, DTypePredicate allows, Evaluate evaluate,
                       uint32_t traits = trait_none) {
  return {.name = name,
          .family = OpFamily::elementwise,
          .summary = summary,
          .operands = {{{"x", allows}}},
          .traits = traits,
          .infer = infer_same_type,
          .evaluate = evaluate};
}

template <double (*function)(double)>
Result<std::vector<Tensor>> evaluate_float(const EvaluateContext& context) {
  return map_f64(context, function);
}

template <double (*on_floats)(double), int64_t (*on_integers)(int64_t)>
Result<std::vector<Tensor>> evaluate_number(const EvaluateContext& context) {
  return in_f64(*context.operands[0]) ? map_f64(context, on_floats) : map_i64(context, on_integers);
}

double neg_f64(double x) { return -x; }
int64_t neg_i64(int64_t x) { return wrap_sub(0, x); }
double abs_f64(double x) { return std::fabs(x); }
int64_t abs_i64(int64_t x) { return x < 0 ? wrap_sub(0, x) : x; }
double sign_f64(double x) { return std::isnan(x) || x == 0 ? x : std::copysign(1.0, x); }
int64_t sign_i64(int64_t x) { return (x > 0) - (x < 0); }
double exp_f64(double x) { return std::exp(x); }
double log_f64(double x) { return std::log(x); }
double sqrt_f64(double x) { return std::sqrt(x); }
double rsqrt_f64(double x) { return 1 / std::sqrt(x); }
double reciprocal_f64(double x) { return 1 / x; }
double sin_f64(double x) { return std::sin(x); }
double cos_f64(double x) { return std::cos(x); }
double tan_f64(double x) { return std::tan(x); }
double asin_f64(double x) { return std::asin(x); }
double acos_f64(double x) { return std::acos(x); }
double atan_f64(double x) { return std::atan(x); }
double sinh_f64(double x) { return std::sinh(x); }
double cosh_f64(double x) { return std::cosh(x); }
double asinh_f64(double x) { return std::asinh(x); }
double acosh_f64(double x) { return std::acosh(x); }
double atanh_f64(double x) { return std::atanh(x); }
double tanh_f64(double x) { return std::tanh(x); }
double erf_f64(double x) { return std::erf(x); }
double sigmoid_f64(double x) { return 1 / (1 + std::exp(-x)); }
double relu_f64(double x) { return std::isnan(x) || x > 0 ? x : 0.0; }
int64_t relu_i64(int64_t x) { return x > 0 ? x : 0; }
double floor_f64(double x) { return std::floor(x); }
double ceil_f64(double x) { return std::ceil(x); }
double round_f64(double x) { return std::nearbyint(x); }  // the default rounding mode: half to even

Result<std::vector<Type>> infer_predicate(const InferContext& context) {
  return std::vector<Type>{{DType::boolean, context.operands[0].shape}};
}

Result<std::vector<Tensor>> evaluate_logical_not(const EvaluateContext& context) {
  return map_i64(context, [](int64_t x) -> int64_t { return x == 0; });
}

Result<std::vector<Tensor>> evaluate_bitwise_not(const EvaluateContext& context) {
  return map_i64(context, [](int64_t x) { return ~x; });
}

template <bool (*predicate)(double)>
Result<std::vector<Tensor>> evaluate_predicate(const EvaluateContext& context) {
  Tensor out = context.results[0];
  for (int64_t i = 0, n = out.element_count(); i < n; ++i) out.set_i64(i, predicate(context.operands[0]->f64(i)));
  return one(std::move(out));
}

bool is_nan_f64(double x) { return std::isnan(x); }
bool is_inf_f64(double x) { return std::isinf(x); }

Result<std::vector<Type>> infer_cast(const InferContext& context) {
  return std::vector<Type>{{context.attributes.dtype("to"), context.operands[0].shape}};
}

// An int64 as f64, rounded to odd where it does not fit: a later rounding to a narrower format is then correct.
double to_f64_odd(int64_t x) {
  uint64_t magnitude = x < 0 ? 0 - static_cast<uint64_t>(x) : static_cast<uint64_t>(x);
  if (magnitude >> 53 != 0) {
    constexpr uint64_t low = (uint64_t{1} << 11) - 1;
    magnitude = (magnitude & ~low) | ((magnitude & low) != 0 ? low + 1 : 0);
  }
  double result = static_cast<double>(magnitude);
  return x < 0 ? -result : result;
}

void cast_element(const Tensor& x, int64_t i, bool saturate, Tensor& out) {
  bool from_float = is_float(x.dtype);
  if (out.dtype == DType::boolean) {
    out.set_i64(i, from_float ? x.f64(i) != 0 : x.i64(i) != 0);  // NaN != 0 holds
  } else if (out.dtype == DType::f8e4m3) {
    out.data<uint8_t>()[i] = f64_to_f8e4m3(x.f64(i), saturate);
  } else if (out.dtype == DType::f8e5m2) {
    out.data<uint8_t>()[i] = f64_to_f8e5m2(x.f64(i), saturate);
  } else if (from_float) {
    out.set_f64(i, x.f64(i));
  } else if (out.dtype == DType::f64) {
    out.set_f64(i, static_cast<double>(x.i64(i)));
  } else if (is_float(out.dtype)) {
    out.set_f64(i, to_f64_odd(x.i64(i)));
  } else {
    out.set_i64(i, x.i64(i));
  }
}

Result<std::vector<Tensor>> evaluate_cast(const EvaluateContext& context) {
  const Tensor& x = *context.operands[0];
  if (x.dtype == context.results[0].dtype) return one(x);
  Tensor out = context.results[0];
  bool saturate = context.attributes.boolean("saturate");
  for (int64_t i = 0, n = out.element_count(); i < n; ++i) cast_element(x, i, saturate, out);
  return one(std::move(out));
}

}  // namespace

constinit const OpSpec op_neg =
    following(unary("neg", "-x; integers wrap.", number_dtype, evaluate_number<neg_f64, neg_i64>));
constinit const OpSpec op_abs =
    following(unary("abs", "|x|; integers wrap.", number_dtype, evaluate_number<abs_f64, abs_i64>, trait_idempotent));
constinit const OpSpec op_sign = following(unary("sign", "-1, 0 or 1; a zero keeps its sign and NaN stays NaN.",
                                                 number_dtype, evaluate_number<sign_f64, sign_i64>, trait_idempotent));
constinit const OpSpec op_exp = unary("exp", "e to the x.", float_dtype, evaluate_float<exp_f64>);
constinit const OpSpec op_log = unary("log", "Natural logarithm.", float_dtype, evaluate_float<log_f64>);
constinit const OpSpec op_sqrt = unary("sqrt", "Square root; NaN below 0.", float_dtype, evaluate_float<sqrt_f64>);
constinit const OpSpec op_rsqrt = unary("rsqrt", "1 / sqrt(x).", float_dtype, evaluate_float<rsqrt_f64>);
constinit const OpSpec op_reciprocal = unary("reciprocal", "1 / x.", float_dtype, evaluate_float<reciprocal_f64>);
constinit const OpSpec op_sin = unary("sin", "Sine of radians.", float_dtype, evaluate_float<sin_f64>);
constinit const OpSpec op_cos = unary("cos", "Cosine of radians.", float_dtype, evaluate_float<cos_f64>);
constinit const OpSpec op_tan = unary("tan", "Tangent of radians.", float_dtype, evaluate_float<tan_f64>);
constinit const OpSpec op_asin =
    unary("asin", "Inverse sine, in radians; NaN outside [-1, 1].", float_dtype, evaluate_float<asin_f64>);
constinit const OpSpec op_acos =
    unary("acos", "Inverse cosine, in radians; NaN outside [-1, 1].", float_dtype, evaluate_float<acos_f64>);
constinit const OpSpec op_atan = unary("atan", "Inverse tangent, in radians.", float_dtype, evaluate_float<atan_f64>);
constinit const OpSpec op_sinh = unary("sinh", "Hyperbolic sine.", float_dtype, evaluate_float<sinh_f64>);
constinit const OpSpec op_cosh = unary("cosh", "Hyperbolic cosine.", float_dtype, evaluate_float<cosh_f64>);
constinit const OpSpec op_asinh = unary("asinh", "Inverse hyperbolic sine.", float_dtype, evaluate_float<asinh_f64>);
constinit const OpSpec op_acosh =
    unary("acosh", "Inverse hyperbolic cosine; NaN below 1.", float_dtype, evaluate_float<acosh_f64>);
constinit const OpSpec op_atanh = unary("atanh", "Inverse hyperbolic tangent; infinite at -1 and 1, NaN beyond.",
                                        float_dtype, evaluate_float<atanh_f64>);
constinit const OpSpec op_tanh = following(unary("tanh", "Hyperbolic tangent.", float_dtype, evaluate_float<tanh_f64>));
constinit const OpSpec op_erf = following(unary("erf", "Error function.", float_dtype, evaluate_float<erf_f64>));
constinit const OpSpec op_sigmoid =
    following(unary("sigmoid", "1 / (1 + exp(-x)).", float_dtype, evaluate_float<sigmoid_f64>));
constinit const OpSpec op_relu = following(unary("relu", "max(x, 0); NaN stays NaN, -0 gives 0.", number_dtype,
                                                 evaluate_number<relu_f64, relu_i64>, trait_idempotent));
constinit const OpSpec op_floor =
    unary("floor", "Largest integer not above x.", float_dtype, evaluate_float<floor_f64>, trait_idempotent);
constinit const OpSpec op_ceil =
    unary("ceil", "Smallest integer not below x.", float_dtype, evaluate_float<ceil_f64>, trait_idempotent);
constinit const OpSpec op_round =
    unary("round", "Nearest integer, half to even.", float_dtype, evaluate_float<round_f64>, trait_idempotent);
constinit const OpSpec op_logical_not = unary("logical_not", "not x.", bool_dtype, evaluate_logical_not);

constinit const OpSpec op_bitwise_not =
    unary("bitwise_not", "Every bit inverted.", integer_dtype, evaluate_bitwise_not);

constinit const OpSpec op_is_nan = {
    .name = "is_nan",
    .family = OpFamily::elementwise,
    .summary = "Whether x is NaN, as bool.",
    .operands = {{{"x", float_dtype}}},
    .infer = infer_predicate,
    .evaluate = evaluate_predicate<is_nan_f64>,
};

constinit const OpSpec op_is_inf = {
    .name = "is_inf",
    .family = OpFamily::elementwise,
    .summary = "Whether x is infinity of either sign, as bool.",
    .operands = {{{"x", float_dtype}}},
    .infer = infer_predicate,
    .evaluate = evaluate_predicate<is_inf_f64>,
};

constinit const OpSpec op_cast = {
    .name = "cast",
    .family = OpFamily::elementwise,
    .summary =
        "Another dtype. Floats round to nearest even; a float to an integer truncates and saturates (to 4 bits: as "
        "i32, low bits kept), NaN gives 0; "
        "an integer to a narrower one keeps the low bits; non-zero and NaN give true. `saturate` is for f8: clamp "
        "to the largest finite value instead of giving NaN or infinity.",
    .operands = {{{"x", any_dtype}}},
    .attributes = {{{"to", AttrKind::dtype}, {"saturate", AttrKind::boolean, "true"}}},
    .infer = infer_cast,
    .evaluate = evaluate_cast,
};

}  // namespace rtx
