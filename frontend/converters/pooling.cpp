// Pooling and transposed convolution.

#include <algorithm>
#include <cmath>
#include <limits>

#include "frontend/converters/pooling_parts.h"
#include "frontend/converters/tables.h"

namespace rtx::onnx {
namespace {

// Pooling is one strided slice for each place of the window, combined.
struct Window {
  std::vector<int64_t> size, strides, dilations, begins, ends;
  std::vector<Dim> out;
};

// Of x [batch, channels, spatial...].
Result<Window> pooling_window(Conversion& c, const Shape& x) {
  size_t count = x.size() - 2;
  Window w;
  RTX_ASSIGN(w.size, c.spatial_list("kernel_shape", count, 0));
  RTX_ASSIGN(w.strides, c.spatial_list("strides", count, 1));
  RTX_ASSIGN(w.dilations, c.spatial_list("dilations", count, 1));
  RTX_ASSIGN(std::vector<int64_t> pads, c.spatial_list("pads", 2 * count, 0));
  std::string automatic = c.string("auto_pad", "NOTSET");
  bool ceil_mode = c.integer("ceil_mode", 0) != 0;
  int64_t places = 1;
  for (size_t i = 0; i < count; ++i) {
    if (w.size[i] < 1 || w.strides[i] < 1 || w.dilations[i] < 1)
      return c.invalid("E321", "attributes kernel_shape, strides and dilations are 1 or more");
    if (__builtin_mul_overflow(places, w.size[i], &places) || places > 4096)
      return c.unsupported("a window of more than 4096 places");
    int64_t begin = pads[i], end = pads[count + i], reach = (w.size[i] - 1) * w.dilations[i] + 1;
    const Dim& length = x[2 + i];
    if (automatic == "VALID") begin = end = 0;
    if (automatic == "SAME_UPPER" || automatic == "SAME_LOWER") {
      if (!length.is_constant()) return c.unsupported("auto_pad on an axis that is not constant");
      int64_t out = (length.constant() + w.strides[i] - 1) / w.strides[i];
      int64_t total = std::max<int64_t>(0, (out - 1) * w.strides[i] + reach - length.constant());
      begin = automatic == "SAME_UPPER" ? total / 2 : total - total / 2;
      end = total - begin;
    }
    if (begin < 0 || end < 0) return c.invalid("E321", "attribute pads is negative");
    Dim span = length + Dim(begin + end - reach);
    Dim out = (ceil_mode ? ceildiv(span, w.strides[i]) : floordiv(span, w.strides[i])) + 1;
    if (ceil_mode && out.is_constant() && length.is_constant()) {
      // The last window must start inside the input or the padding before it.
      int64_t n = out.constant();
      if ((n - 1) * w.strides[i] >= length.constant() + begin) --n;
      out = n;
      end = std::max<int64_t>(end, (n - 1) * w.strides[i] + reach - length.constant() - begin);
    } else if (ceil_mode) {
      return c.unsupported("ceil_mode on an axis that is not constant");
    }
    if (out.is_constant() && out.constant() < 0) return c.invalid("E321", "the window is larger than the input");
    w.begins.push_back(begin);
    w.ends.push_back(end);
    w.out.push_back(out);
  }
  return w;
}

// For each place of the window, in row-major order, the elements there; x padded with `fill`.
Result<std::vector<Value*>> window_parts(Conversion& c, Value* x, const Window& w, double fill) {
  int rank = x->type.rank();
  Shape low(rank, 0), high(rank, 0);
  for (size_t i = 0; i < w.size.size(); ++i) {
    low[2 + i] = w.begins[i];
    high[2 + i] = w.ends[i];
  }
  RTX_ASSIGN(Value * filler, c.scalar(x->type.dtype, fill));
  RTX_ASSIGN(x, c.emit(Op::pad, {x, filler}, {{"low", low}, {"high", high}}));
  std::vector<Value*> parts;
  std::vector<int64_t> place(w.size.size(), 0);
  while (true) {
    Shape starts(rank, 0), sizes = x->type.shape;
    std::vector<int64_t> steps(rank, 1);
    for (size_t i = 0; i < place.size(); ++i) {
      starts[2 + i] = place[i] * w.dilations[i];
      sizes[2 + i] = w.out[i];
      steps[2 + i] = w.strides[i];
    }
    RTX_ASSIGN(Value * part, c.emit(Op::slice, {x}, {{"starts", starts}, {"sizes", sizes}, {"steps", steps}}));
    parts.push_back(part);
    size_t i = place.size();
    while (i > 0 && ++place[i - 1] == w.size[i - 1]) place[--i] = 0;
    if (i == 0) return parts;
  }
}

// combine(place 0, place 1, ...) over the window, x padded with `fill`.
Result<Value*> pooled(Conversion& c, Value* x, const Window& w, double fill, Op combine) {
  RTX_ASSIGN(std::vector<Value*> parts, window_parts(c, x, w, fill));
  Value* result = parts[0];
  for (size_t i = 1; i < parts.size(); ++i) {
    RTX_ASSIGN(result, c.emit(combine, {result, parts[i]}));
  }
  return result;
}

// The place of each element in its channel's row-major (or column-major) order: i64, 1 on the first two axes.
Result<Value*> spatial_places(Conversion& c, const Shape& shape, bool column_major) {
  int rank = static_cast<int>(shape.size());
  Value* places = nullptr;
  Dim step = 1;
  for (int i = 2; i < rank; ++i) {
    int axis = column_major ? i : rank + 1 - i;
    RTX_ASSIGN(Value * along, c.iota(DType::i64, rank, axis, shape[axis]));
    RTX_ASSIGN(Value * factor, c.dim_scalar(step));
    RTX_ASSIGN(along, c.emit(Op::mul, {along, factor}));
    step = step * shape[axis];
    if (!places) {
      places = along;
    } else {
      RTX_ASSIGN(places, c.emit(Op::add, {places, along}));
    }
  }
  // Each channel after the ones before it.
  for (int axis : {1, 0}) {
    RTX_ASSIGN(Value * along, c.iota(DType::i64, rank, axis, shape[axis]));
    RTX_ASSIGN(Value * factor, c.dim_scalar(step));
    RTX_ASSIGN(along, c.emit(Op::mul, {along, factor}));
    step = step * shape[axis];
    RTX_ASSIGN(places, c.emit(Op::add, {places, along}));
  }
  return c.broadcast(places, shape);
}

// Takes the second of (value, place) where it is larger, or where the first is padding (place -1). NaN is largest.
struct Candidate {
  Value *value, *place;
};
Result<Candidate> larger_of(Conversion& c, Candidate a, Candidate b) {
  RTX_ASSIGN(Value * zero, c.scalar(DType::i64, 0));
  RTX_ASSIGN(Value * takes, c.emit(Op::less, {a.value, b.value}));
  if (is_float(a.value->type.dtype)) {
    RTX_ASSIGN(Value * nan_a, c.emit(Op::is_nan, {a.value}));
    RTX_ASSIGN(Value * nan_b, c.emit(Op::is_nan, {b.value}));
    RTX_ASSIGN(nan_a, c.emit(Op::logical_not, {nan_a}));
    RTX_ASSIGN(nan_b, c.emit(Op::logical_and, {nan_b, nan_a}));
    RTX_ASSIGN(takes, c.emit(Op::logical_or, {takes, nan_b}));
  }
  RTX_ASSIGN(Value * padding_a, c.emit(Op::less, {a.place, zero}));
  RTX_ASSIGN(Value * inside_b, c.emit(Op::less_equal, {zero, b.place}));
  RTX_ASSIGN(padding_a, c.emit(Op::logical_and, {padding_a, inside_b}));
  RTX_ASSIGN(takes, c.emit(Op::logical_or, {takes, padding_a}));
  RTX_ASSIGN(a.value, c.emit(Op::select, {takes, b.value, a.value}));
  RTX_ASSIGN(a.place, c.emit(Op::select, {takes, b.place, a.place}));
  return a;
}

Result<void> max_pool(Conversion& c) {
  if (c.rank(0) < 3) return c.invalid("E327", "the input needs rank 3 or more").with_got(c.type(0).str());
  int64_t order = c.integer("storage_order", 0);
  if (order != 0 && order != 1) return c.invalid("E321", concat("attribute storage_order is ", order));
  RTX_ASSIGN(Window w, pooling_window(c, c.type(0).shape));
  RTX_ASSIGN(Value * x, c.input(0));
  double lowest = is_float(x->type.dtype)    ? -std::numeric_limits<double>::infinity()
                  : is_signed(x->type.dtype) ? -128
                                             : 0;
  if (!c.wants(1)) {
    RTX_ASSIGN(Value * y, pooled(c, x, w, lowest, Op::maximum));
    c.set(0, y);
    return Ok{};
  }
  RTX_ASSIGN(Value * places, spatial_places(c, x->type.shape, order == 1));
  RTX_ASSIGN(std::vector<Value*> values, window_parts(c, x, w, lowest));
  RTX_ASSIGN(std::vector<Value*> at, window_parts(c, places, w, -1));
  Candidate best = {values[0], at[0]};
  for (size_t i = 1; i < values.size(); ++i) {
    RTX_ASSIGN(best, larger_of(c, best, {values[i], at[i]}));
  }
  c.set(0, best.value);
  c.set(1, best.place);
  return Ok{};
}

// Zeros with each element of X at its place in the whole of the result, which then grows at the end to output_shape.
Result<void> max_unpool(Conversion& c) {
  int rank = c.rank(0);
  if (rank < 3) return c.invalid("E327", "the input needs rank 3 or more").with_got(c.type(0).str());
  size_t count = rank - 2;
  RTX_ASSIGN(std::vector<int64_t> kernel, c.spatial_list("kernel_shape", count, 0));
  RTX_ASSIGN(std::vector<int64_t> strides, c.spatial_list("strides", count, 1));
  RTX_ASSIGN(std::vector<int64_t> pads, c.spatial_list("pads", 2 * count, 0));
  RTX_ASSIGN(Value * x, c.input(0));
  RTX_ASSIGN(Value * places, c.input(1));
  Shape shape = x->type.shape;
  for (size_t i = 0; i < count; ++i)
    shape[2 + i] = (shape[2 + i] - 1) * Dim(strides[i]) + Dim(kernel[i] - pads[i] - pads[count + i]);
  Dim total = Type{DType::f32, shape}.element_count();
  RTX_ASSIGN(Value * zero, c.scalar(x->type.dtype, 0));
  RTX_ASSIGN(Value * y, c.broadcast(zero, {total}));
  RTX_ASSIGN(x, c.reshape(x, {x->type.element_count()}));
  RTX_ASSIGN(places, c.reshape(places, {places->type.element_count()}));
  RTX_ASSIGN(y, c.emit(Op::scatter_elements, {y, places, x}, {{"axis", int64_t{0}}}));
  RTX_ASSIGN(y, c.reshape(y, shape));
  if (c.has(2)) {
    RTX_ASSIGN(std::vector<Dim> wanted, c.dims(2));
    if (wanted.size() != shape.size()) return c.invalid("E332", "output_shape needs one entry for each axis");
    Shape low(rank, 0), high(rank, 0);
    for (int i = 0; i < rank; ++i) {
      high[i] = wanted[i] - shape[i];
      if (high[i].is_constant() && high[i].constant() < 0)
        return c.invalid("E332", concat("output_shape is below ", shape[i].str(), " on axis ", i));
    }
    RTX_ASSIGN(y, c.emit(Op::pad, {y, zero}, {{"low", low}, {"high", high}}));
  }
  c.set(0, y);
  return Ok{};
}

}  // namespace

Result<Value*> average_pooled(Conversion& c, Value* x) {
  if (x->type.rank() < 3) return c.invalid("E327", "the input needs rank 3 or more").with_got(x->type.str());
  RTX_ASSIGN(Window w, pooling_window(c, x->type.shape));
  DType dtype = x->type.dtype, wide = dtype == DType::f64 ? DType::f64 : DType::f32;
  RTX_ASSIGN(Value * wide_x, c.cast(x, wide));
  RTX_ASSIGN(Value * sum, pooled(c, wide_x, w, 0, Op::add));
  // The divisor: how many places of each window lie in the input, or also in the padding (but not beyond it).
  bool count_pad = c.integer("count_include_pad", 0) != 0;
  Window counted = w;
  Shape shape(x->type.rank(), 1);
  std::vector<int64_t> pads = c.integer_list("pads").value_or(std::vector<int64_t>(2 * w.size.size(), 0));
  for (size_t i = 0; i < w.size.size(); ++i) {
    shape[2 + i] = x->type.shape[2 + i];
    if (!count_pad) continue;
    int64_t own_end = c.string("auto_pad", "NOTSET") == "NOTSET" ? pads[w.size.size() + i] : w.ends[i];
    shape[2 + i] = shape[2 + i] + Dim(w.begins[i] + own_end);
    counted.begins[i] = 0;
    counted.ends[i] = w.ends[i] - own_end;
  }
  RTX_ASSIGN(Value * ones, c.scalar(wide, 1));
  RTX_ASSIGN(ones, c.broadcast(ones, std::move(shape)));
  RTX_ASSIGN(Value * count, pooled(c, ones, counted, 0, Op::add));
  RTX_ASSIGN(Value * y, c.emit(Op::div, {sum, count}));
  return c.cast(y, dtype);
}

namespace {

Result<void> average_pool(Conversion& c) {
  RTX_ASSIGN(Value * x, c.input(0));
  RTX_ASSIGN(Value * y, average_pooled(c, x));
  c.set(0, y);
  return Ok{};
}

template <Op op>
Result<void> global_pool(Conversion& c) {
  int rank = c.rank(0);
  if (rank < 3) return c.invalid("E327", "the input needs rank 3 or more").with_got(c.type(0).str());
  std::vector<int64_t> axes;
  for (int i = 2; i < rank; ++i) axes.push_back(i);
  RTX_ASSIGN(Value * x, c.input(0));
  RTX_ASSIGN(Value * y, c.reduce(op, x, std::move(axes), true));
  c.set(0, y);
  return Ok{};
}

// |x| to the p, and back. 16-bit floats are computed in f32.
Result<Value*> power(Conversion& c, Value* x, double exponent) {
  if (exponent == 1) return x;
  RTX_ASSIGN(Value * p, c.scalar(x->type.dtype, exponent));
  return c.emit(Op::pow, {x, p});
}

Result<double> norm_order(Conversion& c) {
  // A float in version 1.
  double p = c.node().opset < 2 ? c.real("p", 2) : static_cast<double>(c.integer("p", 2));
  if (!(p >= 1)) return c.invalid("E321", "attribute p is below 1");
  return p;
}

template <bool global>
Result<void> lp_pool(Conversion& c) {
  if (c.rank(0) < 3) return c.invalid("E327", "the input needs rank 3 or more").with_got(c.type(0).str());
  RTX_ASSIGN(double p, norm_order(c));
  RTX_ASSIGN(Value * x, c.input(0));
  DType dtype = x->type.dtype, wide = dtype == DType::f64 ? DType::f64 : DType::f32;
  RTX_ASSIGN(Value * y, c.cast(x, wide));
  RTX_ASSIGN(y, c.emit(Op::abs, {y}));
  RTX_ASSIGN(y, power(c, y, p));
  if (global) {
    std::vector<int64_t> axes;
    for (int i = 2; i < c.rank(0); ++i) axes.push_back(i);
    RTX_ASSIGN(y, c.reduce(Op::reduce_sum, y, std::move(axes), true));
  } else {
    RTX_ASSIGN(Window w, pooling_window(c, c.type(0).shape));
    RTX_ASSIGN(y, pooled(c, y, w, 0, Op::add));
  }
  RTX_ASSIGN(y, power(c, y, 1 / p));
  RTX_ASSIGN(y, c.cast(y, dtype));
  c.set(0, y);
  return Ok{};
}

// x / (bias + alpha / size * s)^beta, s the sum of squares over `size` neighbouring channels, the smaller half before.
Result<void> lrn(Conversion& c) {
  if (c.rank(0) < 2) return c.invalid("E327", "the input needs rank 2 or more").with_got(c.type(0).str());
  int64_t size = c.integer("size", 0);
  if (size < 1 || size > 4096) return c.invalid("E321", concat("attribute size is ", size));
  RTX_ASSIGN(Value * x, c.input(0));
  DType dtype = x->type.dtype, wide = dtype == DType::f64 ? DType::f64 : DType::f32;
  RTX_ASSIGN(Value * wide_x, c.cast(x, wide));
  RTX_ASSIGN(Value * squares, c.emit(Op::mul, {wide_x, wide_x}));
  Shape low(x->type.rank(), 0), high(x->type.rank(), 0);
  low[1] = (size - 1) / 2;
  high[1] = size / 2;
  RTX_ASSIGN(Value * zero, c.scalar(wide, 0));
  RTX_ASSIGN(squares, c.emit(Op::pad, {squares, zero}, {{"low", low}, {"high", high}}));
  Value* sum = nullptr;
  for (int64_t i = 0; i < size; ++i) {
    RTX_ASSIGN(Value * part, c.slice(squares, 1, i, x->type.shape[1]));
    if (!sum) {
      sum = part;
    } else {
      RTX_ASSIGN(sum, c.emit(Op::add, {sum, part}));
    }
  }
  RTX_ASSIGN(Value * scale, c.scalar(wide, c.real("alpha", 1e-4f) / static_cast<double>(size)));
  RTX_ASSIGN(Value * bias, c.scalar(wide, c.real("bias", 1)));
  RTX_ASSIGN(Value * divisor, c.emit(Op::mul, {sum, scale}));
  RTX_ASSIGN(divisor, c.emit(Op::add, {divisor, bias}));
  RTX_ASSIGN(divisor, power(c, divisor, c.real("beta", 0.75)));
  RTX_ASSIGN(Value * y, c.emit(Op::div, {wide_x, divisor}));
  RTX_ASSIGN(y, c.cast(y, dtype));
  c.set(0, y);
  return Ok{};
}

// ---- ConvTranspose: the input spread out with zeros, convolved with the flipped window

Result<void> conv_transpose(Conversion& c) {
  int rank = c.rank(0);
  if (rank < 3 || c.rank(1) != rank) return c.invalid("E327", "input and weight need one rank, 3 or more");
  size_t count = rank - 2;
  int64_t groups = c.integer("group", 1);
  RTX_ASSIGN(std::vector<int64_t> strides, c.spatial_list("strides", count, 1));
  RTX_ASSIGN(std::vector<int64_t> dilations, c.spatial_list("dilations", count, 1));
  RTX_ASSIGN(std::vector<int64_t> pads, c.spatial_list("pads", 2 * count, 0));
  RTX_ASSIGN(std::vector<int64_t> extra, c.spatial_list("output_padding", count, 0));
  std::optional<std::vector<int64_t>> output_shape = c.integer_list("output_shape");
  if (output_shape && output_shape->size() < count)
    return c.invalid("E324", "attribute 'output_shape' is too short").with_expected(concat(count, " entries or more"));
  std::string automatic = c.string("auto_pad", "NOTSET");
  RTX_ASSIGN(Value * x, c.input(0));
  RTX_ASSIGN(Value * w, c.input(1));
  Shape shape = x->type.shape, window = w->type.shape;
  for (const Dim& dim : window)
    if (!dim.is_constant()) return c.unsupported("a weight whose shape is not constant");
  if (groups < 1 || window[0].constant() % groups != 0) return c.invalid("E321", concat("attribute group is ", groups));

  // Zeros between the elements, then around them.
  Shape low(rank, 0), high(rank, 0);
  for (size_t i = 0; i < count; ++i) {
    int axis = static_cast<int>(2 + i);
    if (strides[i] < 1 || dilations[i] < 1) return c.invalid("E321", "attributes strides and dilations are 1 or more");
    int64_t reach = 0;
    if (__builtin_mul_overflow(window[axis].constant() - 1, dilations[i], &reach) || reach >= int64_t{1} << 31)
      return c.invalid("E321",
                       concat("a window of ", window[axis].str(), " with dilation ", dilations[i], " is too large"));
    int64_t begin = pads[i], end = pads[count + i];
    Dim full = (shape[axis] - Dim(1)) * Dim(strides[i]) + Dim(reach + 1 + extra[i]);
    if (output_shape || automatic == "SAME_UPPER" || automatic == "SAME_LOWER") {
      if (!full.is_constant()) return c.unsupported("output_shape or auto_pad on an axis that is not constant");
      const Dim same = shape[axis] * Dim(strides[i]);
      if (!same.is_constant()) return c.invalid("E302", "the size of the result overflows 64 bits");
      int64_t wanted = output_shape ? (*output_shape)[output_shape->size() - count + i] : same.constant();
      if (wanted < 0 || wanted >= int64_t{1} << 62)
        return c.invalid("E321", concat("attribute 'output_shape' has an entry of ", wanted));
      int64_t total = std::max<int64_t>(0, full.constant() - wanted);
      begin = automatic == "SAME_UPPER" ? total / 2 : total - total / 2;
      end = total - begin - std::max<int64_t>(0, wanted - full.constant());  // what is missing is zeros at the end
    }
    if (strides[i] > 1) {
      Shape split = x->type.shape, merged = x->type.shape;
      split.insert(split.begin() + axis + 1, 1);
      Shape none(rank + 1, 0), after(rank + 1, 0);
      after[axis + 1] = strides[i] - 1;
      merged[axis] = shape[axis] * Dim(strides[i]);
      RTX_ASSIGN(Value * zero, c.scalar(x->type.dtype, 0));
      RTX_ASSIGN(x, c.reshape(x, std::move(split)));
      RTX_ASSIGN(x, c.emit(Op::pad, {x, zero}, {{"low", none}, {"high", after}}));
      RTX_ASSIGN(x, c.reshape(x, std::move(merged)));
      RTX_ASSIGN(x, c.slice(x, axis, 0, (shape[axis] - Dim(1)) * Dim(strides[i]) + Dim(1)));
    }
    low[axis] = reach - begin;
    high[axis] = reach - end + extra[i];
  }
  RTX_ASSIGN(Value * zero, c.scalar(x->type.dtype, 0));
  RTX_ASSIGN(x, c.emit(Op::pad, {x, zero}, {{"low", low}, {"high", high}}));

  // [C, M / groups, ...] -> [M, C / groups, ...], flipped along the window.
  Shape starts(rank, 0), sizes = window;
  std::vector<int64_t> steps(rank, 1);
  for (int axis = 2; axis < rank; ++axis) {
    starts[axis] = window[axis] - Dim(1);
    steps[axis] = -1;
  }
  RTX_ASSIGN(w, c.emit(Op::slice, {w}, {{"starts", starts}, {"sizes", sizes}, {"steps", steps}}));
  int64_t in_group = window[0].constant() / groups, out_group = window[1].constant();
  Shape grouped = {groups, in_group, out_group}, turned = {groups * out_group, in_group};
  std::vector<int64_t> perm = {0, 2, 1};
  for (int axis = 2; axis < rank; ++axis) {
    grouped.push_back(window[axis]);
    turned.push_back(window[axis]);
    perm.push_back(axis + 1);
  }
  RTX_ASSIGN(w, c.reshape(w, std::move(grouped)));
  RTX_ASSIGN(w, c.transpose(w, std::move(perm)));
  RTX_ASSIGN(w, c.reshape(w, std::move(turned)));
  std::vector<Value*> operands = {x, w};
  if (c.has(2)) {
    RTX_ASSIGN(Value * bias, c.input(2));
    operands.push_back(bias);
  }
  RTX_ASSIGN(Value * y, c.emit(Op::conv, std::move(operands),
                               {{"strides", std::vector<int64_t>(count, 1)},
                                {"dilations", dilations},
                                {"pads", std::vector<int64_t>(2 * count, 0)},
                                {"groups", groups}}));
  c.set(0, y);
  return Ok{};
}

constexpr std::string_view pool_1 = "auto_pad kernel_shape pads strides";
constexpr std::string_view transpose_attributes =
    "auto_pad dilations group kernel_shape output_padding output_shape pads strides";

}  // namespace

constinit const Converter pooling_converters[] = {
    {"MaxPool", 1, max_pool, never, pool_1},
    {"MaxPool", 8, max_pool, never, "auto_pad kernel_shape pads strides storage_order", 1, 1, "", 2},
    {"MaxPool", 10, max_pool, never, "auto_pad kernel_shape pads strides storage_order ceil_mode dilations", 1, 1, "",
     2},
    {"AveragePool", 7, average_pool, never, "auto_pad kernel_shape pads strides count_include_pad"},
    {"AveragePool", 10, average_pool, never, "auto_pad kernel_shape pads strides count_include_pad ceil_mode"},
    {"AveragePool", 19, average_pool, never,
     "auto_pad kernel_shape pads strides count_include_pad ceil_mode dilations"},
    {"MaxUnpool", 9, max_unpool, never, "kernel_shape pads strides", 2, 3},
    {"LpPool", 1, lp_pool<false>, never, "auto_pad kernel_shape p pads strides"},
    {"LpPool", 18, lp_pool<false>, never, "auto_pad ceil_mode dilations kernel_shape p pads strides"},
    {"GlobalLpPool", 1, lp_pool<true>, never, "p"},
    {"LRN", 1, lrn, never, "alpha beta bias size"},
    {"GlobalAveragePool", 1, global_pool<Op::reduce_mean>, never},
    {"GlobalMaxPool", 1, global_pool<Op::reduce_max>, never},
    {"ConvTranspose", 1, conv_transpose, never, transpose_attributes, 2, 3},
};
std::span<const Converter> pooling_table() { return pooling_converters; }

}  // namespace rtx::onnx
