// Operations that write at computed indices: data with updates put into it. A negative index counts from the end; an
// update whose index is then still outside is dropped, so nothing is ever written out of bounds (ONNX calls such an
// index an error). Updates are applied in the order of their indices, so of several for one element the last one wins
// where `reduction` is none.

#include "base/text.h"
#include "ir/ops/loops.h"
#include "ir/ops/records.h"
#include "ir/ops/rules.h"

namespace rtx {
namespace {

// dtype_c1 over data and updates, scatter_c1
Result<void> check_scatter(const InferContext& context) {
  const Type &data = context.operands[0], &updates = context.operands[2];
  if (data.dtype != updates.dtype) return rule_error(context, "dtype_c1", "data and updates differ", "one dtype");
  const std::string& reduction = context.attributes.string("reduction");
  if (reduction == "none") return Ok{};
  const bool known = reduction == "add" || reduction == "mul" || reduction == "min" || reduction == "max";
  if (!known || !number_dtype(data.dtype)) {
    return rule_error(context, "scatter_c1", concat("reduction '", reduction, "'"),
                      "'none', or 'add', 'mul', 'min' or 'max' of numbers");
  }
  return Ok{};
}

// dtype_c1, scatter_c1, axis_c1, scatter_elements_c1, scatter_elements_c2
Result<std::vector<Type>> infer_scatter_elements(const InferContext& context) {
  RTX_TRY(check_scatter(context));
  const Type &data = context.operands[0], &indices = context.operands[1], &updates = context.operands[2];
  RTX_TRY(check_axis(context, "axis", data.rank()));
  if (data.rank() != indices.rank() || indices.rank() != updates.rank()) {
    return rule_error(context, "scatter_elements_c1", "the operands have different ranks", "equal ranks");
  }
  for (size_t i = 0; i < indices.shape.size(); ++i) {
    if (!context.same(indices.shape[i], updates.shape[i])) {
      return rule_error(context, "scatter_elements_c2", "indices and updates have different shapes", "equal shapes");
    }
  }
  return std::vector<Type>{data};
}

// dtype_c1, scatter_c1, scatter_nd_c1, scatter_nd_c2
Result<std::vector<Type>> infer_scatter_nd(const InferContext& context) {
  RTX_TRY(check_scatter(context));
  const Type &data = context.operands[0], &indices = context.operands[1], &updates = context.operands[2];
  const Dim depth = indices.rank() > 0 ? indices.shape.back() : Dim(0);
  if (!depth.is_constant() || depth.constant() < 1 || depth.constant() > data.rank()) {
    return rule_error(context, "scatter_nd_c1", concat("the last axis of indices is ", depth.str()),
                      concat("a constant in [1, ", data.rank(), "]"));
  }
  Shape shape(indices.shape.begin(), indices.shape.end() - 1);
  shape.insert(shape.end(), data.shape.begin() + depth.constant(), data.shape.end());
  bool same = shape.size() == updates.shape.size();
  for (size_t i = 0; same && i < shape.size(); ++i) same = context.same(shape[i], updates.shape[i]);
  if (!same) {
    return rule_error(context, "scatter_nd_c2", "updates have the wrong shape", to_string(shape));
  }
  return std::vector<Type>{data};
}

// The index counted from the front; -1 if it is outside.
int64_t wrapped(int64_t index, int64_t length) {
  if (index < 0) index += length;
  return index >= 0 && index < length ? index : -1;
}

double add(double a, double b) { return a + b; }
double multiply(double a, double b) { return a * b; }
int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

// Takes updates for single elements; with a reduction they are gathered in f64 (int64) and rounded once, at the end.
class Accumulator {
 public:
  explicit Accumulator(const EvaluateContext& context)
      : out_(*context.operands[0]), updates_(*context.operands[2]), whole_(in_f64(out_)) {
    const std::string& reduction = context.attributes.string("reduction");
    copies_ = reduction == "none";
    if (copies_) return;
    on_floats_ = reduction == "add"   ? add
                 : reduction == "mul" ? multiply
                 : reduction == "min" ? nan_minimum
                                      : nan_maximum;
    on_integers_ = reduction == "add"   ? wrap_add
                   : reduction == "mul" ? wrap_mul
                   : reduction == "min" ? smaller
                                        : larger;
    if (whole_) {
      floats_ = load_all_f64(out_);
    } else {
      integers_ = load_all_i64(out_);
    }
  }

