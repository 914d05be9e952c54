#include "codegen/emit/scalar_ops.h"

#include <limits>

#include "base/text.h"
#include "codegen/emit/c_types.h"

namespace rtx::codegen {
namespace {

// The C function for the register type: expf for float, exp for double.
std::string math(DType dtype, std::string_view name, std::string_view arguments) {
  return concat(name, dtype == DType::f64 ? "(" : "f(", arguments, ")");
}

// A prelude function in its f32, f64 or i64 form.
std::string prelude(KernelWriter& writer, DType dtype, std::string_view stem, std::string_view arguments) {
  const std::string_view suffix = dtype == DType::f64 ? "_f64" : is_float(dtype) ? "_f32" : "_i64";
  return concat(writer.call(concat(stem, suffix)), "(", arguments, ")");
}

std::string one(DType dtype) { return float_literal(dtype, 1.0); }

// Integer arithmetic that wraps: unsigned inside, since signed overflow is undefined in C.
std::string wrapping(DType dtype, const std::string& a, char op, const std::string& b) {
  if (dtype == DType::i64)
    return concat("(long long)((unsigned long long)", a, " ", op, " (unsigned long long)", b, ")");
  if (dtype == DType::i32) return concat("(int)((unsigned)", a, " ", op, " (unsigned)", b, ")");
  return concat(a, " ", op, " ", b);  // narrower types cannot overflow an int
}

std::string arithmetic(DType dtype, const std::string& a, char op, const std::string& b) {
  return is_float(dtype) ? concat(a, " ", op, " ", b) : wrapping(dtype, a, op, b);
}

// An i64 result of a prelude function, narrowed to the register type.
std::string narrowed(DType dtype, const std::string& text) {
  return dtype == DType::i64 ? text : concat("(int)", text);
}

std::string power(KernelWriter& writer, const Operation& operation, const std::string& x, const std::string& y) {
  const DType base = operation.operand(0)->type.dtype, exponent = operation.operand(1)->type.dtype;
  if (!is_float(base) && !is_float(exponent)) {
    return narrowed(base, prelude(writer, base, "rtx_pow", concat(x, ", ", y)));
  }
  if (base == DType::f64 || exponent == DType::f64 || !is_float(base)) {
    const std::string wide = concat("pow((double)", x, ", (double)", y, ")");
    return base == DType::f64 ? wide : cast_expression(writer, DType::f64, base, true, wide);
  }
  return concat("powf(", x, ", ", is_float(exponent) ? y : concat("(float)", y), ")");
}

}  // namespace

std::optional<std::string> scalar_expression(KernelWriter& writer, const Operation& operation,
                                             std::span<const std::string> operands) {
  const DType dtype = operation.result()->type.dtype;
  // Of the computation: the operands', which differs from the result's for comparisons.
  const DType in = operands.empty() ? dtype : operation.operand(0)->type.dtype;
  auto x = [&]() -> const std::string& { return operands[0]; };
  auto y = [&]() -> const std::string& { return operands[1]; };
  auto both = [&] { return concat(x(), ", ", y()); };
  std::string text;
  switch (operation.op) {
    case Op::neg:
      text = is_float(in) ? concat("-", x()) : wrapping(in, integer_literal(in, 0), '-', x());
      break;
    case Op::abs:
      text = is_float(in) ? math(in, "fabs", x())
                          : concat(x(), " < 0 ? ", wrapping(in, integer_literal(in, 0), '-', x()), " : ", x());
      break;
    case Op::sign:
      text = is_float(in) ? concat(x(), " > 0 ? ", one(in), " : ", x(), " < 0 ? -", one(in), " : ", x())
                          : concat("(", x(), " > 0) - (", x(), " < 0)");
      break;
    case Op::exp:
      text = math(in, "exp", x());
      break;
    case Op::log:
      text = math(in, "log", x());
      break;
    case Op::sqrt:
      text = math(in, "sqrt", x());
      break;
    case Op::rsqrt:
      text = concat(one(in), " / ", math(in, "sqrt", x()));
      break;
    case Op::reciprocal:
      text = concat(one(in), " / ", x());
      break;
    case Op::sin:
      text = math(in, "sin", x());
      break;
    case Op::cos:
      text = math(in, "cos", x());
      break;
    case Op::tan:
      text = math(in, "tan", x());
      break;
    case Op::asin:
      text = math(in, "asin", x());
      break;
    case Op::acos:
      text = math(in, "acos", x());
      break;
    case Op::atan:
      text = math(in, "atan", x());
      break;
    case Op::sinh:
      text = math(in, "sinh", x());
      break;
    case Op::cosh:
      text = math(in, "cosh", x());
      break;
    case Op::asinh:
      text = math(in, "asinh", x());
      break;
    case Op::acosh:
      text = math(in, "acosh", x());
      break;
    case Op::atanh:
      text = math(in, "atanh", x());
      break;
    case Op::tanh:
      text = math(in, "tanh", x());
      break;
    case Op::erf:
      text = math(in, "erf", x());
      break;
    case Op::sigmoid:
      text = prelude(writer, in, "rtx_sigmoid", x());
      break;
    case Op::relu:
      text = is_float(in) ? concat(x(), " > 0 || ", x(), " != ", x(), " ? ", x(), " : ", float_literal(in, 0))
                          : concat(x(), " > 0 ? ", x(), " : ", integer_literal(in, 0));
      break;
    case Op::floor:
      text = math(in, "floor", x());
      break;
    case Op::ceil:
      text = math(in, "ceil", x());
      break;
    case Op::round:
      text = math(in, "rint", x());
      break;
    case Op::logical_not:
      text = concat("!", x());
      break;
    case Op::bitwise_not:
      text = concat("~", x());
      break;
    case Op::is_nan:
      text = concat(x(), " != ", x());
      break;
    case Op::is_inf:
      text = concat(math(in, "fabs", x()), " == ", float_literal(in, std::numeric_limits<double>::infinity()));
      break;
    case Op::cast:
      return cast_expression(writer, in, dtype, operation.attributes.boolean("saturate"), x());
    case Op::add:
      text = arithmetic(in, x(), '+', y());
      break;
    case Op::sub:
      text = arithmetic(in, x(), '-', y());
      break;
    case Op::mul:
      text = arithmetic(in, x(), '*', y());
      break;
    case Op::div:
      text = is_float(in) ? concat(x(), " / ", y()) : narrowed(in, prelude(writer, in, "rtx_div", both()));
      break;
    case Op::pow:
      text = power(writer, operation, x(), y());
      break;
    case Op::mod:
      if (operation.attributes.boolean("truncated")) {
        text = is_float(in) ? math(in, "fmod", both()) : narrowed(in, prelude(writer, in, "rtx_mod_trunc", both()));
      } else {
        text = prelude(writer, in, "rtx_mod_floor", both());
        if (!is_float(in)) text = narrowed(in, text);
      }
      break;
    case Op::minimum:
      text = is_float(in) ? prelude(writer, in, "rtx_min", both()) : concat(x(), " < ", y(), " ? ", x(), " : ", y());
      break;
    case Op::maximum:
      text = is_float(in) ? prelude(writer, in, "rtx_max", both()) : concat(x(), " > ", y(), " ? ", x(), " : ", y());
      break;
    case Op::logical_and:
      text = concat(x(), " && ", y());
      break;
    case Op::logical_or:
      text = concat(x(), " || ", y());
      break;
    case Op::logical_xor:
      text = concat(x(), " != ", y());
      break;
    case Op::bitwise_and:
      text = concat(x(), " & ", y());
      break;
    case Op::bitwise_or:
      text = concat(x(), " | ", y());
      break;
    case Op::bitwise_xor:
      text = concat(x(), " ^ ", y());
      break;
    case Op::shift_left:
      text = narrowed(in, prelude(writer, in, "rtx_shift_left", both()));
      break;
    case Op::shift_right:
      text = narrowed(in, prelude(writer, in, "rtx_shift_right", both()));
      break;
    case Op::equal:
      text = concat(x(), " == ", y());
      break;
    case Op::less:
      text = concat(x(), " < ", y());
      break;
    case Op::less_equal:
      text = concat(x(), " <= ", y());
      break;
    case Op::select:
      return concat(x(), " ? ", y(), " : ", operands[2]);  // copies: nothing to round
    case Op::gelu:
      text =
          prelude(writer, in, operation.attributes.string("approximate") == "tanh" ? "rtx_gelu_tanh" : "rtx_gelu", x());
      break;
    case Op::silu:
      text = concat(x(), " * ", prelude(writer, in, "rtx_sigmoid", x()));
      break;

    case Op::constant:
    case Op::weight:
    case Op::dim_values:
    case Op::fusion:
    case Op::yield:
    case Op::reshape:
    case Op::transpose:
    case Op::broadcast:
    case Op::slice:
    case Op::concat:
    case Op::pad:
    case Op::iota:
    case Op::gather:
    case Op::gather_nd:
    case Op::gather_elements:
    case Op::scatter_nd:
    case Op::scatter_elements:
    case Op::reduce_sum:
    case Op::reduce_mean:
    case Op::reduce_max:
    case Op::reduce_min:
    case Op::reduce_prod:
    case Op::argmax:
    case Op::cumsum:
    case Op::topk:
    case Op::matmul:
    case Op::conv:
    case Op::softmax:
    case Op::log_softmax:
    case Op::layer_norm:
    case Op::rms_norm:
    case Op::quantize:
    case Op::dequantize:
    case Op::unpack_bits:
    case Op::attention:
    case Op::rope:
      return std::nullopt;
  }
  return round_expression(writer, dtype, text);
}

bool is_scalar_op(Op op) {
  const OpFamily family = spec(op).family;
  return family == OpFamily::elementwise || op == Op::gelu || op == Op::silu;
}

int flops_per_element(Op op) {
  switch (op) {
    case Op::exp:
    case Op::log:
    case Op::sin:
    case Op::cos:
    case Op::tan:
    case Op::asin:
    case Op::acos:
    case Op::atan:
    case Op::sinh:
    case Op::cosh:
    case Op::asinh:
    case Op::acosh:
    case Op::atanh:
    case Op::tanh:
    case Op::erf:
    case Op::sigmoid:
    case Op::pow:
    case Op::gelu:
    case Op::silu:
      return 8;
    case Op::rope:
      return 3;
    default:
      return is_scalar_op(op) ? 1 : 0;
  }
}

}  // namespace rtx::codegen
