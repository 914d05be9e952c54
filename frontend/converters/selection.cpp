// Operators that choose elements by their values: TopK, and those whose result has a size that depends on the data
// (NonZero, Compress, Unique), which need constant operands.

#include <algorithm>
#include <numeric>

#include "frontend/converters/tables.h"
#include "ir/ops/loops.h"

namespace rtx::onnx {
namespace {

// ---- TopK. `sorted` = 0 leaves the order open; sorted is one such order.

Result<void> topk(Conversion& c, const Dim& k) {
  RTX_ASSIGN(int axis, c.axis(c.integer("axis", -1), c.rank(0)));
  RTX_ASSIGN(Value * x, c.input(0));
  RTX_ASSIGN(Operation * y,
             c.create(Op::topk, {x},
                      {{"axis", static_cast<int64_t>(axis)}, {"k", k}, {"largest", c.integer("largest", 1) != 0}}));
  for (size_t i = 0; i < c.output_count(); ++i) c.set(i, y->result(i));
  return Ok{};
}

Result<void> topk_1(Conversion& c) {
  if (!c.has_attribute("k")) return c.invalid("E324", "attribute 'k' is missing");
  return topk(c, c.integer("k", 0));
}

Result<void> topk_10(Conversion& c) {
  RTX_ASSIGN(std::vector<Dim> k, c.dims(1));
  if (k.size() != 1) return c.invalid("E327", "input 1 must have one element").with_got(c.type(1).str());
  return topk(c, k[0]);
}

// ---- Results whose size depends on the data

// Input `index`, or why the result cannot be had.
Result<Tensor> needed_constant(Conversion& c, size_t index) {
  auto tensor = c.constant_input(index);
  if (tensor) return tensor;
  Diagnostic diagnostic = c.depends_on_data(index);
  diagnostic.message = concat("the shape of the result depends on the data of input ", index);
  return diagnostic;
}

Result<void> set_constant(Conversion& c, size_t output, Tensor tensor) {
  if (!c.wants(output)) return Ok{};
  if (may_have_contents(tensor.dtype, tensor.element_count())) {
    c.set(output, contents_of(tensor));
    return Ok{};
  }
  RTX_ASSIGN(Value * value, c.constant(std::move(tensor)));
  c.set(output, value);
  return Ok{};
}

bool is_nonzero(const Tensor& x, int64_t i) { return is_float(x.dtype) ? x.f64(i) != 0 : x.i64(i) != 0; }

// [rank, n]: the indices of the elements that are not zero, NaN among them, in row-major order.
Result<void> nonzero(Conversion& c) {
  RTX_ASSIGN(Tensor x, needed_constant(c, 0));
  std::vector<int64_t> places;
  for (int64_t i = 0; i < x.element_count(); ++i)
    if (is_nonzero(x, i)) places.push_back(i);
  int64_t n = static_cast<int64_t>(places.size());
  Tensor result(DType::i64, {x.rank(), n});
  std::vector<int64_t> strides = row_major_strides(x.shape);
  for (int axis = 0; axis < x.rank(); ++axis)
    for (int64_t i = 0; i < n; ++i) result.set_i64(axis * n + i, places[i] / strides[axis] % x.shape[axis]);
  return set_constant(c, 0, std::move(result));
}

// The slices along `axis` (of everything flat without one) where the condition, which may be shorter, holds. The data
// may be computed.
Result<void> compress(Conversion& c) {
  RTX_ASSIGN(Tensor condition, needed_constant(c, 1));
  if (condition.rank() != 1 || condition.dtype != DType::boolean)
    return c.invalid("E327", "input 1 must be bools of rank 1").with_got(c.type(1).str());
  RTX_ASSIGN(Value * x, c.input(0));
  int axis = 0;
  if (c.has_attribute("axis")) {
    RTX_ASSIGN(axis, c.axis(c.integer("axis", 0), c.rank(0)));
  } else {
    RTX_ASSIGN(x, c.reshape(x, {x->type.element_count()}));
  }
  std::vector<int64_t> places;
  for (int64_t i = 0; i < condition.element_count(); ++i)
    if (condition.i64(i) != 0) places.push_back(i);
  const Dim length = x->type.shape[axis];
  if (!places.empty() && length.is_constant() && places.back() >= length.constant())
    return c.invalid("E333", concat("the condition holds at ", places.back(), ", past the end"))
        .with_expected(concat("below ", length.str()));
  RTX_ASSIGN(Value * indices, c.constant(Tensor::vector(places)));
  RTX_ASSIGN(Value * y, c.emit(Op::gather, {x, indices}, {{"axis", static_cast<int64_t>(axis)}}));
  c.set(0, y);
  return Ok{};
}

// Three-way order of two elements; NaN is above everything, and every NaN one of a kind.
int compare(const Tensor& x, int64_t a, int64_t b) {
  if (!is_float(x.dtype)) return x.i64(a) < x.i64(b) ? -1 : x.i64(a) > x.i64(b);
  double first = x.f64(a), second = x.f64(b);
  bool nan_first = first != first, nan_second = second != second;
  if (nan_first || nan_second) return nan_first - nan_second;
  return first < second ? -1 : first > second;
}

// The different slices along `axis` (elements of everything flat without one): the slices, where each is first, which
// of them each slice is, and how often each is there. In rising order, or with sorted = 0 in that of appearance.
Result<void> unique(Conversion& c) {
  RTX_ASSIGN(Tensor x, needed_constant(c, 0));
  int axis = 0;
  if (c.has_attribute("axis")) {
    RTX_ASSIGN(axis, c.axis(c.integer("axis", 0), x.rank()));
  } else {
    x.shape = {x.element_count()};
  }
  const int64_t length = x.shape[axis], outer = extent(x.shape, 0, axis),
                inner = extent(x.shape, axis + 1, x.shape.size());
  auto compare_slices = [&](int64_t a, int64_t b) {
    for (int64_t i = 0; i < outer; ++i)
      for (int64_t j = 0; j < inner; ++j)
        if (int order = compare(x, (i * length + a) * inner + j, (i * length + b) * inner + j)) return order;
    return 0;
  };
  std::vector<int64_t> order(length), group(length), firsts, counts;
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return compare_slices(a, b) < 0; });
  for (int64_t i = 0; i < length; ++i) {
    if (i == 0 || compare_slices(order[i - 1], order[i]) != 0) {
      firsts.push_back(order[i]);
      counts.push_back(0);
    }
    group[order[i]] = static_cast<int64_t>(firsts.size()) - 1;
    ++counts.back();
  }
  if (c.integer("sorted", 1) == 0) {
    std::vector<int64_t> by_place(firsts.size()), new_group(firsts.size());
    std::iota(by_place.begin(), by_place.end(), 0);
    std::sort(by_place.begin(), by_place.end(), [&](int64_t a, int64_t b) { return firsts[a] < firsts[b]; });
    std::vector<int64_t> old_firsts = firsts, old_counts = counts;
    for (size_t i = 0; i < by_place.size(); ++i) {
      new_group[by_place[i]] = static_cast<int64_t>(i);
      firsts[i] = old_firsts[by_place[i]];
      counts[i] = old_counts[by_place[i]];
    }
    for (int64_t& entry : group) entry = new_group[entry];
  }
  const int64_t n = static_cast<int64_t>(firsts.size());
  std::vector<int64_t> shape = x.shape;
  shape[axis] = n;
  Tensor y(x.dtype, shape);
  for (int64_t i = 0; i < outer; ++i)
    for (int64_t j = 0; j < n; ++j) copy_elements(y, (i * n + j) * inner, x, (i * length + firsts[j]) * inner, inner);
  RTX_TRY(set_constant(c, 0, std::move(y)));
  RTX_TRY(set_constant(c, 1, Tensor::vector(firsts)));
  RTX_TRY(set_constant(c, 2, Tensor::vector(group)));
  return set_constant(c, 3, Tensor::vector(counts));
}

}  // namespace

constinit const Converter selection_converters[] = {
    {"TopK", 1, topk_1, fold, "axis k", 1, 1, "", 2},
    {"TopK", 10, topk_10, fold, "axis", 2, 2, "", 2},
    {"TopK", 11, topk_10, fold, "axis largest sorted", 2, 2, "", 2},
    {"NonZero", 9, nonzero, never},
    {"Compress", 9, compress, moves_first, "axis", 2, 2},
    {"Unique", 11, unique, never, "axis sorted", 1, 1, "", 4},
};
std::span<const Converter> selection_table() { return selection_converters; }

}  // namespace rtx::onnx