  // Updates `count` neighbouring elements.
  void apply(int64_t to, int64_t from, int64_t count) {
    if (copies_) return copy_elements(out_, to, updates_, from, count);
    for (int64_t i = 0; i < count; ++i) {
      const size_t at = static_cast<size_t>(to + i);
      if (whole_) {
        floats_[at] = on_floats_(floats_[at], updates_.f64(from + i));
      } else {
        integers_[at] = on_integers_(integers_[at], updates_.i64(from + i));
      }
    }
  }

  Tensor result() {
    for (size_t i = 0; i < floats_.size(); ++i) out_.set_f64(static_cast<int64_t>(i), floats_[i]);
    for (size_t i = 0; i < integers_.size(); ++i) out_.set_i64(static_cast<int64_t>(i), integers_[i]);
    return std::move(out_);
  }

 private:
  Tensor out_;
  const Tensor& updates_;
  bool whole_, copies_ = false;
  double (*on_floats_)(double, double) = nullptr;
  int64_t (*on_integers_)(int64_t, int64_t) = nullptr;
  std::vector<double> floats_;
  std::vector<int64_t> integers_;
};

Result<std::vector<Tensor>> evaluate_scatter_elements(const EvaluateContext& context) {
  const Tensor &data = *context.operands[0], &indices = *context.operands[1];
  const size_t axis = static_cast<size_t>(context.attributes.integer("axis"));
  const Strides strides = row_major_strides(data.shape);
  Accumulator accumulator(context);
  int64_t i = -1;
  for_each_index(indices.shape, [&](const std::vector<int64_t>& index) {
    ++i;
    int64_t at = 0;
    for (size_t k = 0; k < index.size(); ++k) {
      const int64_t to = k == axis ? wrapped(indices.i64(i), data.shape[k]) : index[k];
      if (to < 0 || to >= data.shape[k]) return;
      at += to * strides[k];
    }
    accumulator.apply(at, i, 1);
  });
  return one(accumulator.result());
}

Result<std::vector<Tensor>> evaluate_scatter_nd(const EvaluateContext& context) {
  const Tensor &data = *context.operands[0], &indices = *context.operands[1];
  const size_t depth = static_cast<size_t>(indices.shape.back());
  const Strides strides = row_major_strides(data.shape);
  const int64_t inner = extent(data.shape, depth, data.shape.size());
  const int64_t tuples = extent(indices.shape, 0, indices.shape.size() - 1);
  Accumulator accumulator(context);
  for (int64_t i = 0; i < tuples; ++i) {
    int64_t at = 0;
    bool inside = true;
    for (size_t k = 0; inside && k < depth; ++k) {
      const int64_t to = wrapped(indices.i64(i * static_cast<int64_t>(depth) + static_cast<int64_t>(k)), data.shape[k]);
      inside = to >= 0;
      at += to * strides[k];
    }
    if (inside) accumulator.apply(at, i * inner, inner);
  }
  return one(accumulator.result());
}

}  // namespace

// scatter_c1: `reduction` is none, or add, mul, min or max of numbers
// scatter_nd_c1: the last axis of indices is a constant in [1, rank of data]
// scatter_nd_c2: updates have the shape of indices without their last axis, then the rest of data
constinit const OpSpec op_scatter_nd = {
    .name = "scatter_nd",
    .family = OpFamily::scatter,
    .summary =
        "data with slices replaced: the last axis of indices holds index tuples into data. Negative indices wrap, "
        "updates outside are dropped. `reduction` (none, add, mul, min, max) combines what is there with the update, "
        "in the order of the indices; none takes the last one.",
    .operands = {{{"data", any_dtype}, {"indices", index_dtype}, {"updates", any_dtype}}},
    .attributes = {{{"reduction", AttrKind::string, "none"}}},
    .infer = infer_scatter_nd,
    .evaluate = evaluate_scatter_nd,
};

// scatter_elements_c1: the ranks are equal
// scatter_elements_c2: indices and updates have one shape
constinit const OpSpec op_scatter_elements = {
    .name = "scatter_elements",
    .family = OpFamily::scatter,
    .summary =
        "data with element [i with i[axis] replaced by indices[i]] replaced by updates[i]. Indices and `reduction` as "
        "in scatter_nd; updates outside data on the other axes are dropped too.",
    .operands = {{{"data", any_dtype}, {"indices", index_dtype}, {"updates", any_dtype}}},
    .attributes = {{{"axis", AttrKind::integer, "0"}, {"reduction", AttrKind::string, "none"}}},
    .infer = infer_scatter_elements,
    .evaluate = evaluate_scatter_elements,
};

}  // namespace rtx
