// Matrix products and convolutions.

#include <algorithm>

#include "frontend/converters/conv_parts.h"
#include "frontend/converters/matmul_parts.h"
#include "frontend/converters/tables.h"

namespace rtx::onnx {

Result<Value*> matrix_product(Conversion& c, Value* a, Value* b) {
  bool left_vector = a->type.rank() == 1, right_vector = b->type.rank() == 1;
  if (a->type.rank() == 0 || b->type.rank() == 0)
    return c.invalid("E327", "a product needs rank 1 or more").with_got(concat(a->type.str(), " and ", b->type.str()));
  if (left_vector) {
    RTX_ASSIGN(a, c.reshape(a, {1, a->type.shape[0]}));
  }
  if (right_vector) {
    RTX_ASSIGN(b, c.reshape(b, {b->type.shape[0], 1}));
  }
  RTX_ASSIGN(Value * y, c.emit(Op::matmul, {a, b}));
  if (!left_vector && !right_vector) return y;
  Shape shape = y->type.shape;
  if (right_vector) shape.pop_back();
  if (left_vector) shape.erase(shape.end() - (right_vector ? 1 : 2));
  return c.reshape(y, std::move(shape));
}

namespace {

Result<void> matmul(Conversion& c) {
  RTX_ASSIGN(Value * a, c.input(0));
  RTX_ASSIGN(Value * b, c.input(1));
  RTX_ASSIGN(Value * y, matrix_product(c, a, b));
  c.set(0, y);
  return Ok{};
}

Result<Value*> scaled(Conversion& c, Value* x, double factor) {
  if (factor == 1) return x;
  RTX_ASSIGN(Value * scale, c.scalar(x->type.dtype, factor));
  return c.emit(Op::mul, {x, scale});
}

// alpha * op(A) * op(B) + beta * C. C broadcasts to the result but may not enlarge it (H45).
Result<Value*> gemm_value(Conversion& c) {
  for (size_t i = 0; i < 2; ++i)
    if (c.rank(i) != 2)
      return c.invalid("E327", concat("input ", i, " of Gemm must have rank 2")).with_got(c.type(i).str());
  double alpha = c.real("alpha", 1), beta = c.real("beta", 1);
  RTX_ASSIGN(Value * a, c.input(0));
  RTX_ASSIGN(Value * b, c.input(1));
  RTX_ASSIGN(Value * y,
             c.emit(Op::matmul, {a, b},
                    {{"transpose_lhs", c.integer("transA", 0) != 0}, {"transpose_rhs", c.integer("transB", 0) != 0}}));
  RTX_ASSIGN(y, scaled(c, y, alpha));
  if (c.has(2) && beta != 0) {
    Shape before = y->type.shape;
    RTX_ASSIGN(Value * bias, c.input(2));
    RTX_ASSIGN(bias, scaled(c, bias, beta));
    RTX_ASSIGN(y, c.emit(Op::add, {y, bias}));
    for (Dim& dim : before) dim = c.fresh(dim);
    if (y->type.shape != before)
      return c.invalid("E334", "C enlarges the result of Gemm")
          .with_expected(to_string(before))
          .with_got(to_string(y->type.shape));
  }
  return y;
}

Result<void> gemm(Conversion& c) {
  RTX_ASSIGN(Value * y, gemm_value(c));
  c.set(0, y);
  return Ok{};
}

// The activation that onnxruntime fuses behind Gemm and Conv, with the parameters that are given.
Result<Value*> activated(Conversion& c, Value* x, std::optional<double> first, std::optional<double> second) {
  std::string name = c.string("activation", "");
  DType dtype = x->type.dtype;
  const bool is_hard_sigmoid = name == "HardSigmoid";
  if (name == "Clip" && (!first || !second)) return c.invalid("E324", "Clip needs its two parameters");
  const double alpha = first.value_or(is_hard_sigmoid ? 0.2f : 0.01f),
               beta = second.value_or(is_hard_sigmoid ? 0.5 : 0);
  if (name.empty()) return x;
  if (name == "Relu") return c.emit(Op::relu, {x});
  if (name == "Tanh") return c.emit(Op::tanh, {x});
  if (name == "Sigmoid") return c.emit(Op::sigmoid, {x});
  RTX_ASSIGN(Value * a, c.scalar(dtype, alpha));
  RTX_ASSIGN(Value * b, c.scalar(dtype, beta));
  if (name == "Clip") {
    RTX_ASSIGN(x, c.emit(Op::maximum, {x, a}));
    return c.emit(Op::minimum, {x, b});
  }
  RTX_ASSIGN(Value * scaled_x, c.emit(Op::mul, {x, a}));
  if (is_hard_sigmoid) {
    RTX_ASSIGN(Value * one, c.scalar(dtype, 1));
    RTX_ASSIGN(x, c.emit(Op::add, {scaled_x, b}));
    RTX_ASSIGN(x, c.emit(Op::minimum, {x, one}));
    return c.emit(Op::relu, {x});
  }
  if (name == "LeakyRelu") {
    RTX_ASSIGN(Value * zero, c.scalar(dtype, 0));
    RTX_ASSIGN(Value * negative, c.emit(Op::less, {x, zero}));
    return c.emit(Op::select, {negative, scaled_x, x});
  }
  return c.unsupported(concat("activation '", escape_text(name), "'"));
}

std::optional<double> given_real(Conversion& c, std::string_view name) {
  if (!c.has_attribute(name)) return std::nullopt;
  return c.real(name, 0);
}

Result<void> fused_gemm(Conversion& c) {
  RTX_ASSIGN(Value * y, gemm_value(c));
  RTX_ASSIGN(y, activated(c, y, given_real(c, "activation_alpha"), given_real(c, "activation_beta")));
  c.set(0, y);
  return Ok{};
}

// com.microsoft.FusedMatMul: alpha * op(A) @ op(B), transposes of the last two axes, or with transBatchX the first
// axis moved behind the batch axes first.
Result<Value*> fused_operand(Conversion& c, size_t index, bool transpose, bool transpose_batch, bool* transpose_last) {
  RTX_ASSIGN(Value * x, c.input(index));
  *transpose_last = transpose && x->type.rank() >= 2;
  if (!transpose_batch || x->type.rank() < 3) return x;
  std::vector<int64_t> perm;
  for (int i = 1; i < x->type.rank() - 1; ++i) perm.push_back(i);
  perm.push_back(0);
  perm.push_back(x->type.rank() - 1);
  return c.transpose(x, std::move(perm));
}

Result<Value*> fused_matmul_value(Conversion& c) {
  bool last_a, last_b;
  RTX_ASSIGN(Value * a, fused_operand(c, 0, c.integer("transA", 0), c.integer("transBatchA", 0), &last_a));
  RTX_ASSIGN(Value * b, fused_operand(c, 1, c.integer("transB", 0), c.integer("transBatchB", 0), &last_b));
  Value* y = nullptr;
  if (a->type.rank() < 2 || b->type.rank() < 2) {
    if (last_a) {
      RTX_ASSIGN(a, c.transpose(a, {1, 0}));
    }
    if (last_b) {
      RTX_ASSIGN(b, c.transpose(b, {1, 0}));
    }
    RTX_ASSIGN(y, matrix_product(c, a, b));
  } else {
    RTX_ASSIGN(y, c.emit(Op::matmul, {a, b}, {{"transpose_lhs", last_a}, {"transpose_rhs", last_b}}));
  }
  return scaled(c, y, c.real("alpha", 1));
}

Result<void> fused_matmul(Conversion& c) {
  RTX_ASSIGN(Value * y, fused_matmul_value(c));
  c.set(0, y);
  return Ok{};
}

Result<void> fused_matmul_activation(Conversion& c) {
  RTX_ASSIGN(Value * y, fused_matmul_value(c));
  RTX_ASSIGN(y, activated(c, y, given_real(c, "activation_alpha"), given_real(c, "activation_beta")));
  c.set(0, y);
  return Ok{};
}

// The tanh form of gelu of X * W + bias.
Result<void> gemm_fast_gelu(Conversion& c) {
  RTX_ASSIGN(Value * a, c.input(0));
  RTX_ASSIGN(Value * b, c.input(1));
  RTX_ASSIGN(Value * y, matrix_product(c, a, b));
  if (c.has(2)) {
    RTX_ASSIGN(Value * bias, c.input(2));
    RTX_ASSIGN(y, c.emit(Op::add, {y, bias}));
  }
  RTX_ASSIGN(y, c.emit(Op::gelu, {y}, {{"approximate", std::string("tanh")}}));
  c.set(0, y);
  return Ok{};
}

// ---- Conv

Result<std::vector<int64_t>> conv_pads(Conversion& c, const Shape& x, const Shape& w,
                                       const std::vector<int64_t>& strides, const std::vector<int64_t>& dilations) {
  size_t spatial = strides.size();
  std::string mode = c.string("auto_pad", "NOTSET");
  if (mode == "NOTSET") return c.spatial_list("pads", 2 * spatial, 0);
  std::vector<int64_t> pads(2 * spatial, 0);
  if (mode == "VALID") return pads;
  if (mode != "SAME_UPPER" && mode != "SAME_LOWER")
    return c.invalid("E321", concat("auto_pad '", escape_text(mode), "'"));
  for (size_t i = 0; i < spatial; ++i) {
    const Dim &size = x[2 + i], &window = w[2 + i];
    if (!window.is_constant() || (strides[i] != 1 && !size.is_constant()))
      return c.unsupported(concat("auto_pad with a stride on an axis of size ", size.str()));
    int64_t total = 0;
    if (__builtin_mul_overflow(window.constant() - 1, dilations[i], &total) || total >= int64_t{1} << 31)
      return c.invalid("E321", concat("a window of ", window.str(), " with dilation ", dilations[i], " is too large"));
    if (strides[i] != 1) {
      int64_t length = size.constant(), out = (length + strides[i] - 1) / strides[i];
      total = std::max<int64_t>(0, (out - 1) * strides[i] + total + 1 - length);
    }
    pads[i] = mode == "SAME_UPPER" ? total / 2 : total - total / 2;
    pads[spatial + i] = total - pads[i];
  }
  return pads;
}

}  // namespace

Result<Value*> convolved(Conversion& c, Value* x, Value* w, Value* bias) {
  if (x->type.rank() < 3) return c.invalid("E327", "Conv needs rank 3 or more").with_got(x->type.str());
  if (w->type.rank() != x->type.rank())
    return c.invalid("E327", "the weight of Conv has another rank").with_got(w->type.str());
  size_t spatial = x->type.rank() - 2;
  RTX_ASSIGN(std::vector<int64_t> strides, c.spatial_list("strides", spatial, 1));
  RTX_ASSIGN(std::vector<int64_t> dilations, c.spatial_list("dilations", spatial, 1));
  for (size_t i = 0; i < spatial; ++i)
    if (strides[i] < 1 || dilations[i] < 1) return c.invalid("E321", "strides and dilations are 1 or more");
  if (auto window = c.integer_list("kernel_shape")) {
    for (size_t i = 0; i < spatial; ++i)
      if (window->size() != spatial || !w->type.shape[2 + i].is((*window)[i]))
        return c.invalid("E324", "kernel_shape is not the shape of the weight").with_got(w->type.str());
  }
  RTX_ASSIGN(std::vector<int64_t> pads, conv_pads(c, x->type.shape, w->type.shape, strides, dilations));
  const int64_t groups = c.integer("group", 1);
  if (groups < 1) return c.invalid("E321", concat("attribute 'group' is ", groups)).with_expected("1 or more");
  std::vector<Value*> operands = {x, w};
  if (bias) operands.push_back(bias);
  return c.emit(Op::conv, std::move(operands),
                {{"strides", strides}, {"dilations", dilations}, {"pads", pads}, {"groups", groups}});
}

namespace {

Result<Value*> conv_value(Conversion& c) {
  RTX_ASSIGN(Value * x, c.input(0));
  RTX_ASSIGN(Value * w, c.input(1));
  Value* bias = nullptr;
  if (c.has(2)) {
    RTX_ASSIGN(bias, c.input(2));
  }
  return convolved(c, x, w, bias);
}

Result<void> conv(Conversion& c) {
  RTX_ASSIGN(Value * y, conv_value(c));
  c.set(0, y);
  return Ok{};
}

// Input Z is added before the activation.
Result<void> fused_conv(Conversion& c) {
  RTX_ASSIGN(Value * y, conv_value(c));
  if (c.has(3)) {
    RTX_ASSIGN(Value * z, c.input(3));
    RTX_ASSIGN(y, c.emit(Op::add, {y, z}));
  }
  const auto* parameters = c.attribute<std::vector<float>>("activation_params");
  std::optional<double> first, second;
  if (parameters && !parameters->empty()) first = (*parameters)[0];
  if (parameters && parameters->size() > 1) second = (*parameters)[1];
  RTX_ASSIGN(y, activated(c, y, first, second));
  c.set(0, y);
  return Ok{};
}

constexpr std::string_view conv_attributes = "auto_pad dilations group kernel_shape pads strides";
constexpr std::string_view fused_attributes = "alpha transA transB transBatchA transBatchB";

}  // namespace

constinit const Converter contraction_converters[] = {
    {"MatMul", 1, matmul, never, "", 2, 2},
    {"Gemm", 7, gemm, never, "alpha beta transA transB", 3, 3},
    {"Gemm", 11, gemm, never, "alpha beta transA transB", 2, 3},
    {"Conv", 1, conv, never, conv_attributes, 2, 3},
    {"FusedMatMul", 1, fused_matmul, never, fused_attributes, 2, 2, "com.microsoft"},
    {"FusedGemm", 1, fused_gemm, never,
     "activation activation_alpha activation_beta activation_gamma alpha beta transA transB", 2, 3, "com.microsoft"},
    {"FusedConv", 1, fused_conv, never,
     "activation activation_params auto_pad dilations group kernel_shape pads strides", 2, 4, "com.microsoft"},
    {"FusedMatMulActivation", 1, fused_matmul_activation, never,
     "activation activation_alpha activation_axis activation_beta activation_gamma alpha transA transB transBatchA "
     "transBatchB",
     2, 2, "com.microsoft"},
    {"GemmFastGelu", 1, gemm_fast_gelu, never, "", 2, 3, "com.microsoft"},
    {"TransposeMatMul", 1, fused_matmul, never, fused_attributes, 2, 2, "com.microsoft"},
};
std::span<const Converter> contraction_table() { return contraction_converters; }

}  // namespace rtx::onnx
