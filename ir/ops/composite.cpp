// Operations that can be written with others (composite_expansion.h), kept whole because devices have one kernel for
// each. Computed in f64 from the operands to the result, with one rounding at the end.

#include <cmath>

#include "base/text.h"
#include "ir/ops/composite_expansion.h"
#include "ir/ops/loops.h"
#include "ir/ops/records.h"
#include "ir/ops/rules.h"

namespace rtx {
namespace {

// axis_c1
Result<std::vector<Type>> infer_softmax(const InferContext& context) {
  RTX_TRY(check_axis(context, "axis", context.operands[0].rank()));
  return infer_same_type(context);
}

// A row of -inf only, or one that holds NaN or +inf, gives NaN: plain arithmetic, nothing is masked.
void softmax_row(std::vector<double>& row, bool logarithm) {
  double top = -INFINITY, sum = 0;
  for (double x : row) top = x > top ? x : top;
  for (double& x : row) {
    x -= top;
    sum += std::exp(x);
  }
  for (double& x : row) x = logarithm ? x - std::log(sum) : std::exp(x) / sum;
}

template <bool logarithm>
Result<std::vector<Tensor>> evaluate_softmax(const EvaluateContext& context) {
  Tensor out = context.results[0];
  const Tensor& x = *context.operands[0];
  size_t axis = static_cast<size_t>(context.attributes.integer("axis"));
  int64_t length = x.shape[axis], inner = extent(x.shape, axis + 1, x.shape.size()), outer = extent(x.shape, 0, axis);
  std::vector<double> row(static_cast<size_t>(length));
  for (int64_t r = 0; r < outer * inner; ++r) {
    int64_t base = r / inner * length * inner + r % inner;
    for (int64_t j = 0; j < length; ++j) row[static_cast<size_t>(j)] = x.f64(base + j * inner);
    softmax_row(row, logarithm);
    for (int64_t j = 0; j < length; ++j) out.set_f64(base + j * inner, row[static_cast<size_t>(j)]);
  }
  return one(std::move(out));
}

// dtype_c1, axis_c1, norm_c1
Result<std::vector<Type>> infer_norm(const InferContext& context) {
  RTX_TRY(check_same_dtype(context));
  const Type& x = context.operands[0];
  RTX_TRY(check_axis(context, "axis", x.rank()));
  for (const Type& operand : context.operands.subspan(1)) {
    bool fits = operand.rank() <= x.rank();
    for (int i = 1; fits && i <= operand.rank(); ++i) {
      const Dim& dim = operand.shape[static_cast<size_t>(operand.rank() - i)];
      fits = dim.is(1) || context.same(dim, x.shape[static_cast<size_t>(x.rank() - i)]);
    }
    if (!fits) {
      return rule_error(context, "norm_c1", "scale or bias does not broadcast to x",
                        "axes that are 1 or equal to those of x, aligned from the right");
    }
  }
  return infer_same_type(context);
}

template <bool subtract_mean>
Result<std::vector<Tensor>> evaluate_norm(const EvaluateContext& context) {
  Tensor out = context.results[0];
  const Tensor &x = *context.operands[0], &scale = *context.operands[1];
  const Tensor* bias = context.operands.size() > 2 ? context.operands[2] : nullptr;
  double epsilon = context.attributes.real("epsilon");
  size_t axis = static_cast<size_t>(context.attributes.integer("axis"));
  int64_t length = extent(x.shape, axis, x.shape.size());
  std::array<Strides, 2> strides = {broadcast_strides(scale.shape, x.shape),
                                    broadcast_strides(bias ? bias->shape : std::vector<int64_t>{}, x.shape)};
  double mean = 0, factor = 0;
  for_each_element<2>(x.shape, strides, [&](int64_t i, const auto& at) {
    if (i % length == 0) {  // a new row
      double sum = 0, squares = 0;
      for (int64_t j = 0; subtract_mean && j < length; ++j) sum += x.f64(i + j);
      mean = sum / static_cast<double>(length);
      for (int64_t j = 0; j < length; ++j) squares += (x.f64(i + j) - mean) * (x.f64(i + j) - mean);
      factor = 1 / std::sqrt(squares / static_cast<double>(length) + epsilon);
    }
    double normalized = (x.f64(i) - mean) * factor;
    out.set_f64(i, normalized * scale.f64(at[0]) + (bias ? bias->f64(at[1]) : 0.0));
  });
  return one(std::move(out));
}

// gelu_c1
Result<std::vector<Type>> infer_gelu(const InferContext& context) {
  const std::string& approximate = context.attributes.string("approximate");
  if (approximate != "none" && approximate != "tanh") {
    return rule_error(context, "gelu_c1", concat("unknown approximation \"", escape_text(approximate), "\""),
                      "\"none\" or \"tanh\"");
  }
  return infer_same_type(context);
}

double gelu_exact(double x) { return 0.5 * x * (1 + std::erf(x * M_SQRT1_2)); }
// Hendrycks and Gimpel, Gaussian Error Linear Units, section 2: sqrt(2 / pi) and 0.044715.
double gelu_tanh(double x) { return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))); }

