// Operators that make tensors out of shapes, and constants.

#include <algorithm>
#include <cmath>

#include "frontend/converters/tables.h"
#include "frontend/onnx_types.h"

namespace rtx::onnx {
namespace {

Contents vector_of(const Shape& dims) {
  Contents contents{DType::i64, {static_cast<int64_t>(dims.size())}, {}};
  for (const Dim& dim : dims) contents.elements.push_back(Element::of(dim));
  return contents;
}

Result<void> shape(Conversion& c) {
  const Shape& dims = c.type(0).shape;
  int64_t rank = static_cast<int64_t>(dims.size());
  auto clamped = [&](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank); };
  int64_t start = clamped(c.integer("start", 0)), end = clamped(c.integer("end", rank));
  c.set(0, vector_of(start < end ? Shape(dims.begin() + start, dims.begin() + end) : Shape{}));
  return Ok{};
}

Result<void> size(Conversion& c) {
  c.set(0, Contents{DType::i64, {}, {Element::of(c.type(0).element_count())}});
  return Ok{};
}

template <typename T>
Tensor tensor_of_list(DType dtype, std::vector<int64_t> shape, const std::vector<T>& values) {
  Tensor tensor(dtype, std::move(shape));
  for (size_t i = 0; i < values.size(); ++i) {
    if constexpr (std::is_integral_v<T>)
      tensor.set_i64(i, values[i]);
    else
      tensor.set_f64(i, values[i]);
  }
  return tensor;
}

Result<void> constant(Conversion& c) {
  if (c.node().attributes.size() != 1) return c.invalid("E324", "Constant needs one attribute");
  const Attribute& attribute = c.node().attributes[0];
  if (attribute.name == "value") {
    const auto* entry = c.attribute<WeightEntry>("value");
    if (!entry) return c.invalid("E324", "attribute 'value' is not a tensor");
    c.set_stored(0, *entry);
  } else if (attribute.name == "value_int") {
    c.set(0, contents_of(tensor_of_list<int64_t>(DType::i64, {}, {c.integer("value_int", 0)})));
  } else if (attribute.name == "value_float") {
    c.set(0, contents_of(tensor_of_list<double>(DType::f32, {}, {c.real("value_float", 0)})));
  } else if (attribute.name == "value_ints" || attribute.name == "value_floats") {
    Tensor tensor;
    if (attribute.name == "value_ints") {
      auto values = c.integer_list("value_ints").value_or(std::vector<int64_t>{});
      tensor = tensor_of_list(DType::i64, {static_cast<int64_t>(values.size())}, values);
    } else {
      const auto* floats = c.attribute<std::vector<float>>("value_floats");
      std::vector<float> values = floats ? *floats : std::vector<float>{};
      tensor = tensor_of_list(DType::f32, {static_cast<int64_t>(values.size())}, values);
    }
    if (may_have_contents(tensor.dtype, tensor.element_count())) {
      c.set(0, contents_of(tensor));
    } else {
      RTX_ASSIGN(Value * value, c.constant(std::move(tensor)));
      c.set(0, value);
    }
  } else {
    return c.unsupported(concat("attribute '", attribute.name, "'"));
  }
  return Ok{};
}

Result<void> constant_of_shape(Conversion& c) {
  RTX_ASSIGN(std::vector<Dim> dims, c.shape_input(0));
  Tensor value = Tensor::scalar(DType::f32, 0);
  if (const auto* entry = c.attribute<WeightEntry>("value")) {
    RTX_ASSIGN(value, load(*entry));
    if (value.element_count() != 1) return c.invalid("E324", "attribute 'value' must have one element");
    value.shape.clear();
  }
  RTX_ASSIGN(Value * scalar, c.constant(std::move(value)));
  RTX_ASSIGN(Value * result, c.broadcast(scalar, std::move(dims)));
  c.set(0, result);
  return Ok{};
}

// 1 on the k-th diagonal of the shape of the input, 0 elsewhere.
Result<void> eye_like(Conversion& c) {
  RTX_TRY(c.need_rank(size_t{0}, 2));
  DType dtype = c.type(0).dtype;
  if (c.has_attribute("dtype")) {
    int64_t number = c.integer("dtype", 0);
    const OnnxType* type = find_onnx_type(number);
    if (!type) return c.invalid("E321", concat("attribute dtype is ", number, ", which does not exist"));
    if (!dtype_of(number)) return c.unsupported(concat("dtype ", type->name));
    dtype = *dtype_of(number);
  }
  const Shape shape = c.type(0).shape;
  RTX_ASSIGN(Value * row, c.iota(DType::i64, 2, 0, shape[0]));
  RTX_ASSIGN(Value * column, c.iota(DType::i64, 2, 1, shape[1]));
  Tensor k(DType::i64, {});
  k.set_i64(0, c.integer("k", 0));
  RTX_ASSIGN(Value * offset, c.constant(std::move(k)));
  RTX_ASSIGN(row, c.emit(Op::add, {row, offset}));
  RTX_ASSIGN(Value * y, c.emit(Op::equal, {row, column}));
  RTX_ASSIGN(y, c.cast(y, dtype));
  c.set(0, y);
  return Ok{};
}

// A scalar argument of Range as data: known, it may be any dim; otherwise it must be a constant.
Result<void> range_of_floats(Conversion& c) {
  double bounds[3];
  for (size_t i = 0; i < 3; ++i) {
    RTX_ASSIGN(Tensor tensor, c.constant_input(i));
    if (tensor.element_count() != 1) return c.invalid("E327", "the inputs of Range must have one element");
    bounds[i] = tensor.f64(0);
  }
  if (bounds[2] == 0) return c.invalid("E321", "the delta of Range is 0");
  double exact = std::ceil((bounds[1] - bounds[0]) / bounds[2]);
  if (!(exact < 9e15)) return c.invalid("E321", "Range has too many elements");
  int64_t count = exact > 0 ? static_cast<int64_t>(exact) : 0;
  DType dtype = c.type(0).dtype;
  RTX_ASSIGN(Value * index, c.iota(dtype, 1, 0, count));
  RTX_ASSIGN(Value * start, c.scalar(dtype, bounds[0]));
  RTX_ASSIGN(Value * delta, c.scalar(dtype, bounds[2]));
  RTX_ASSIGN(Value * scaled, c.emit(Op::mul, {index, delta}));
  RTX_ASSIGN(Value * result, c.emit(Op::add, {scaled, start}));
  c.set(0, result);
  return Ok{};
}

Result<void> range(Conversion& c) {
  DType dtype = c.type(0).dtype;
  bool all_dims = true;
  Dim bounds[3];
  for (size_t i = 0; i < 3; ++i) {
    if (c.type(i).dtype != dtype)
      return c.invalid("E335", "the inputs of Range have different types")
          .with_got(concat(to_string(dtype), " and ", to_string(c.type(i).dtype)));
    const Contents* known = c.contents(i);
    if (!known || known->elements.size() != 1 || !known->all_known()) return c.depends_on_data(i);
    auto dim = known->elements[0].as_dim();
    if (dim)
      bounds[i] = *dim;
    else
      all_dims = false;
  }
  if (!all_dims) return range_of_floats(c);
  const auto& [start, limit, delta] = bounds;
  if (!delta.is_constant()) return c.unsupported("a delta that is not a constant");
  if (delta.is(0)) return c.invalid("E321", "the delta of Range is 0");
  int64_t step = delta.constant();
  Dim count = step > 0 ? ceildiv(limit - start, step) : ceildiv(start - limit, Dim(0) - delta);
  count = max_in_ranges(count, 0, c.ranges());
  if (count.is_constant() && may_have_contents(dtype, count.constant())) {
    Contents contents{dtype, {count.constant()}, {}};
    for (int64_t i = 0; i < count.constant(); ++i) {
      Dim element = start + Dim(i) * delta;
      contents.elements.push_back(is_float(dtype) && element.is_constant()
                                      ? Element::of_real(static_cast<double>(element.constant()))
                                      : Element::of(std::move(element)));
    }
    c.set(0, std::move(contents));
    return Ok{};
  }
  RTX_ASSIGN(Value * result, c.iota(dtype, 1, 0, count));
  if (step != 1) {
    RTX_ASSIGN(Value * factor, c.scalar(dtype, static_cast<double>(step)));
    RTX_ASSIGN(result, c.emit(Op::mul, {result, factor}));
  }
  if (!start.is(0)) {
    RTX_ASSIGN(Value * first, c.dim_scalar(start));
    RTX_ASSIGN(first, c.cast(first, dtype));
    RTX_ASSIGN(result, c.emit(Op::add, {result, first}));
  }
  c.set(0, result);
  return Ok{};
}

}  // namespace

constinit const Converter shape_converters[] = {
    {"Shape", 1, shape, never},
    {"Shape", 15, shape, never, "start end"},
    {"Size", 1, size, never},
    {"Constant", 1, constant, never, "value", 0, 0},
    {"Constant", 11, constant, never, "value sparse_value", 0, 0},
    {"Constant", 12, constant, never,
     "value sparse_value value_float value_floats value_int value_ints value_string value_strings", 0, 0},
    {"ConstantOfShape", 9, constant_of_shape, fold, "value"},
    {"EyeLike", 9, eye_like, never, "dtype k"},
    {"Range", 11, range, never, "", 3, 3},
    {"Range", 27, range, never, "stash_type", 3, 3},
};
std::span<const Converter> shape_table() { return shape_converters; }

}  // namespace rtx::onnx
