#include "ir/ops/composite_expansion.h"

#include <cmath>

namespace rtx {
namespace {

class Expansion {
 public:
  Expansion(const Operation& root, Builder& builder) : root_(root), builder_(builder) {
    const DType dtype = root.result()->type.dtype;
    wide_ = dtype == DType::f64 ? DType::f64 : DType::f32;
  }

  Result<Value*> operand(size_t index) { return cast(root_.operand(index), wide_); }
  Result<Value*> result(Value* value) { return cast(value, root_.result()->type.dtype); }
  Result<Value*> make(Op op, std::vector<Value*> operands) { return builder_.value(op, std::move(operands)); }
  Result<Value*> number(double value) { return builder_.constant(Tensor::scalar(wide_, value)); }
  Result<Value*> with(Op op, Value* x, double value) {
    RTX_ASSIGN(Value * constant, number(value));
    return make(op, {x, constant});
  }

  // The reduction over axes [first, end), which keep a length of 1.
  Result<Value*> reduced(Op op, Value* x, size_t first, size_t end) {
    std::vector<int64_t> axes;
    Shape shape = x->type.shape;
    for (size_t axis = first; axis < end; ++axis) {
      axes.push_back(static_cast<int64_t>(axis));
      shape[axis] = 1;
    }
    RTX_ASSIGN(Value * value, builder_.value(op, {x}, {{"axes", std::move(axes)}}));
    return builder_.value(Op::reshape, {value}, {{"shape", std::move(shape)}});
  }

  Result<Value*> softmax(bool logarithm) {
    const size_t axis = static_cast<size_t>(root_.attributes.integer("axis"));
    RTX_ASSIGN(Value * x, operand(0));
    RTX_ASSIGN(Value * top, reduced(Op::reduce_max, x, axis, axis + 1));
    RTX_ASSIGN(x, make(Op::sub, {x, top}));
    RTX_ASSIGN(Value * power, make(Op::exp, {x}));
    RTX_ASSIGN(Value * sum, reduced(Op::reduce_sum, power, axis, axis + 1));
    if (!logarithm) {
      RTX_ASSIGN(Value * y, make(Op::div, {power, sum}));
      return result(y);
    }
    RTX_ASSIGN(sum, make(Op::log, {sum}));
    RTX_ASSIGN(Value * y, make(Op::sub, {x, sum}));
    return result(y);
  }

  Result<Value*> norm(bool subtract_mean) {
    const size_t axis = static_cast<size_t>(root_.attributes.integer("axis")), rank = root_.result()->type.shape.size();
    RTX_ASSIGN(Value * x, operand(0));
    if (subtract_mean) {
      RTX_ASSIGN(Value * mean, reduced(Op::reduce_mean, x, axis, rank));
      RTX_ASSIGN(x, make(Op::sub, {x, mean}));
    }
    RTX_ASSIGN(Value * square, make(Op::mul, {x, x}));
    RTX_ASSIGN(Value * variance, reduced(Op::reduce_mean, square, axis, rank));
    RTX_ASSIGN(variance, with(Op::add, variance, root_.attributes.real("epsilon")));
    RTX_ASSIGN(Value * deviation, make(Op::sqrt, {variance}));
    RTX_ASSIGN(Value * y, make(Op::div, {x, deviation}));
    RTX_ASSIGN(Value * scale, operand(1));
    RTX_ASSIGN(y, make(Op::mul, {y, scale}));
    if (root_.operand_count() > 2) {
      RTX_ASSIGN(Value * bias, operand(2));
      RTX_ASSIGN(y, make(Op::add, {y, bias}));
    }
    return result(y);
  }

  // Hendrycks and Gimpel, Gaussian Error Linear Units, section 2: sqrt(2 / pi) and 0.044715.
  Result<Value*> gelu() {
    RTX_ASSIGN(Value * x, operand(0));
    Value* inner = x;
    Op function = Op::erf;
    if (root_.attributes.string("approximate") == "tanh") {
      function = Op::tanh;
      RTX_ASSIGN(Value * cube, make(Op::mul, {x, x}));
      RTX_ASSIGN(cube, make(Op::mul, {cube, x}));
      RTX_ASSIGN(cube, with(Op::mul, cube, 0.044715));
      RTX_ASSIGN(inner, make(Op::add, {x, cube}));
      RTX_ASSIGN(inner, with(Op::mul, inner, std::sqrt(2 / M_PI)));
    } else {
      RTX_ASSIGN(inner, with(Op::mul, inner, M_SQRT1_2));
    }
    RTX_ASSIGN(Value * y, make(function, {inner}));
    RTX_ASSIGN(y, with(Op::add, y, 1));
    RTX_ASSIGN(y, make(Op::mul, {x, y}));
    RTX_ASSIGN(y, with(Op::mul, y, 0.5));
    return result(y);
  }

  Result<Value*> silu() {
    RTX_ASSIGN(Value * x, operand(0));
    RTX_ASSIGN(Value * y, make(Op::neg, {x}));
    RTX_ASSIGN(y, make(Op::exp, {y}));
    RTX_ASSIGN(y, with(Op::add, y, 1));
    RTX_ASSIGN(y, make(Op::div, {x, y}));
    return result(y);
  }

 private:
  Result<Value*> cast(Value* value, DType dtype) {
    if (value->type.dtype == dtype) return value;
    return builder_.value(Op::cast, {value}, {{"to", dtype}});
  }

  const Operation& root_;
  Builder& builder_;
  DType wide_;
};

}  // namespace

Result<Value*> expand_softmax(const Operation& operation, Builder& builder) {
  return Expansion(operation, builder).softmax(false);
}
Result<Value*> expand_log_softmax(const Operation& operation, Builder& builder) {
  return Expansion(operation, builder).softmax(true);
}
Result<Value*> expand_layer_norm(const Operation& operation, Builder& builder) {
  return Expansion(operation, builder).norm(true);
}
Result<Value*> expand_rms_norm(const Operation& operation, Builder& builder) {
  return Expansion(operation, builder).norm(false);
}
Result<Value*> expand_gelu(const Operation& operation, Builder& builder) {
  return Expansion(operation, builder).gelu();
}
Result<Value*> expand_silu(const Operation& operation, Builder& builder) {
  return Expansion(operation, builder).silu();
}

}  // namespace rtx