Result<std::vector<Tensor>> evaluate_gelu(const EvaluateContext& context) {
  return map_f64(context, context.attributes.string("approximate") == "tanh" ? gelu_tanh : gelu_exact);
}

Result<std::vector<Tensor>> evaluate_silu(const EvaluateContext& context) {
  return map_f64(context, [](double x) { return x / (1 + std::exp(-x)); });
}

}  // namespace

constinit const OpSpec op_softmax = {
    .name = "softmax",
    .family = OpFamily::composite,
    .summary = "exp(x - max) / sum(exp(x - max)) along an axis; a row of -inf only gives NaN.",
    .operands = {{{"x", float_dtype}}},
    .attributes = {{{"axis", AttrKind::integer}}},
    .infer = infer_softmax,
    .evaluate = evaluate_softmax<false>,
    .expand = expand_softmax,
};

constinit const OpSpec op_log_softmax = {
    .name = "log_softmax",
    .family = OpFamily::composite,
    .summary = "x - max - log(sum(exp(x - max))) along an axis; a row of -inf only gives NaN.",
    .operands = {{{"x", float_dtype}}},
    .attributes = {{{"axis", AttrKind::integer}}},
    .infer = infer_softmax,
    .evaluate = evaluate_softmax<true>,
    .expand = expand_log_softmax,
};

// norm_c1: scale and bias broadcast to x without enlarging it
constinit const OpSpec op_layer_norm = {
    .name = "layer_norm",
    .family = OpFamily::composite,
    .summary = "(x - mean) / sqrt(variance + epsilon) * scale + bias; mean and variance over the axes from `axis` on.",
    .operands = {{{"x", float_dtype}, {"scale", float_dtype}, {"bias", float_dtype, true}}},
    .attributes = {{{"axis", AttrKind::integer}, {"epsilon", AttrKind::real, "1e-05"}}},
    .infer = infer_norm,
    .evaluate = evaluate_norm<true>,
    .expand = expand_layer_norm,
};

// norm_c1
constinit const OpSpec op_rms_norm = {
    .name = "rms_norm",
    .family = OpFamily::composite,
    .summary = "x / sqrt(mean(x * x) + epsilon) * scale; the mean over the axes from `axis` on.",
    .operands = {{{"x", float_dtype}, {"scale", float_dtype}}},
    .attributes = {{{"axis", AttrKind::integer}, {"epsilon", AttrKind::real, "1e-05"}}},
    .infer = infer_norm,
    .evaluate = evaluate_norm<false>,
    .expand = expand_rms_norm,
};

// gelu_c1: approximate is "none" or "tanh"
constinit const OpSpec op_gelu = {
    .name = "gelu",
    .family = OpFamily::composite,
    .summary =
        "x * (1 + erf(x / sqrt(2))) / 2, or with approximate = \"tanh\" "
        "x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))) / 2.",
    .operands = {{{"x", float_dtype}}},
    .attributes = {{{"approximate", AttrKind::string, "none"}}},
    .precision = Precision::follows,
    .infer = infer_gelu,
    .evaluate = evaluate_gelu,
    .expand = expand_gelu,
};

constinit const OpSpec op_silu = {
    .name = "silu",
    .family = OpFamily::composite,
    .summary = "x / (1 + exp(-x)).",
    .operands = {{{"x", float_dtype}}},
    .precision = Precision::follows,
    .infer = infer_same_type,
    .evaluate = evaluate_silu,
    .expand = expand_silu,
};

}  // namespace rtx
