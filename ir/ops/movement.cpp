// Operations that move elements without arithmetic: any dtype, bits are kept.

#include <algorithm>

#include "base/text.h"
#include "ir/ops/loops.h"
#include "ir/ops/records.h"
#include "ir/ops/rules.h"

namespace rtx {
namespace {

std::vector<Type> result(const InferContext& context, Shape shape) {
  return {{context.operands[0].dtype, std::move(shape)}};
}

Result<void> check_not_negative(const InferContext& context, std::string_view id, const Shape& shape) {
  if (std::any_of(shape.begin(), shape.end(), known_negative)) {
    return rule_error(context, id, concat("negative size in ", to_string(shape)), "sizes of 0 or more");
  }
  return Ok{};
}

// reshape_c1, reshape_c2
Result<std::vector<Type>> infer_reshape(const InferContext& context) {
  const Shape& shape = context.attributes.dims("shape");
  RTX_TRY(check_not_negative(context, "reshape_c2", shape));
  Dim count = context.operands[0].element_count(), new_count = Type{DType::f32, shape}.element_count();
  if (!context.same(count, new_count)) {
    return rule_error(
        context, "reshape_c1",
        concat("element counts differ: ", count.str(), " and ", new_count.str(), " of ", to_string(shape)),
        "equal element counts");
  }
  return result(context, shape);
}

Result<std::vector<Tensor>> evaluate_reshape(const EvaluateContext& context) {
  Tensor out = *context.operands[0];
  if (out.element_count() != context.results[0].element_count()) {
    return make_error(ErrorKind::invalid, "reshape_c1", "reshape: element counts differ")
        .with_expected(context.results[0].type_str())
        .with_got(out.type_str());
  }
  out.shape = context.results[0].shape;
  return one(std::move(out));
}

// transpose_c1
Result<std::vector<Type>> infer_transpose(const InferContext& context) {
  const std::vector<int64_t>& perm = context.attributes.integers("perm");
  const Shape& shape = context.operands[0].shape;
  std::vector<int64_t> sorted = perm;
  std::sort(sorted.begin(), sorted.end());
  bool permutation = perm.size() == shape.size();
  for (size_t i = 0; permutation && i < sorted.size(); ++i) permutation = sorted[i] == static_cast<int64_t>(i);
  if (!permutation) {
    return rule_error(context, "transpose_c1",
                      concat("perm [", join(perm, ", ", [](int64_t axis) { return axis; }), "] is not a permutation"),
                      concat("each of the ", shape.size(), " axes once"));
  }
  Shape permuted;
  for (int64_t axis : perm) permuted.push_back(shape[static_cast<size_t>(axis)]);
  return result(context, std::move(permuted));
}

Result<std::vector<Tensor>> evaluate_transpose(const EvaluateContext& context) {
  Tensor out = context.results[0];
  const Tensor& x = *context.operands[0];
  Strides own = row_major_strides(x.shape), strides;
  for (int64_t axis : context.attributes.integers("perm")) strides.push_back(own[static_cast<size_t>(axis)]);
  copy_strided(out, x, 0, strides);
  return one(std::move(out));
}

// broadcast_c2, broadcast_c3
Result<std::vector<Type>> infer_broadcast(const InferContext& context) {
  const Shape &shape = context.attributes.dims("shape"), &from = context.operands[0].shape;
  RTX_TRY(check_not_negative(context, "broadcast_c3", shape));
  bool fits = from.size() <= shape.size();
  for (size_t i = 0; fits && i < from.size(); ++i) {
    fits = from[i].is(1) || context.same(from[i], shape[shape.size() - from.size() + i]);
  }
  if (!fits) {
    return rule_error(context, "broadcast_c2", concat("operand does not broadcast to ", to_string(shape)),
                      "each axis of the operand is 1 or equal, aligned from the right");
  }
  return result(context, shape);
}

Result<std::vector<Tensor>> evaluate_broadcast(const EvaluateContext& context) {
  Tensor out = context.results[0];
  copy_strided(out, *context.operands[0], 0, broadcast_strides(context.operands[0]->shape, out.shape));
  return one(std::move(out));
}

// slice_c1 to slice_c4
Result<std::vector<Type>> infer_slice(const InferContext& context) {
  const Shape &starts = context.attributes.dims("starts"), &sizes = context.attributes.dims("sizes");
  const std::vector<int64_t>& steps = context.attributes.integers("steps");
  const Shape& shape = context.operands[0].shape;
  if (starts.size() != shape.size() || sizes.size() != shape.size() || steps.size() != shape.size()) {
    return rule_error(context, "slice_c1", "starts, sizes and steps need one entry for each axis",
                      concat(shape.size(), " entries"));
  }
  if (std::count(steps.begin(), steps.end(), 0) > 0) {
    return rule_error(context, "slice_c2", "a step is 0", "steps other than 0");
  }
  RTX_TRY(check_not_negative(context, "slice_c3", sizes));
  for (size_t i = 0; i < shape.size(); ++i) {
    if (sizes[i].is(0)) continue;
    Dim last = starts[i] + (sizes[i] - 1) * Dim(steps[i]);
    for (const Dim& index : {starts[i], last}) {
      if (known_negative(index) || known_negative(shape[i] - 1 - index)) {
        return rule_error(context, "slice_c4", concat("index ", index.str(), " is outside axis ", i),
                          concat("0 <= index < ", shape[i].str()));
      }
    }
  }
  return result(context, sizes);
}

Result<std::vector<Tensor>> evaluate_slice(const EvaluateContext& context) {
  Tensor out = context.results[0];
  const Tensor& x = *context.operands[0];
  const Shape& starts = context.attributes.dims("starts");
  Strides strides = row_major_strides(x.shape);
  int64_t base = 0;
  for (size_t i = 0; i < x.shape.size(); ++i) {
    int64_t step = context.attributes.integers("steps")[i];
    RTX_ASSIGN(int64_t start, starts[i].evaluate(context.symbols));
    if (out.element_count() > 0) {
      // __int128: the product of an untrusted step and a size may leave int64.
      __int128 last = start + static_cast<__int128>(out.shape[i] - 1) * step;
      if (start < 0 || start >= x.shape[i] || last < 0 || last >= x.shape[i]) {
        return make_error(ErrorKind::invalid, "slice_c4", concat("slice: axis ", i, " is read outside its bounds"))
            .with_expected(concat("indices in [0, ", x.shape[i], ")"))
            .with_got(concat("start ", start, ", size ", out.shape[i], ", step ", step));
      }
      base += start * strides[i];
      strides[i] = out.shape[i] == 1 ? 0 : strides[i] * step;
    }
  }
  copy_strided(out, x, base, strides);
  return one(std::move(out));
}

// dtype_c1, axis_c1, concat_c1, concat_c2
Result<std::vector<Type>> infer_concat(const InferContext& context) {
  RTX_TRY(check_same_dtype(context));
  Shape shape = context.operands[0].shape;
  RTX_ASSIGN(int64_t axis, check_axis(context, "axis", static_cast<int>(shape.size())));
  for (const Type& part : context.operands.subspan(1)) {
    if (part.shape.size() != shape.size()) {
      return rule_error(context, "concat_c1", "operands have different ranks", concat("rank ", shape.size()));
    }
    for (size_t i = 0; i < shape.size(); ++i) {
      if (i == static_cast<size_t>(axis)) {
        shape[i] = shape[i] + part.shape[i];
      } else if (!context.same(shape[i], part.shape[i])) {
        return rule_error(context, "concat_c2", concat("axis ", i, " differs"),
                          concat("equal axes, except axis ", axis));
      }
    }
  }
  return result(context, std::move(shape));
}

Result<std::vector<Tensor>> evaluate_concat(const EvaluateContext& context) {
  Tensor out = context.results[0];
  size_t axis = static_cast<size_t>(context.attributes.integer("axis"));
  int64_t outer = extent(out.shape, 0, axis), row = extent(out.shape, axis, out.shape.size()), at = 0;
  for (const Tensor* part : context.operands) {
    int64_t part_row = extent(part->shape, axis, part->shape.size());
    for (int64_t i = 0; i < outer; ++i) copy_elements(out, i * row + at, *part, i * part_row, part_row);
    at += part_row;
  }
  return one(std::move(out));
}

// dtype_c1, pad_c1, pad_c2, pad_c3
Result<std::vector<Type>> infer_pad(const InferContext& context) {
  RTX_TRY(check_same_dtype(context));
  if (!context.operands[1].shape.empty()) {
    return rule_error(context, "pad_c1", "the padding value is not a scalar", "a value of rank 0");
  }
  const Shape &low = context.attributes.dims("low"), &high = context.attributes.dims("high");
  Shape shape = context.operands[0].shape;
  if (low.size() != shape.size() || high.size() != shape.size()) {
    return rule_error(context, "pad_c2", "low and high need one entry for each axis", concat(shape.size(), " entries"));
  }
  for (size_t i = 0; i < shape.size(); ++i) shape[i] = low[i] + shape[i] + high[i];
  RTX_TRY(check_not_negative(context, "pad_c3", shape));
  return result(context, std::move(shape));
}

Result<std::vector<Tensor>> evaluate_pad(const EvaluateContext& context) {
  Tensor out = context.results[0];
  const Tensor& x = *context.operands[0];
  Strides strides = row_major_strides(x.shape);
  std::vector<int64_t> low;
  for (const Dim& dim : context.attributes.dims("low")) {
    RTX_ASSIGN(int64_t value, dim.evaluate(context.symbols));
    low.push_back(value);
  }
  int64_t i = 0;
  for_each_index(out.shape, [&](const std::vector<int64_t>& index) {
    int64_t at = 0;
    bool inside = true;
    for (size_t k = 0; inside && k < index.size(); ++k) {
      int64_t from = wrap_sub(index[k], low[k]);
      inside = from >= 0 && from < x.shape[k];
      if (inside) at += from * strides[k];
    }
    copy_elements(out, i++, inside ? x : *context.operands[1], inside ? at : 0, 1);
  });
  return one(std::move(out));
}

// axis_c1, iota_c1, iota_c2
Result<std::vector<Type>> infer_iota(const InferContext& context) {
  const Shape& shape = context.attributes.dims("shape");
  DType dtype = context.attributes.dtype("dtype");
  RTX_TRY(check_axis(context, "axis", static_cast<int>(shape.size())));
  RTX_TRY(check_not_negative(context, "iota_c1", shape));
  if (!number_dtype(dtype)) {
    return rule_error(context, "iota_c2", concat("dtype ", to_string(dtype), " is not a number"),
                      "a float or integer dtype");
  }
  return std::vector<Type>{{dtype, shape}};
}

Result<std::vector<Tensor>> evaluate_iota(const EvaluateContext& context) {
  Tensor out = context.results[0];
  size_t axis = static_cast<size_t>(context.attributes.integer("axis"));
  int64_t inner = extent(out.shape, axis + 1, out.shape.size());
  for (int64_t i = 0, n = out.element_count(); i < n; ++i) {
    int64_t index = i / inner % out.shape[axis];
    is_float(out.dtype) ? out.set_f64(i, static_cast<double>(index)) : out.set_i64(i, index);
  }
  return one(std::move(out));
}

}  // namespace

// reshape_c1: the element counts are equal as dim expressions
// reshape_c2: no size is negative
constinit const OpSpec op_reshape = {
    .name = "reshape",
    .family = OpFamily::movement,
    .summary = "The same elements in row-major order under another shape.",
    .operands = {{{"x", any_dtype}}},
    .attributes = {{{"shape", AttrKind::dims}}},
    .precision = Precision::moves,
    .infer = infer_reshape,
    .evaluate = evaluate_reshape,
};

// transpose_c1: perm holds every axis once
constinit const OpSpec op_transpose = {
    .name = "transpose",
    .family = OpFamily::movement,
    .summary = "Axis i of the result is axis perm[i] of x.",
    .operands = {{{"x", any_dtype}}},
    .attributes = {{{"perm", AttrKind::integers}}},
    .precision = Precision::moves,
    .infer = infer_transpose,
    .evaluate = evaluate_transpose,
};

// broadcast_c2: x has at most the rank of shape, and its axes are 1 or equal, aligned from the right
// broadcast_c3: no size is negative
constinit const OpSpec op_broadcast = {
    .name = "broadcast",
    .family = OpFamily::movement,
    .summary = "x repeated along new axes and axes of length 1 to the given shape.",
    .operands = {{{"x", any_dtype}}},
    .attributes = {{{"shape", AttrKind::dims}}},
    .precision = Precision::moves,
    .infer = infer_broadcast,
    .evaluate = evaluate_broadcast,
};

// slice_c1: starts, sizes and steps have one entry for each axis
// slice_c2: no step is 0
// slice_c3: no size is negative
// slice_c4: the first and last index of every axis are inside it, as far as that is known without the symbols
constinit const OpSpec op_slice = {
    .name = "slice",
    .family = OpFamily::movement,
    .summary = "result[i] = x[starts + i * steps], of the given sizes; steps may be negative.",
    .operands = {{{"x", any_dtype}}},
    .attributes = {{{"starts", AttrKind::dims}, {"sizes", AttrKind::dims}, {"steps", AttrKind::integers}}},
    .precision = Precision::moves,
    .infer = infer_slice,
    .evaluate = evaluate_slice,
};

// concat_c1: the ranks are equal
// concat_c2: all axes but `axis` are equal
constinit const OpSpec op_concat = {
    .name = "concat",
    .family = OpFamily::movement,
    .summary = "The operands one after the other along an axis.",
    .operands = {{{"parts", any_dtype}}},
    .attributes = {{{"axis", AttrKind::integer}}},
    .traits = trait_variadic,
    .precision = Precision::moves,
    .infer = infer_concat,
    .evaluate = evaluate_concat,
};

// pad_c1: the value has rank 0
// pad_c2: low and high have one entry for each axis
// pad_c3: no size of the result is negative
constinit const OpSpec op_pad = {
    .name = "pad",
    .family = OpFamily::movement,
    .summary = "x with `low` and `high` copies of the value before and after it on each axis; negative amounts crop.",
    .operands = {{{"x", any_dtype}, {"value", any_dtype}}},
    .attributes = {{{"low", AttrKind::dims}, {"high", AttrKind::dims}}},
    .precision = Precision::moves,
    .infer = infer_pad,
    .evaluate = evaluate_pad,
};

// iota_c1: no size is negative
// iota_c2: the dtype is a number
constinit const OpSpec op_iota = {
    .name = "iota",
    .family = OpFamily::movement,
    .summary = "The index along an axis, 0, 1, ...",
    .attributes = {{{"shape", AttrKind::dims}, {"axis", AttrKind::integer, "0"}, {"dtype", AttrKind::dtype, "i64"}}},
    .infer = infer_iota,
    .evaluate = evaluate_iota,
};

}  // namespace rtx
