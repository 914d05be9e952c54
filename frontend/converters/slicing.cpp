// Slice, Pad and Trilu.

#include <algorithm>
#include <numeric>

#include "frontend/converters/tables.h"

namespace rtx::onnx {
namespace {

struct Span {
  Dim start, size;
};

// A start or end as a position in [low, high]: negative values count from the end. Exporters write the int64 limits for
// "the end".
Dim position(Conversion& c, const Dim& given, const Dim& length, const Dim& low, const Dim& high) {
  if (given.is_constant()) {
    if (given.constant() >= int64_t{1} << 40) return high;
    if (given.constant() <= -(int64_t{1} << 40)) return low;
  }
  // Negative counts from the end. A symbolic value of unknown sign is taken as a size, which is not negative.
  bool negative = given.upper_bound(c.ranges()) < 0;
  Dim at = negative ? given + length : given;
  return max_in_ranges(min_in_ranges(at, high, c.ranges()), low, c.ranges());
}

// An axis of fixed length cut at a symbolic size is a table (positions, a causal mask) that the size must stay within:
// the exact form, min(seq, 512), would meet `seq` in the next operation. So the range of the symbol shrinks.
void bound_by_table(Conversion& c, const Dim& end, const Dim& length) {
  if (end.is_constant() || !length.is_constant()) return;
  c.limit(end, length.constant());
}

Result<Span> span_of(Conversion& c, const Dim& start, const Dim& end, const Dim& length, int64_t step) {
  if (step > 0) {
    bound_by_table(c, start, length);
    bound_by_table(c, end, length);
    Dim first = position(c, start, length, 0, length), last = position(c, end, length, 0, length);
    Dim size = max_in_ranges(last - first, 0, c.ranges());
    return Span{first, step == 1 ? size : ceildiv(size, step)};
  }
  Dim first = position(c, start, length, 0, length - Dim(1)), last = position(c, end, length, -1, length - Dim(1));
  Dim size = max_in_ranges(first - last, 0, c.ranges());
  return Span{first, step == -1 ? size : ceildiv(size, -step)};
}

Result<void> slice_by(Conversion& c, const std::vector<Dim>& starts, const std::vector<Dim>& ends,
                      std::vector<int64_t> axes, std::vector<int64_t> steps) {
  if (starts.size() != ends.size() || axes.size() != starts.size() || steps.size() != starts.size())
    return c.invalid("E332", "the inputs starts, ends, axes and steps have different lengths");
  int rank = c.rank(0);
  Shape first(rank, 0), sizes = c.type(0).shape;
  std::vector<int64_t> all_steps(rank, 1);
  for (size_t i = 0; i < starts.size(); ++i) {
    RTX_ASSIGN(int axis, c.axis(axes[i], rank));
    if (steps[i] == 0 || steps[i] == INT64_MIN)
      return c.invalid("E321", concat("a step of ", steps[i], " on axis ", axis));
    RTX_ASSIGN(Span span, span_of(c, c.fresh(starts[i]), c.fresh(ends[i]), c.type(0).shape[axis], steps[i]));
    first[axis] = span.start;
    sizes[axis] = span.size;
    all_steps[axis] = steps[i];
  }
  for (Dim& dim : sizes) dim = c.fresh(dim);
  const Shape& shape = c.type(0).shape;
  bool whole = sizes == shape && std::all_of(all_steps.begin(), all_steps.end(), [](int64_t s) { return s == 1; });
  if (whole) {
    c.alias(0, 0);
    return Ok{};
  }
  RTX_ASSIGN(Value * x, c.input(0));
  RTX_ASSIGN(Value * y, c.emit(Op::slice, {x}, {{"starts", first}, {"sizes", sizes}, {"steps", all_steps}}));
  c.set(0, y);
  return Ok{};
}

std::vector<int64_t> leading_axes(size_t count) {
  std::vector<int64_t> axes(count);
  std::iota(axes.begin(), axes.end(), 0);
  return axes;
}

Result<void> slice_1(Conversion& c) {
  auto starts = c.integer_list("starts"), ends = c.integer_list("ends");
  if (!starts || !ends) return c.invalid("E324", "attribute 'starts' or 'ends' is missing");
  return slice_by(c, std::vector<Dim>(starts->begin(), starts->end()), std::vector<Dim>(ends->begin(), ends->end()),
                  c.integer_list("axes").value_or(leading_axes(starts->size())),
                  std::vector<int64_t>(starts->size(), 1));
}

Result<void> slice_10(Conversion& c) {
  RTX_ASSIGN(std::vector<Dim> starts, c.dims(1));
  RTX_ASSIGN(std::vector<Dim> ends, c.dims(2));
  std::vector<int64_t> axes = leading_axes(starts.size()), steps(starts.size(), 1);
  if (c.has(3)) {
    RTX_ASSIGN(axes, c.integers(3));
  }
  if (c.has(4)) {
    RTX_ASSIGN(steps, c.integers(4));
  }
  return slice_by(c, starts, ends, std::move(axes), std::move(steps));
}

// ---- Pad

Result<Value*> pad_value(Conversion& c, size_t index) {
  if (!c.has(index)) return c.scalar(c.type(0).dtype, 0);
  RTX_ASSIGN(Value * value, c.input(index));
  return c.reshape(value, {});
}

// reflect, edge and wrap: the padded axis is gathered at computed positions. Fixed axes only.
Result<Value*> pad_axis_by_index(Conversion& c, Value* x, int axis, int64_t low, int64_t high, std::string_view mode) {
  const Dim& length = x->type.shape[axis];
  if (!length.is_constant()) return c.unsupported(concat("mode '", mode, "' on an axis of size ", length.str()));
  int64_t size = length.constant(), total = size + low + high;
  if (total < 0 || total > (int64_t{1} << 24)) return c.invalid("E332", "the padded size is out of range");
  if (size == 0 && total > 0) return c.invalid("E332", concat("mode '", mode, "' on an empty axis"));
  Tensor index(DType::i64, {total});
  for (int64_t i = 0; i < total; ++i) {
    int64_t at = i - low;
    if (mode == "edge") {
      at = std::clamp<int64_t>(at, 0, size - 1);
    } else if (mode == "wrap") {
      at = ((at % size) + size) % size;
    } else if (size == 1) {
      at = 0;
    } else {
      int64_t period = 2 * (size - 1);
      at = ((at % period) + period) % period;
      if (at >= size) at = period - at;
    }
    index.set_i64(i, at);
  }
  RTX_ASSIGN(Value * indices, c.constant(std::move(index)));
  return c.emit(Op::gather, {x, indices}, {{"axis", static_cast<int64_t>(axis)}});
}

Result<void> pad_by(Conversion& c, const std::vector<Dim>& pads, const std::vector<int64_t>& axes, Value* value) {
  std::string mode = c.string("mode", "constant");
  if (pads.size() != 2 * axes.size())
    return c.invalid("E332", "pads needs two entries for each axis").with_got(concat(pads.size(), " entries"));
  int rank = c.rank(0);
  Shape low(rank, 0), high(rank, 0);
  for (size_t i = 0; i < axes.size(); ++i) {
    RTX_ASSIGN(int axis, c.axis(axes[i], rank));
    low[axis] = pads[i];
    high[axis] = pads[axes.size() + i];
  }
  RTX_ASSIGN(Value * x, c.input(0));
  Value* original = x;
  for (int axis = 0; axis < rank; ++axis) {
    Dim padded = x->type.shape[axis] + low[axis] + high[axis];
    if (padded.is_constant() && padded.constant() < 0)
      return c.invalid("E321",
                       concat("the pads remove more than axis ", axis, " of size ", x->type.shape[axis].str(), " has"));
  }
  if (mode == "constant") {
    RTX_ASSIGN(Value * y, c.emit(Op::pad, {x, value}, {{"low", low}, {"high", high}}));
    c.set(0, y);
    return Ok{};
  }
  if (mode != "reflect" && mode != "edge" && mode != "wrap")
    return c.invalid("E321", concat("mode '", escape_text(mode), "' of Pad"));
  for (int axis = 0; axis < rank; ++axis) {
    if (low[axis].is(0) && high[axis].is(0)) continue;
    if (!low[axis].is_constant() || !high[axis].is_constant())
      return c.unsupported(concat("mode '", mode, "' with pads that are not constant"));
    RTX_ASSIGN(x, pad_axis_by_index(c, x, axis, low[axis].constant(), high[axis].constant(), mode));
  }
  if (x == original)
    c.alias(0, 0);
  else
    c.set(0, x);
  return Ok{};
}

Result<void> pad_2(Conversion& c) {
  auto pads = c.integer_list("pads");
  if (!pads) return c.invalid("E324", "attribute 'pads' is missing");
  RTX_ASSIGN(Value * value, c.scalar(c.type(0).dtype, c.real("value", 0)));
  return pad_by(c, std::vector<Dim>(pads->begin(), pads->end()), leading_axes(c.rank(0)), value);
}

Result<void> pad_11(Conversion& c) {
  RTX_ASSIGN(std::vector<Dim> pads, c.dims(1));
  RTX_ASSIGN(Value * value, pad_value(c, 2));
  std::vector<int64_t> axes = leading_axes(c.rank(0));
  if (c.has(3)) {
    RTX_ASSIGN(axes, c.integers(3));
  }
  return pad_by(c, pads, axes, value);
}

// ---- Trilu

Result<void> trilu(Conversion& c) {
  bool upper = c.integer("upper", 1) != 0;
  int rank = c.rank(0);
  if (rank < 2) return c.invalid("E327", "the input needs rank 2 or more").with_got(c.type(0).str());
  Dim diagonal = 0;
  if (c.has(1)) {
    RTX_ASSIGN(std::vector<Dim> k, c.dims(1));
    if (k.size() != 1) return c.invalid("E327", "k must have one element");
    diagonal = k[0];
  }
  RTX_ASSIGN(Value * x, c.input(0));
  RTX_ASSIGN(Value * row, c.iota(DType::i64, 2, 0, x->type.shape[rank - 2]));
  RTX_ASSIGN(Value * column, c.iota(DType::i64, 2, 1, x->type.shape[rank - 1]));
  if (!diagonal.is(0)) {
    RTX_ASSIGN(Value * k, c.dim_scalar(diagonal));
    RTX_ASSIGN(row, c.emit(Op::add, {row, k}));
  }
  // Upper keeps column >= row + k, lower keeps column <= row + k.
  RTX_ASSIGN(Value * keep, upper ? c.emit(Op::less_equal, {row, column}) : c.emit(Op::less_equal, {column, row}));
  RTX_ASSIGN(Value * zero, c.scalar(x->type.dtype, 0));
  RTX_ASSIGN(Value * y, c.emit(Op::select, {keep, x, zero}));
  c.set(0, y);
  return Ok{};
}

}  // namespace

constinit const Converter slicing_converters[] = {
    {"Slice", 1, slice_1, moves_first, "starts ends axes"},
    {"Slice", 10, slice_10, moves_first, "", 3, 5},
    {"Pad", 2, pad_2, never, "mode value pads"},
    {"Pad", 11, pad_11, never, "mode", 2, 3},
    {"Pad", 18, pad_11, never, "mode", 2, 4},
    {"Trilu", 14, trilu, fold, "upper", 1, 2},
    {"Trilu", 1, trilu, fold, "upper", 1, 2, "com.microsoft"},
};
std::span<const Converter> slicing_table() { return slicing_converters; }

}  // namespace rtx::onnx
