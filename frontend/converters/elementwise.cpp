// Elementwise operators with a counterpart in the IR, and those that are a few of them.

#include <cmath>
#include <limits>

#include "frontend/converters/tables.h"
#include "frontend/onnx_types.h"

namespace rtx::onnx {
namespace {

template <Op op>
Result<void> unary(Conversion& c) {
  RTX_ASSIGN(Value * x, c.input(0));
  RTX_ASSIGN(Value * y, c.emit(op, {x}));
  c.set(0, y);
  return Ok{};
}

template <Op op>
Result<void> binary(Conversion& c) {
  RTX_ASSIGN(Value * a, c.input(0));
  RTX_ASSIGN(Value * b, c.input(1));
  RTX_ASSIGN(Value * y, c.emit(op, {a, b}));
  c.set(0, y);
  return Ok{};
}

// Greater is Less with the operands swapped (NaN compares false either way).
template <Op op>
Result<void> swapped(Conversion& c) {
  RTX_ASSIGN(Value * a, c.input(0));
  RTX_ASSIGN(Value * b, c.input(1));
  RTX_ASSIGN(Value * y, c.emit(op, {b, a}));
  c.set(0, y);
  return Ok{};
}

template <Op op>
Result<Value*> combined(Conversion& c) {
  RTX_ASSIGN(Value * result, c.input(0));
  for (size_t i = 1; i < c.input_count(); ++i) {
    RTX_ASSIGN(Value * next, c.input(i));
    RTX_ASSIGN(result, c.emit(op, {result, next}));
  }
  return result;
}

template <Op op>
Result<void> variadic(Conversion& c) {
  if (c.input_count() == 1) {
    c.alias(0, 0);
    return Ok{};
  }
  RTX_ASSIGN(Value * result, combined<op>(c));
  c.set(0, result);
  return Ok{};
}

Result<void> mean(Conversion& c) {
  RTX_ASSIGN(Value * sum, combined<Op::add>(c));
  RTX_ASSIGN(Value * count, c.scalar(sum->type.dtype, static_cast<double>(c.input_count())));
  RTX_ASSIGN(Value * result, c.emit(Op::div, {sum, count}));
  c.set(0, result);
  return Ok{};
}

// Floor, Ceil and Round of integers do not exist in ONNX; the IR's take floats only, as ONNX's do.

Result<void> mod(Conversion& c) {
  bool truncated = c.integer("fmod", 0) != 0;
  if (!truncated && is_float(c.type(0).dtype) && c.node().opset < 28)
    return c.invalid("E321", "Mod of floats needs fmod = 1");
  RTX_ASSIGN(Value * a, c.input(0));
  RTX_ASSIGN(Value * b, c.input(1));
  RTX_ASSIGN(Value * y, c.emit(Op::mod, {a, b}, {{"truncated", truncated}}));
  c.set(0, y);
  return Ok{};
}

Result<void> bit_shift(Conversion& c) {
  std::string direction = c.string("direction", "");
  if (direction != "LEFT" && direction != "RIGHT")
    return c.invalid("E321", concat("attribute direction is '", escape_text(direction), "'"))
        .with_expected("LEFT or RIGHT");
  RTX_ASSIGN(Value * x, c.input(0));
  RTX_ASSIGN(Value * amount, c.input(1));
  RTX_ASSIGN(Value * y, c.emit(direction == "LEFT" ? Op::shift_left : Op::shift_right, {x, amount}));
  c.set(0, y);
  return Ok{};
}

// min(max(x, low), high): NaN stays, and low > high gives high, as the specification says.
Result<void> clip(Conversion& c, Value* low, Value* high) {
  RTX_ASSIGN(Value * x, c.input(0));
  Value* y = x;
  if (low) {
    RTX_ASSIGN(y, c.emit(Op::maximum, {y, low}));
  }
  if (high) {
    RTX_ASSIGN(y, c.emit(Op::minimum, {y, high}));
  }
  if (y == x)
    c.alias(0, 0);
  else
    c.set(0, y);
  return Ok{};
}

Result<void> clip_6(Conversion& c) {
  Value *low = nullptr, *high = nullptr;
  if (c.has_attribute("min")) {
    RTX_ASSIGN(low, c.scalar(c.type(0).dtype, c.real("min", 0)));
  }
  if (c.has_attribute("max")) {
    RTX_ASSIGN(high, c.scalar(c.type(0).dtype, c.real("max", 0)));
  }
  return clip(c, low, high);
}

Result<Value*> clip_bound(Conversion& c, size_t index) {
  if (!c.has(index)) return static_cast<Value*>(nullptr);
  // Exporters before opset 13 write an empty tensor for "not given".
  const Shape& shape = c.type(index).shape;
  if (shape.size() == 1 && shape[0].is(0)) return static_cast<Value*>(nullptr);
  RTX_ASSIGN(Value * bound, c.input(index));
  return c.reshape(bound, {});
}

Result<void> clip_11(Conversion& c) {
  RTX_ASSIGN(Value * low, clip_bound(c, 1));
  RTX_ASSIGN(Value * high, clip_bound(c, 2));
  return clip(c, low, high);
}

Result<void> where(Conversion& c) {
  RTX_ASSIGN(Value * condition, c.input(0));
  RTX_ASSIGN(Value * if_true, c.input(1));
  RTX_ASSIGN(Value * if_false, c.input(2));
  RTX_ASSIGN(Value * y, c.emit(Op::select, {condition, if_true, if_false}));
  c.set(0, y);
  return Ok{};
}

Result<void> is_inf(Conversion& c) {
  bool negative = c.integer("detect_negative", 1) != 0, positive = c.integer("detect_positive", 1) != 0;
  RTX_ASSIGN(Value * x, c.input(0));
  RTX_ASSIGN(Value * y, c.emit(Op::is_inf, {x}));
  if (!negative || !positive) {
    RTX_ASSIGN(Value * zero, c.scalar(x->type.dtype, 0));
    Value* wanted = nullptr;
    if (negative == positive) {
      RTX_ASSIGN(wanted, c.scalar(DType::boolean, 0));
    } else if (positive) {
      RTX_ASSIGN(wanted, c.emit(Op::less, {zero, x}));
    } else {
      RTX_ASSIGN(wanted, c.emit(Op::less, {x, zero}));
    }
    RTX_ASSIGN(y, c.emit(Op::logical_and, {y, wanted}));
  }
  c.set(0, y);
  return Ok{};
}

Result<void> cast_to(Conversion& c, DType dtype) {
  bool saturate = c.integer("saturate", 1) != 0;
  if (c.type(0).dtype == dtype) {
    c.alias(0, 0);
    return Ok{};
  }
  RTX_ASSIGN(Value * x, c.input(0));
  RTX_ASSIGN(Value * y, c.cast(x, dtype, saturate));
  c.set(0, y);
  return Ok{};
}

Result<void> cast(Conversion& c) {
  int64_t number = c.integer("to", 0);
  auto dtype = dtype_of(number);
  if (dtype) return cast_to(c, *dtype);
  const OnnxType* type = find_onnx_type(number);
  if (!type) return c.invalid("E321", concat("cast to element type ", number, ", which does not exist"));
  return c.unsupported(concat("cast to ", type->name));
}

Result<void> cast_like(Conversion& c) { return cast_to(c, c.type(1).dtype); }

Result<void> pass_through(Conversion& c) {
  c.alias(0, 0);
  return Ok{};
}

Result<void> all_true_mask(Conversion& c) {
  if (!c.wants(1)) return Ok{};
  RTX_ASSIGN(Value * yes, c.scalar(DType::boolean, 1));
  RTX_ASSIGN(Value * mask, c.broadcast(yes, c.type(0).shape));
  c.set(1, mask);
  return Ok{};
}

// Inference: the input, and a mask that keeps everything.
Result<void> dropout_7(Conversion& c) {
  c.alias(0, 0);
  return all_true_mask(c);
}

Result<void> dropout_12(Conversion& c) {
  if (c.has(2)) {
    RTX_ASSIGN(Tensor training, c.constant_input(2));
    if (training.element_count() != 1 || training.i64(0) != 0) return c.unsupported("training mode");
  }
  return dropout_7(c);
}

constexpr SymbolicRule none = never;

}  // namespace

// Versions that differ only in element types share a row. Before opset 7 the binary operators had axis and broadcast
// attributes: refused.
constinit const Converter elementwise_converters[] = {
    {"Neg", 1, unary<Op::neg>, elementwise(symbolic_neg), "consumed_inputs"},
    {"Abs", 1, unary<Op::abs>, elementwise(symbolic_abs), "consumed_inputs"},
    {"Sign", 9, unary<Op::sign>, elementwise(symbolic_sign)},
    {"Sqrt", 1, unary<Op::sqrt>, fold, "consumed_inputs"},
    {"Reciprocal", 1, unary<Op::reciprocal>, fold, "consumed_inputs"},
    {"Exp", 1, unary<Op::exp>, fold, "consumed_inputs"},
    {"Log", 1, unary<Op::log>, fold, "consumed_inputs"},
    {"Sin", 7, unary<Op::sin>, fold},
    {"Cos", 7, unary<Op::cos>, fold},
    {"Tan", 7, unary<Op::tan>, fold},
    {"Asin", 7, unary<Op::asin>, fold},
    {"Acos", 7, unary<Op::acos>, fold},
    {"Atan", 7, unary<Op::atan>, fold},
    {"Sinh", 9, unary<Op::sinh>, fold},
    {"Cosh", 9, unary<Op::cosh>, fold},
    {"Asinh", 9, unary<Op::asinh>, fold},
    {"Acosh", 9, unary<Op::acosh>, fold},
    {"Atanh", 9, unary<Op::atanh>, fold},
    {"Tanh", 1, unary<Op::tanh>, fold, "consumed_inputs"},
    {"Erf", 9, unary<Op::erf>, fold},
    {"Sigmoid", 1, unary<Op::sigmoid>, fold, "consumed_inputs"},
    {"Relu", 1, unary<Op::relu>, fold, "consumed_inputs"},
    {"Floor", 1, unary<Op::floor>, elementwise(symbolic_identity), "consumed_inputs"},
    {"Ceil", 1, unary<Op::ceil>, elementwise(symbolic_identity), "consumed_inputs"},
    {"Round", 11, unary<Op::round>, elementwise(symbolic_identity)},
    {"Not", 1, unary<Op::logical_not>, predicate(symbolic_not)},
    {"BitwiseNot", 18, unary<Op::bitwise_not>, fold},
    {"IsNaN", 9, unary<Op::is_nan>, fold},
    {"IsInf", 10, is_inf, fold, "detect_negative detect_positive"},

    {"Add", 7, binary<Op::add>, elementwise(symbolic_add), "", 2, 2},
    {"Sub", 7, binary<Op::sub>, elementwise(symbolic_sub), "", 2, 2},
    {"Mul", 7, binary<Op::mul>, elementwise(symbolic_mul), "", 2, 2},
    {"Div", 7, binary<Op::div>, elementwise(symbolic_div), "", 2, 2},
    {"Mod", 10, mod, elementwise(symbolic_mod), "fmod", 2, 2},
    {"Pow", 7, binary<Op::pow>, fold, "", 2, 2},
    {"And", 7, binary<Op::logical_and>, predicate(symbolic_and), "", 2, 2},
    {"Or", 7, binary<Op::logical_or>, predicate(symbolic_or), "", 2, 2},
    {"Xor", 7, binary<Op::logical_xor>, fold, "", 2, 2},
    {"BitwiseAnd", 18, binary<Op::bitwise_and>, fold, "", 2, 2},
    {"BitwiseOr", 18, binary<Op::bitwise_or>, fold, "", 2, 2},
    {"BitwiseXor", 18, binary<Op::bitwise_xor>, fold, "", 2, 2},
    {"BitShift", 11, bit_shift, fold, "direction", 2, 2},
    {"Equal", 7, binary<Op::equal>, predicate(symbolic_equal), "", 2, 2},
    {"Less", 7, binary<Op::less>, predicate(symbolic_less), "", 2, 2},
    {"LessOrEqual", 12, binary<Op::less_equal>, predicate(symbolic_less_equal), "", 2, 2},
    {"Greater", 7, swapped<Op::less>, predicate(symbolic_greater), "", 2, 2},
    {"GreaterOrEqual", 12, swapped<Op::less_equal>, predicate(symbolic_greater_equal), "", 2, 2},

    {"Min", 1, variadic<Op::minimum>, elementwise(symbolic_min), "consumed_inputs", 1, any_number},
    {"Min", 6, variadic<Op::minimum>, elementwise(symbolic_min), "", 1, any_number},
    {"Max", 1, variadic<Op::maximum>, elementwise(symbolic_max), "consumed_inputs", 1, any_number},
    {"Max", 6, variadic<Op::maximum>, elementwise(symbolic_max), "", 1, any_number},
    {"Sum", 1, variadic<Op::add>, fold, "consumed_inputs", 1, any_number},
    {"Sum", 6, variadic<Op::add>, fold, "", 1, any_number},
    {"Mean", 1, mean, fold, "consumed_inputs", 1, any_number},
    {"Mean", 6, mean, fold, "", 1, any_number},
    {"Clip", 6, clip_6, fold, "min max"},
    {"Clip", 11, clip_11, elementwise(symbolic_clip), "", 1, 3},
    {"Where", 9, where, elementwise(symbolic_where), "", 3, 3},

    {"Cast", 6, cast, elementwise(symbolic_cast), "to"},
    {"Cast", 19, cast, elementwise(symbolic_cast), "to saturate"},
    {"Cast", 24, cast, elementwise(symbolic_cast), "to saturate round_mode"},
    {"CastLike", 15, cast_like, fold, "", 2, 2},
    {"CastLike", 19, cast_like, fold, "saturate", 2, 2},
    {"CastLike", 24, cast_like, fold, "saturate round_mode", 2, 2},
    {"Identity", 1, pass_through, none, "", 1, 1, "", 1, 0, true},
    {"Dropout", 7, dropout_7, none, "ratio", 1, 1, "", 2},
    {"Dropout", 12, dropout_12, none, "seed", 1, 3, "", 2},
};
std::span<const Converter> elementwise_table() { return elementwise_converters; }

}  // namespace rtx::onnx
