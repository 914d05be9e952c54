// Reductions along axes.

#include <algorithm>
#include <numeric>

#include "frontend/converters/tables.h"

namespace rtx::onnx {
namespace {

// The axes to reduce; none at all means "leave the tensor alone" (noop_with_empty_axes).
struct Axes {
  std::vector<int64_t> list;
  bool noop = false;
};

// An attribute in the older version of each operator, an input in the newer one.
Result<Axes> reduced_axes(Conversion& c) {
  std::vector<int64_t> given = c.integer_list("axes").value_or(std::vector<int64_t>{});
  if (c.has(1)) {
    RTX_ASSIGN(given, c.integers(1));
  }
  int rank = c.rank(0);
  if (given.empty()) {
    if (c.integer("noop_with_empty_axes", 0) != 0) return Axes{{}, true};
    given.resize(rank);
    std::iota(given.begin(), given.end(), 0);
  }
  RTX_ASSIGN(given, c.axes(std::move(given), rank));
  return Axes{std::move(given), false};
}

bool is_16_bit(DType dtype) { return dtype == DType::f16 || dtype == DType::bf16; }

using Step = Result<Value*> (*)(Conversion&, Value*);

// before -> reduce -> after. With an elementwise step, 16-bit floats are computed in f32: a square leaves f16 at 256.
Result<void> reduce_with(Conversion& c, Op op, Step before, Step after) {
  RTX_ASSIGN(Axes axes, reduced_axes(c));
  bool keepdims = c.integer("keepdims", 1) != 0;
  RTX_ASSIGN(Value * x, c.input(0));
  DType dtype = x->type.dtype;
  Value* y = x;
  if ((before || after) && is_16_bit(dtype)) {
    RTX_ASSIGN(y, c.cast(y, DType::f32));
  }
  if (dtype == DType::boolean) {
    RTX_ASSIGN(y, c.cast(y, DType::u8));  // the extremes over no elements are then false and true
  }
  if (before) {
    RTX_ASSIGN(y, before(c, y));
  }
  if (!axes.noop && !axes.list.empty()) {
    RTX_ASSIGN(y, c.reduce(op, y, axes.list, keepdims));
  }
  if (after) {
    RTX_ASSIGN(y, after(c, y));
  }
  RTX_ASSIGN(y, c.cast(y, dtype));
  if (y == x)
    c.alias(0, 0);
  else
    c.set(0, y);
  return Ok{};
}

Result<Value*> square(Conversion& c, Value* x) { return c.emit(Op::mul, {x, x}); }

template <Op op>
Result<Value*> apply_op(Conversion& c, Value* x) {
  return c.emit(op, {x});
}

// Of integers in f64, cut to an integer again.
template <Op op>
Result<Value*> in_floats(Conversion& c, Value* x) {
  DType dtype = x->type.dtype;
  RTX_ASSIGN(Value * y, c.cast(x, is_float(dtype) ? dtype : DType::f64));
  RTX_ASSIGN(y, c.emit(op, {y}));
  return c.cast(y, dtype);
}

template <Op op>
Result<void> plain(Conversion& c) {
  return reduce_with(c, op, nullptr, nullptr);
}
template <Op op, Step before, Step after>
Result<void> composed(Conversion& c) {
  return reduce_with(c, op, before, after);
}

// log(sum(exp(x))) with the maximum taken out. An infinite maximum is left in: inf - inf would be NaN.
Result<void> log_sum_exp(Conversion& c) {
  RTX_ASSIGN(Axes axes, reduced_axes(c));
  RTX_ASSIGN(Value * x, c.input(0));
  DType dtype = x->type.dtype;
  if (axes.noop || axes.list.empty()) {
    c.alias(0, 0);
    return Ok{};
  }
  if (!is_float(dtype) || is_16_bit(dtype)) {
    RTX_ASSIGN(x, c.cast(x, is_float(dtype) ? DType::f32 : DType::f64));
  }
  RTX_ASSIGN(Value * largest, c.reduce(Op::reduce_max, x, axes.list, true));
  RTX_ASSIGN(Value * infinite, c.emit(Op::is_inf, {largest}));
  RTX_ASSIGN(Value * zero, c.scalar(largest->type.dtype, 0));
  RTX_ASSIGN(largest, c.emit(Op::select, {infinite, zero, largest}));
  RTX_ASSIGN(Value * y, c.emit(Op::sub, {x, largest}));
  RTX_ASSIGN(y, c.emit(Op::exp, {y}));
  RTX_ASSIGN(y, c.reduce(Op::reduce_sum, y, axes.list, true));
  RTX_ASSIGN(y, c.emit(Op::log, {y}));
  RTX_ASSIGN(y, c.emit(Op::add, {y, largest}));
  if (c.integer("keepdims", 1) == 0) {
    Shape shape;
    for (int i = 0; i < y->type.rank(); ++i)
      if (std::find(axes.list.begin(), axes.list.end(), i) == axes.list.end()) shape.push_back(y->type.shape[i]);
    RTX_ASSIGN(y, c.reshape(y, std::move(shape)));
  }
  RTX_ASSIGN(y, c.cast(y, dtype));
  c.set(0, y);
  return Ok{};
}

Result<void> arg_extreme(Conversion& c, bool smallest) {
  RTX_ASSIGN(int axis, c.axis(c.integer("axis", 0), c.rank(0)));
  bool keepdims = c.integer("keepdims", 1) != 0, last = c.integer("select_last_index", 0) != 0;
  RTX_ASSIGN(Value * x, c.input(0));
  if (smallest) {
    if (!is_float(x->type.dtype) && x->type.dtype != DType::i64) {
      RTX_ASSIGN(x, c.cast(x, DType::i64));  // -x of the lowest integer or of an unsigned one would wrap
    }
    RTX_ASSIGN(x, c.emit(Op::neg, {x}));
  }
  RTX_ASSIGN(Value * y, c.emit(Op::argmax, {x},
                               {{"axis", static_cast<int64_t>(axis)}, {"keepdims", keepdims}, {"select_last", last}}));
  c.set(0, y);
  return Ok{};
}

Result<void> arg_max(Conversion& c) { return arg_extreme(c, false); }
Result<void> arg_min(Conversion& c) { return arg_extreme(c, true); }

Result<void> cumsum(Conversion& c) {
  RTX_ASSIGN(int64_t given, c.integer_input(1));
  RTX_ASSIGN(int axis, c.axis(given, c.rank(0)));
  RTX_ASSIGN(Value * x, c.input(0));
  RTX_ASSIGN(Value * y, c.emit(Op::cumsum, {x},
                               {{"axis", static_cast<int64_t>(axis)},
                                {"exclusive", c.integer("exclusive", 0) != 0},
                                {"reverse", c.integer("reverse", 0) != 0}}));
  c.set(0, y);
  return Ok{};
}

// y[i - shift], with 1 before the first; in reverse y[i + shift].
Result<Value*> shifted(Conversion& c, Value* y, int axis, int64_t shift, bool reverse) {
  Shape low(y->type.rank(), 0), high(y->type.rank(), 0);
  low[axis] = reverse ? -shift : shift;
  high[axis] = reverse ? shift : -shift;
  RTX_ASSIGN(Value * one, c.scalar(y->type.dtype, 1));
  return c.emit(Op::pad, {y, one}, {{"low", low}, {"high", high}});
}

// Products of 1, 2, 4, ... neighbours, so that the number of operations is the logarithm of the length.
Result<void> cumprod(Conversion& c) {
  RTX_ASSIGN(int64_t given, c.integer_input(1));
  RTX_ASSIGN(int axis, c.axis(given, c.rank(0)));
  bool exclusive = c.integer("exclusive", 0) != 0, reverse = c.integer("reverse", 0) != 0;
  RTX_ASSIGN(Value * x, c.input(0));
  DType dtype = x->type.dtype;
  // No tensor is longer than this.
  const int64_t longest = std::min(x->type.shape[axis].upper_bound(c.ranges()), int64_t{1} << 40);
  Value* y = x;
  if (is_16_bit(dtype)) {
    RTX_ASSIGN(y, c.cast(y, DType::f32));
  }
  if (exclusive) {  // moved by one, with 1 at the start
    RTX_ASSIGN(y, shifted(c, y, axis, 1, reverse));
  }
  for (int64_t shift = 1; shift < longest; shift *= 2) {
    RTX_ASSIGN(Value * before, shifted(c, y, axis, shift, reverse));
    RTX_ASSIGN(y, c.emit(Op::mul, {y, before}));
  }
  RTX_ASSIGN(y, c.cast(y, dtype));
  if (y == x)
    c.alias(0, 0);
  else
    c.set(0, y);
  return Ok{};
}

// Sums and products of sizes: only over everything, which is what shape arithmetic does.
Result<void> prod_or_sum_of_dims(Conversion& c, bool prod) {
  const Contents* known = c.contents(0);
  auto regular = prod ? plain<Op::reduce_prod> : plain<Op::reduce_sum>;
  if (!known || !known->all_known() || known->all_constant()) return regular(c);
  RTX_ASSIGN(Axes axes, reduced_axes(c));
  if (axes.noop || static_cast<int>(axes.list.size()) != c.rank(0)) return regular(c);
  Dim total = prod ? 1 : 0;
  for (const Element& element : known->elements) {
    auto dim = element.as_dim();
    if (!dim) return regular(c);
    total = prod ? total * *dim : total + *dim;
  }
  Contents result{known->dtype, {}, {Element::of(total)}};
  if (c.integer("keepdims", 1) != 0) result.shape.assign(c.rank(0), 1);
  c.set(0, std::move(result));
  return Ok{};
}

Result<void> reduce_prod(Conversion& c) { return prod_or_sum_of_dims(c, true); }
Result<void> reduce_sum(Conversion& c) { return prod_or_sum_of_dims(c, false); }

constexpr std::string_view old = "axes keepdims", with_input = "keepdims noop_with_empty_axes";
constexpr auto reduce_l1 = composed<Op::reduce_sum, apply_op<Op::abs>, nullptr>;
constexpr auto reduce_l2 = composed<Op::reduce_sum, square, in_floats<Op::sqrt>>;
constexpr auto reduce_sum_square = composed<Op::reduce_sum, square, nullptr>;
constexpr auto reduce_log_sum = composed<Op::reduce_sum, nullptr, in_floats<Op::log>>;

}  // namespace

constinit const Converter reduction_converters[] = {
    {"ReduceSum", 1, reduce_sum, fold, old},
    {"ReduceSum", 13, reduce_sum, fold, with_input, 1, 2},
    {"ReduceMean", 1, plain<Op::reduce_mean>, fold, old},
    {"ReduceMean", 18, plain<Op::reduce_mean>, fold, with_input, 1, 2},
    {"ReduceMax", 1, plain<Op::reduce_max>, fold, old},
    {"ReduceMax", 18, plain<Op::reduce_max>, fold, with_input, 1, 2},
    {"ReduceMin", 1, plain<Op::reduce_min>, fold, old},
    {"ReduceMin", 18, plain<Op::reduce_min>, fold, with_input, 1, 2},
    {"ReduceProd", 1, reduce_prod, fold, old},
    {"ReduceProd", 18, reduce_prod, fold, with_input, 1, 2},
    {"ReduceL1", 1, reduce_l1, fold, old},
    {"ReduceL1", 18, reduce_l1, fold, with_input, 1, 2},
    {"ReduceL2", 1, reduce_l2, fold, old},
    {"ReduceL2", 18, reduce_l2, fold, with_input, 1, 2},
    {"ReduceSumSquare", 1, reduce_sum_square, fold, old},
    {"ReduceSumSquare", 18, reduce_sum_square, fold, with_input, 1, 2},
    {"ReduceLogSum", 1, reduce_log_sum, fold, old},
    {"ReduceLogSum", 18, reduce_log_sum, fold, with_input, 1, 2},
    {"ReduceLogSumExp", 1, log_sum_exp, fold, old},
    {"ReduceLogSumExp", 18, log_sum_exp, fold, with_input, 1, 2},
    {"ArgMax", 1, arg_max, fold, "axis keepdims"},
    {"ArgMax", 12, arg_max, fold, "axis keepdims select_last_index"},
    {"ArgMin", 1, arg_min, fold, "axis keepdims"},
    {"ArgMin", 12, arg_min, fold, "axis keepdims select_last_index"},
    {"CumProd", 26, cumprod, fold, "exclusive reverse", 2, 2},
    {"CumSum", 11, cumsum, fold, "exclusive reverse", 2, 2},
};
std::span<const Converter> reduction_table() { return reduction_converters; }

}  // namespace rtx::onnx
