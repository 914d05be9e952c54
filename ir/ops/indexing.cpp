// Operations that read at computed indices. A negative index counts from the end; what is then still outside the axis
// is clamped into it, so nothing is ever read out of bounds (ONNX calls such an index an error). From an axis of length
// 0 the result is zeros.

#include <algorithm>

#include "base/text.h"
#include "ir/ops/loops.h"
#include "ir/ops/records.h"
#include "ir/ops/rules.h"

namespace rtx {
namespace {

int64_t wrap_and_clamp(int64_t index, int64_t length) {
  if (index < 0) index += length;
  return std::clamp<int64_t>(index, 0, length - 1);
}

// axis_c1
Result<std::vector<Type>> infer_gather(const InferContext& context) {
  const Type &data = context.operands[0], &indices = context.operands[1];
  RTX_ASSIGN(int64_t axis, check_axis(context, "axis", data.rank()));
  Shape shape(data.shape.begin(), data.shape.begin() + axis);
  shape.insert(shape.end(), indices.shape.begin(), indices.shape.end());
  shape.insert(shape.end(), data.shape.begin() + axis + 1, data.shape.end());
  return std::vector<Type>{{data.dtype, std::move(shape)}};
}

Result<std::vector<Tensor>> evaluate_gather(const EvaluateContext& context) {
  Tensor out = context.results[0];
  const Tensor &data = *context.operands[0], &indices = *context.operands[1];
  size_t axis = static_cast<size_t>(context.attributes.integer("axis"));
  int64_t outer = extent(data.shape, 0, axis), length = data.shape[axis];
  int64_t inner = extent(data.shape, axis + 1, data.shape.size()), count = indices.element_count();
  if (length == 0) return one(std::move(out));
  for (int64_t i = 0; i < outer; ++i) {
    for (int64_t j = 0; j < count; ++j) {
      int64_t index = wrap_and_clamp(indices.i64(j), length);
      copy_elements(out, (i * count + j) * inner, data, (i * length + index) * inner, inner);
    }
  }
  return one(std::move(out));
}

// gather_nd_c1, gather_nd_c2, gather_nd_c3
Result<std::vector<Type>> infer_gather_nd(const InferContext& context) {
  const Type &data = context.operands[0], &indices = context.operands[1];
  int64_t batch = context.attributes.integer("batch_dims");
  if (batch < 0 || batch >= std::min(data.rank(), indices.rank())) {
    return rule_error(context, "gather_nd_c1", concat("batch_dims ", batch, " is out of range"),
                      "0 <= batch_dims < rank of data and rank of indices");
  }
  const Dim& depth = indices.shape.back();
  if (!depth.is_constant() || depth.constant() < 1 || depth.constant() > data.rank() - batch) {
    return rule_error(context, "gather_nd_c2", concat("the last axis of indices is ", depth.str()),
                      concat("a constant in [1, ", data.rank() - batch, "]"));
  }
  for (size_t i = 0; i < static_cast<size_t>(batch); ++i) {
    if (!context.same(data.shape[i], indices.shape[i])) {
      return rule_error(context, "gather_nd_c3", concat("batch axis ", i, " differs"), "equal batch axes");
    }
  }
  Shape shape(indices.shape.begin(), indices.shape.end() - 1);
  shape.insert(shape.end(), data.shape.begin() + batch + depth.constant(), data.shape.end());
  return std::vector<Type>{{data.dtype, std::move(shape)}};
}

Result<std::vector<Tensor>> evaluate_gather_nd(const EvaluateContext& context) {
  Tensor out = context.results[0];
  const Tensor &data = *context.operands[0], &indices = *context.operands[1];
  size_t batch = static_cast<size_t>(context.attributes.integer("batch_dims"));
  size_t depth = static_cast<size_t>(indices.shape.back());
  Strides strides = row_major_strides(data.shape);
  int64_t batches = extent(indices.shape, 0, batch);
  int64_t tuples = extent(indices.shape, batch, indices.shape.size() - 1);  // in one batch
  int64_t batch_elems = extent(data.shape, batch, data.shape.size());
  int64_t inner = extent(data.shape, batch + depth, data.shape.size());
  if (extent(data.shape, batch, batch + depth) == 0) return one(std::move(out));
  for (int64_t i = 0; i < batches * tuples; ++i) {
    int64_t at = i / tuples * batch_elems;
    for (size_t k = 0; k < depth; ++k) {
      int64_t index = indices.i64(i * static_cast<int64_t>(depth) + static_cast<int64_t>(k));
      at += wrap_and_clamp(index, data.shape[batch + k]) * strides[batch + k];
    }
    copy_elements(out, i * inner, data, at, inner);
  }
  return one(std::move(out));
}

// axis_c1, gather_elements_c1, gather_elements_c2
Result<std::vector<Type>> infer_gather_elements(const InferContext& context) {
  const Type &data = context.operands[0], &indices = context.operands[1];
  RTX_ASSIGN(int64_t axis, check_axis(context, "axis", data.rank()));
  if (data.rank() != indices.rank()) {
    return rule_error(context, "gather_elements_c1", "data and indices have different ranks", "equal ranks");
  }
  for (int i = 0; i < data.rank(); ++i) {
    size_t k = static_cast<size_t>(i);
    if (i != axis && known_negative(data.shape[k] - indices.shape[k])) {
      return rule_error(context, "gather_elements_c2", concat("axis ", i, " of indices is longer than that of data"),
                        concat("indices no larger than data, except on axis ", axis));
    }
  }
  return std::vector<Type>{{data.dtype, indices.shape}};
}

Result<std::vector<Tensor>> evaluate_gather_elements(const EvaluateContext& context) {
  Tensor out = context.results[0];
  const Tensor &data = *context.operands[0], &indices = *context.operands[1];
  size_t axis = static_cast<size_t>(context.attributes.integer("axis"));
  Strides strides = row_major_strides(data.shape);
  if (data.element_count() == 0) return one(std::move(out));
  int64_t i = 0;
  for_each_index(out.shape, [&](const std::vector<int64_t>& index) {
    int64_t at = 0;
    for (size_t k = 0; k < index.size(); ++k) {
      int64_t from = wrap_and_clamp(k == axis ? indices.i64(i) : index[k], data.shape[k]);
      at += from * strides[k];
    }
    copy_elements(out, i++, data, at, 1);
  });
  return one(std::move(out));
}

}  // namespace

constinit const OpSpec op_gather = {
    .name = "gather",
    .family = OpFamily::indexing,
    .summary =
        "Slices of data along an axis at the given indices, whose shape takes the place of the axis. Negative "
        "indices wrap, others outside are clamped.",
    .operands = {{{"data", any_dtype}, {"indices", index_dtype}}},
    .attributes = {{{"axis", AttrKind::integer, "0"}}},
    .precision = Precision::moves,
    .infer = infer_gather,
    .evaluate = evaluate_gather,
};

// gather_nd_c1: 0 <= batch_dims < rank of data and of indices
// gather_nd_c2: the last axis of indices is a constant that the axes of data after the batch cover
// gather_nd_c3: the batch axes are equal
constinit const OpSpec op_gather_nd = {
    .name = "gather_nd",
    .family = OpFamily::indexing,
    .summary =
        "The last axis of indices holds index tuples into data, after `batch_dims` common axes. Negative indices "
        "wrap, others outside are clamped.",
    .operands = {{{"data", any_dtype}, {"indices", index_dtype}}},
    .attributes = {{{"batch_dims", AttrKind::integer, "0"}}},
    .precision = Precision::moves,
    .infer = infer_gather_nd,
    .evaluate = evaluate_gather_nd,
};

// gather_elements_c1: the ranks are equal
// gather_elements_c2: indices are no longer than data on the other axes, as far as that is known
constinit const OpSpec op_gather_elements = {
    .name = "gather_elements",
    .family = OpFamily::indexing,
    .summary =
        "result[i] = data[i with i[axis] replaced by indices[i]]. Negative indices wrap, others outside are "
        "clamped.",
    .operands = {{{"data", any_dtype}, {"indices", index_dtype}}},
    .attributes = {{{"axis", AttrKind::integer, "0"}}},
    .precision = Precision::moves,
    .infer = infer_gather_elements,
    .evaluate = evaluate_gather_elements,
};

}  // namespace rtx
