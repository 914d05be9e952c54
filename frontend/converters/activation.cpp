// Activations, softmax and their relatives.

#include "frontend/converters/tables.h"

namespace rtx::onnx {
namespace {

// ---- Softmax

template <Op op>
Result<void> softmax(Conversion& c) {
  RTX_ASSIGN(int axis, c.axis(c.integer("axis", -1), c.rank(0)));
  RTX_ASSIGN(Value * x, c.input(0));
  RTX_ASSIGN(Value * y, c.emit(op, {x}, {{"axis", static_cast<int64_t>(axis)}}));
  c.set(0, y);
  return Ok{};
}

// Before opset 13: everything from `axis` on is one row (H34).
template <Op op>
Result<void> flattening_softmax(Conversion& c) {
  RTX_ASSIGN(int axis, c.axis(c.integer("axis", 1), c.rank(0)));
  RTX_ASSIGN(Value * x, c.input(0));
  Shape shape = x->type.shape;
  Value* y = x;
  if (axis + 1 < x->type.rank()) {
    Dim row = 1;
    for (int i = axis; i < x->type.rank(); ++i) row = row * shape[i];
    Shape flat(shape.begin(), shape.begin() + axis);
    flat.push_back(row);
    RTX_ASSIGN(y, c.reshape(y, std::move(flat)));
  }
  RTX_ASSIGN(y, c.emit(op, {y}, {{"axis", static_cast<int64_t>(axis)}}));
  RTX_ASSIGN(y, c.reshape(y, std::move(shape)));
  c.set(0, y);
  return Ok{};
}

// 1 at the first of the largest elements along the axis, 0 elsewhere.
Result<Value*> hardmax_of(Conversion& c, Value* x, int axis) {
  RTX_ASSIGN(Value * best, c.emit(Op::argmax, {x}, {{"axis", static_cast<int64_t>(axis)}, {"keepdims", true}}));
  RTX_ASSIGN(Value * place, c.iota(DType::i64, x->type.rank(), axis, x->type.shape[axis]));
  RTX_ASSIGN(Value * y, c.emit(Op::equal, {place, best}));
  return c.cast(y, x->type.dtype);
}

Result<void> hardmax(Conversion& c) {
  RTX_ASSIGN(int axis, c.axis(c.integer("axis", -1), c.rank(0)));
  RTX_ASSIGN(Value * x, c.input(0));
  RTX_ASSIGN(Value * y, hardmax_of(c, x, axis));
  c.set(0, y);
  return Ok{};
}

// Before opset 13, as Softmax.
Result<void> flattening_hardmax(Conversion& c) {
  RTX_ASSIGN(int axis, c.axis(c.integer("axis", 1), c.rank(0)));
  RTX_ASSIGN(Value * x, c.input(0));
  Shape shape = x->type.shape;
  Dim row = 1;
  for (int i = axis; i < x->type.rank(); ++i) row = row * shape[i];
  Shape flat(shape.begin(), shape.begin() + axis);
  flat.push_back(row);
  RTX_ASSIGN(Value * y, c.reshape(x, std::move(flat)));
  RTX_ASSIGN(y, hardmax_of(c, y, axis));
  RTX_ASSIGN(y, c.reshape(y, std::move(shape)));
  c.set(0, y);
  return Ok{};
}

// ---- Small compositions, on the value x. 16-bit floats stay in their type, as the operators' own definitions do.

Result<Value*> times(Conversion& c, Value* x, double factor) {
  if (factor == 1) return x;
  RTX_ASSIGN(Value * scale, c.scalar(x->type.dtype, factor));
  return c.emit(Op::mul, {x, scale});
}

Result<Value*> plus(Conversion& c, Value* x, double term) {
  RTX_ASSIGN(Value * constant, c.scalar(x->type.dtype, term));
  return c.emit(Op::add, {x, constant});
}

// x where x > 0, else `other`.
Result<Value*> where_positive(Conversion& c, Value* x, Value* other) {
  RTX_ASSIGN(Value * zero, c.scalar(x->type.dtype, 0));
  RTX_ASSIGN(Value * negative, c.emit(Op::less, {x, zero}));
  return c.emit(Op::select, {negative, other, x});
}

// x * sigmoid(alpha * x)
Result<Value*> swish_of(Conversion& c, Value* x, double alpha) {
  if (alpha == 1) return c.emit(Op::silu, {x});
  RTX_ASSIGN(Value * y, times(c, x, alpha));
  RTX_ASSIGN(y, c.emit(Op::sigmoid, {y}));
  return c.emit(Op::mul, {x, y});
}

// max(0, min(1, alpha * x + beta))
Result<Value*> hard_sigmoid_of(Conversion& c, Value* x, double alpha, double beta) {
  RTX_ASSIGN(Value * y, times(c, x, alpha));
  RTX_ASSIGN(y, plus(c, y, beta));
  RTX_ASSIGN(Value * one, c.scalar(x->type.dtype, 1));
  RTX_ASSIGN(y, c.emit(Op::minimum, {y, one}));
  return c.emit(Op::relu, {y});
}

// log(1 + exp(x)) = max(x, 0) + log(1 + exp(-|x|)): does not overflow.
Result<Value*> softplus_of(Conversion& c, Value* x) {
  RTX_ASSIGN(Value * y, c.emit(Op::abs, {x}));
  RTX_ASSIGN(y, c.emit(Op::neg, {y}));
  RTX_ASSIGN(y, c.emit(Op::exp, {y}));
  RTX_ASSIGN(y, plus(c, y, 1));
  RTX_ASSIGN(y, c.emit(Op::log, {y}));
  RTX_ASSIGN(Value * positive, c.emit(Op::relu, {x}));
  return c.emit(Op::add, {positive, y});
}

// x where positive, else alpha * (exp(x / scale) - 1)
Result<Value*> elu_of(Conversion& c, Value* x, double alpha, double scale) {
  RTX_ASSIGN(Value * y, times(c, x, 1 / scale));
  RTX_ASSIGN(y, c.emit(Op::exp, {y}));
  RTX_ASSIGN(y, plus(c, y, -1));
  RTX_ASSIGN(y, times(c, y, alpha));
  return where_positive(c, x, y);
}

using Activation = Result<Value*> (*)(Conversion&, Value*);

template <Activation activation>
Result<void> applied(Conversion& c) {
  RTX_ASSIGN(Value * x, c.input(0));
  RTX_ASSIGN(Value * y, activation(c, x));
  c.set(0, y);
  return Ok{};
}

Result<Value*> gelu(Conversion& c, Value* x) {
  std::string form = c.string("approximate", "none");
  if (form != "none" && form != "tanh")
    return c.invalid("E321", concat("approximate '", escape_text(form), "' of Gelu"));
  return c.emit(Op::gelu, {x}, {{"approximate", form}});
}

// swish of the gate, input 0, times input 1; nothing is broadcast.
Result<Value*> swiglu(Conversion& c, Value* x) {
  RTX_ASSIGN(Value * linear, c.input(1));
  bool same = x->type.rank() == linear->type.rank();
  for (size_t i = 0; same && i < x->type.shape.size(); ++i)
    same = x->type.shape[i] == linear->type.shape[i] || c.unify(x->type.shape[i], linear->type.shape[i]);
  if (!same)
    return c.invalid("E327", "the inputs must have one shape")
        .with_got(concat(x->type.str(), " and ", linear->type.str()));
  RTX_ASSIGN(Value * y, swish_of(c, x, c.real("alpha", 1)));
  return c.emit(Op::mul, {y, linear});
}

// input + bias + skip
Result<Value*> bias_add(Conversion& c, Value* x) {
  RTX_ASSIGN(Value * bias, c.input(1));
  RTX_ASSIGN(Value * skip, c.input(2));
  RTX_ASSIGN(x, c.emit(Op::add, {x, bias}));
  return c.emit(Op::add, {x, skip});
}

// com.microsoft: the bias, input 1, is optional and added first.
template <bool tanh_form>
Result<Value*> biased_gelu(Conversion& c, Value* x) {
  if (c.has(1)) {
    RTX_ASSIGN(Value * bias, c.input(1));
    RTX_ASSIGN(x, c.emit(Op::add, {x, bias}));
  }
  return c.emit(Op::gelu, {x}, {{"approximate", std::string(tanh_form ? "tanh" : "none")}});
}

// The left half times the exact gelu of the right half, after the bias.
Result<Value*> bias_split_gelu(Conversion& c, Value* x) {
  RTX_ASSIGN(Value * bias, c.input(1));
  RTX_ASSIGN(x, c.emit(Op::add, {x, bias}));
  int axis = x->type.rank() - 1;
  auto half = axis >= 0 ? x->type.shape[axis].divided_by(2) : std::nullopt;
  if (!half) return c.invalid("E327", "the last axis must be even").with_got(x->type.str());
  RTX_ASSIGN(Value * left, c.slice(x, axis, 0, *half));
  RTX_ASSIGN(Value * right, c.slice(x, axis, *half, *half));
  RTX_ASSIGN(right, c.emit(Op::gelu, {right}));
  return c.emit(Op::mul, {left, right});
}

Result<Value*> quick_gelu(Conversion& c, Value* x) { return swish_of(c, x, c.real("alpha", 1.702f)); }
Result<Value*> swish(Conversion& c, Value* x) { return swish_of(c, x, c.real("alpha", 1)); }

Result<Value*> hard_swish(Conversion& c, Value* x) {
  RTX_ASSIGN(Value * y, hard_sigmoid_of(c, x, 1.0 / 6, 0.5));
  return c.emit(Op::mul, {x, y});
}

Result<Value*> hard_sigmoid(Conversion& c, Value* x) {
  return hard_sigmoid_of(c, x, c.real("alpha", 0.2f), c.real("beta", 0.5f));
}

Result<Value*> leaky_relu(Conversion& c, Value* x) {
  RTX_ASSIGN(Value * y, times(c, x, c.real("alpha", 0.01f)));
  return where_positive(c, x, y);
}

Result<Value*> prelu(Conversion& c, Value* x) {
  RTX_ASSIGN(Value * slope, c.input(1));
  RTX_ASSIGN(Value * y, c.emit(Op::mul, {x, slope}));
  return where_positive(c, x, y);
}

Result<Value*> elu(Conversion& c, Value* x) { return elu_of(c, x, c.real("alpha", 1), 1); }

Result<Value*> selu(Conversion& c, Value* x) {
  RTX_ASSIGN(Value * y, elu_of(c, x, c.real("alpha", 1.67326319217681884765625), 1));
  return times(c, y, c.real("gamma", 1.05070102214813232421875));
}

Result<Value*> celu(Conversion& c, Value* x) {
  double alpha = c.real("alpha", 1);
  if (alpha == 0) return c.invalid("E321", "alpha = 0 of Celu");
  return elu_of(c, x, alpha, alpha);
}

Result<Value*> softsign(Conversion& c, Value* x) {
  RTX_ASSIGN(Value * y, c.emit(Op::abs, {x}));
  RTX_ASSIGN(y, plus(c, y, 1));
  return c.emit(Op::div, {x, y});
}

Result<Value*> mish(Conversion& c, Value* x) {
  RTX_ASSIGN(Value * y, softplus_of(c, x));
  RTX_ASSIGN(y, c.emit(Op::tanh, {y}));
  return c.emit(Op::mul, {x, y});
}

Result<Value*> thresholded_relu(Conversion& c, Value* x) {
  RTX_ASSIGN(Value * threshold, c.scalar(x->type.dtype, c.real("alpha", 1)));
  RTX_ASSIGN(Value * above, c.emit(Op::less, {threshold, x}));
  RTX_ASSIGN(Value * zero, c.scalar(x->type.dtype, 0));
  return c.emit(Op::select, {above, x, zero});
}

// x + bias below -lambd, x - bias above lambd, 0 between.
Result<Value*> shrink(Conversion& c, Value* x) {
  DType dtype = x->type.dtype, wide = is_float(dtype) ? dtype : DType::f64;  // the attributes are fractions
  double bound = c.real("lambd", 0.5), bias = c.real("bias", 0);
  RTX_ASSIGN(Value * wide_x, c.cast(x, wide));
  RTX_ASSIGN(Value * low, c.scalar(wide, -bound));
  RTX_ASSIGN(Value * high, c.scalar(wide, bound));
  RTX_ASSIGN(Value * below, c.emit(Op::less, {wide_x, low}));
  RTX_ASSIGN(Value * above, c.emit(Op::less, {high, wide_x}));
  RTX_ASSIGN(Value * raised, plus(c, wide_x, bias));
  RTX_ASSIGN(Value * lowered, plus(c, wide_x, -bias));
  RTX_ASSIGN(Value * zero, c.scalar(wide, 0));
  RTX_ASSIGN(Value * y, c.emit(Op::select, {above, lowered, zero}));
  RTX_ASSIGN(y, c.emit(Op::select, {below, raised, y}));
  return c.cast(y, dtype);
}

constexpr std::string_view microsoft = "com.microsoft";

}  // namespace

constinit const Converter activation_converters[] = {
    {"Softmax", 1, flattening_softmax<Op::softmax>, never, "axis"},
    {"Softmax", 13, softmax<Op::softmax>, never, "axis"},
    {"LogSoftmax", 1, flattening_softmax<Op::log_softmax>, never, "axis"},
    {"LogSoftmax", 13, softmax<Op::log_softmax>, never, "axis"},
    {"Hardmax", 1, flattening_hardmax, never, "axis"},
    {"Hardmax", 13, hardmax, never, "axis"},
    {"Shrink", 9, applied<shrink>, never, "bias lambd"},
    {"Gelu", 20, applied<gelu>, never, "approximate"},
    {"Swish", 24, applied<swish>, never, "alpha"},
    {"SwiGLU", 28, applied<swiglu>, never, "alpha", 2, 2},
    {"HardSwish", 14, applied<hard_swish>, never},
    {"HardSigmoid", 6, applied<hard_sigmoid>, never, "alpha beta"},
    {"LeakyRelu", 6, applied<leaky_relu>, never, "alpha"},
    {"PRelu", 7, applied<prelu>, never, "", 2, 2},
    {"Elu", 6, applied<elu>, never, "alpha"},
    {"Selu", 6, applied<selu>, never, "alpha gamma"},
    {"Celu", 12, applied<celu>, never, "alpha"},
    {"Softplus", 1, applied<softplus_of>, never},
    {"Softsign", 1, applied<softsign>, never},
    {"Mish", 18, applied<mish>, never},
    {"ThresholdedRelu", 10, applied<thresholded_relu>, never, "alpha"},
    {"Gelu", 1, applied<biased_gelu<false>>, never, "", 1, 1, microsoft},
    {"BiasGelu", 1, applied<biased_gelu<false>>, never, "", 2, 2, microsoft},
    {"FastGelu", 1, applied<biased_gelu<true>>, never, "", 1, 2, microsoft},
    {"BiasSplitGelu", 1, applied<bias_split_gelu>, never, "", 2, 2, microsoft},
    {"BiasAdd", 1, applied<bias_add>, never, "", 3, 3, microsoft},
    {"QuickGelu", 1, applied<quick_gelu>, never, "alpha", 1, 1, microsoft},
};
std::span<const Converter> activation_table() { return activation_converters; }

}  // namespace rtx::onnx
