// Reductions over axes, and scans. Elements are taken in row-major order; the sum is kept in f64 (int64 for integers)
// and rounded once.

#include <algorithm>
#include <limits>

#include "base/text.h"
#include "ir/ops/loops.h"
#include "ir/ops/records.h"
#include "ir/ops/rules.h"

namespace rtx {
namespace {

// reduce_c1
Result<std::vector<Type>> infer_reduce(const InferContext& context) {
  const Type& x = context.operands[0];
  const std::vector<int64_t>& axes = context.attributes.integers("axes");
  bool valid = true;
  for (size_t i = 0; i < axes.size(); ++i) {
    valid = valid && axes[i] >= 0 && axes[i] < x.rank() && (i == 0 || axes[i - 1] < axes[i]);
  }
  if (!valid) {
    return rule_error(context, "reduce_c1",
                      concat("axes [", join(axes, ", ", [](int64_t axis) { return axis; }), "] are not valid"),
                      concat("different axes in [0, ", x.rank(), "), in rising order"));
  }
  bool keepdims = context.attributes.boolean("keepdims");
  Shape shape;
  for (int i = 0; i < x.rank(); ++i) {
    bool reduced = std::binary_search(axes.begin(), axes.end(), i);
    if (!reduced) shape.push_back(x.shape[static_cast<size_t>(i)]);
    if (reduced && keepdims) shape.push_back(1);
  }
  return std::vector<Type>{{x.dtype, std::move(shape)}};
}

// For each axis of the operand the stride of the result, 0 where it is reduced.
Strides reduced_strides(const EvaluateContext& context, size_t rank) {
  Strides own = row_major_strides(context.results[0].shape), strides(rank, 0);
  const std::vector<int64_t>& axes = context.attributes.integers("axes");
  bool keepdims = context.attributes.boolean("keepdims");
  size_t next = 0;
  for (size_t i = 0; i < rank; ++i) {
    bool reduced = std::binary_search(axes.begin(), axes.end(), static_cast<int64_t>(i));
    if (!reduced) strides[i] = own[next];
    if (!reduced || keepdims) ++next;
  }
  return strides;
}

// result = finish(step(step(initial, x0), x1) ..., number of elements)
template <typename T, typename Load, typename Step>
std::vector<T> reduce(const EvaluateContext& context, T initial, Load load, Step step) {
  const Tensor& x = *context.operands[0];
  std::vector<T> totals(static_cast<size_t>(context.results[0].element_count()), initial);
  for_each_element<1>(x.shape, {reduced_strides(context, x.shape.size())}, [&](int64_t i, const auto& at) {
    T& total = totals[static_cast<size_t>(at[0])];
    total = step(total, load(x, i));
  });
  return totals;
}

struct FloatReduction {
  double initial;
  double (*step)(double, double);
};
struct IntegerReduction {
  int64_t (*initial)(DType);
  int64_t (*step)(int64_t, int64_t);
};

Tensor evaluate_reduction(const EvaluateContext& context, FloatReduction floats, IntegerReduction integers, bool mean) {
  Tensor out = context.results[0];
  const Tensor& x = *context.operands[0];
  int64_t n = out.element_count(), count = n == 0 ? 0 : x.element_count() / n;
  if (in_f64(x)) {
    auto load = [](const Tensor& t, int64_t i) { return t.f64(i); };
    std::vector<double> totals = reduce<double>(context, floats.initial, load, floats.step);
    for (int64_t i = 0; i < n; ++i) {
      double total = totals[static_cast<size_t>(i)];
      out.set_f64(i, mean ? total / static_cast<double>(count) : total);
    }
  } else {
    auto load = [](const Tensor& t, int64_t i) { return t.i64(i); };
    std::vector<int64_t> totals = reduce<int64_t>(context, integers.initial(x.dtype), load, integers.step);
    for (int64_t i = 0; i < n; ++i) {
      int64_t total = totals[static_cast<size_t>(i)];
      out.set_i64(i, !mean ? total : count == 0 ? 0 : total / count);
    }
  }
  return out;
}

double add(double a, double b) { return a + b; }
double multiply(double a, double b) { return a * b; }
int64_t smaller(int64_t a, int64_t b) { return std::min(a, b); }
int64_t larger(int64_t a, int64_t b) { return std::max(a, b); }
int64_t zero(DType) { return 0; }
int64_t unit(DType) { return 1; }
constexpr double infinity = std::numeric_limits<double>::infinity();

Result<std::vector<Tensor>> evaluate_sum(const EvaluateContext& context) {
  return one(evaluate_reduction(context, {0, add}, {zero, wrap_add}, false));
}
Result<std::vector<Tensor>> evaluate_mean(const EvaluateContext& context) {
  return one(evaluate_reduction(context, {0, add}, {zero, wrap_add}, true));
}
Result<std::vector<Tensor>> evaluate_max(const EvaluateContext& context) {
  return one(evaluate_reduction(context, {-infinity, nan_maximum}, {lowest_integer, larger}, false));
}
Result<std::vector<Tensor>> evaluate_min(const EvaluateContext& context) {
  return one(evaluate_reduction(context, {infinity, nan_minimum}, {highest_integer, smaller}, false));
}
Result<std::vector<Tensor>> evaluate_prod(const EvaluateContext& context) {
  return one(evaluate_reduction(context, {1, multiply}, {unit, wrap_mul}, false));
}

constexpr OpSpec reduction(std::string_view name, std::string_view summary,
                           Result<std::vector<Tensor>> (*evaluate)(const EvaluateContext&)) {
  return {.name = name,
          .family = OpFamily::reduction,
          .summary = summary,
          .operands = {{{"x", number_dtype}}},
          .attributes = {{{"axes", AttrKind::integers}, {"keepdims", AttrKind::boolean, "false"}}},
          .precision = Precision::follows,  // convert_precision makes an exception of long sums
          .infer = infer_reduce,
          .evaluate = evaluate};
}

// axis_c1
Result<std::vector<Type>> infer_argmax(const InferContext& context) {
  Shape shape = context.operands[0].shape;
  RTX_ASSIGN(int64_t axis, check_axis(context, "axis", static_cast<int>(shape.size())));
  if (context.attributes.boolean("keepdims")) {
    shape[static_cast<size_t>(axis)] = 1;
  } else {
    shape.erase(shape.begin() + axis);
  }
  return std::vector<Type>{{DType::i64, std::move(shape)}};
}

// Whether `a` beats `b` in argmax: larger, or the first NaN.
bool beats(double a, double b) { return a > b || (std::isnan(a) && !std::isnan(b)); }
bool beats(int64_t a, int64_t b) { return a > b; }
bool ties(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }
bool ties(int64_t a, int64_t b) { return a == b; }

template <typename T>
void argmax_rows(const std::vector<T>& x, const std::vector<int64_t>& shape, size_t axis, bool select_last,
                 Tensor& out) {
  int64_t length = shape[axis], inner = extent(shape, axis + 1, shape.size());
  for (int64_t i = 0, n = out.element_count(); i < n; ++i) {
    int64_t base = i / inner * length * inner + i % inner, best = 0;
    for (int64_t j = 1; j < length; ++j) {
      T value = x[static_cast<size_t>(base + j * inner)], top = x[static_cast<size_t>(base + best * inner)];
      if (beats(value, top) || (select_last && ties(value, top))) best = j;
    }
    out.set_i64(i, best);
  }
}

Result<std::vector<Tensor>> evaluate_argmax(const EvaluateContext& context) {
  Tensor out = context.results[0];
  const Tensor& x = *context.operands[0];
  size_t axis = static_cast<size_t>(context.attributes.integer("axis"));
  bool select_last = context.attributes.boolean("select_last");
  if (x.shape[axis] == 0) return one(std::move(out));
  if (in_f64(x)) {
    argmax_rows(load_all_f64(x), x.shape, axis, select_last, out);
  } else {
    argmax_rows(load_all_i64(x), x.shape, axis, select_last, out);
  }
  return one(std::move(out));
}

// axis_c1
Result<std::vector<Type>> infer_cumsum(const InferContext& context) {
  RTX_TRY(check_axis(context, "axis", context.operands[0].rank()));
  return infer_same_type(context);
}

template <typename T, typename Add, typename Store>
void cumsum_rows(const EvaluateContext& context, const std::vector<T>& x, Add add_step, Store store) {
  const std::vector<int64_t>& shape = context.operands[0]->shape;
  size_t axis = static_cast<size_t>(context.attributes.integer("axis"));
  bool exclusive = context.attributes.boolean("exclusive"), reverse = context.attributes.boolean("reverse");
  int64_t length = shape[axis], inner = extent(shape, axis + 1, shape.size()), outer = extent(shape, 0, axis);
  for (int64_t row = 0; row < outer * inner; ++row) {
    int64_t base = row / inner * length * inner + row % inner;
    T total = 0;
    for (int64_t k = 0; k < length; ++k) {
      int64_t at = base + (reverse ? length - 1 - k : k) * inner;
      T with_element = add_step(total, x[static_cast<size_t>(at)]);
      store(at, exclusive ? total : with_element);
      total = with_element;
    }
  }
}

Result<std::vector<Tensor>> evaluate_cumsum(const EvaluateContext& context) {
  Tensor out = context.results[0];
  const Tensor& x = *context.operands[0];
  if (in_f64(x)) {
    cumsum_rows(context, load_all_f64(x), add, [&](int64_t i, double value) { out.set_f64(i, value); });
  } else {
    cumsum_rows(context, load_all_i64(x), wrap_add, [&](int64_t i, int64_t value) { out.set_i64(i, value); });
  }
  return one(std::move(out));
}

}  // namespace

// reduce_c1: axes are different, in range and in rising order
constinit const OpSpec op_reduce_sum = reduction("reduce_sum", "Sum over the axes; 0 over none.", evaluate_sum);
constinit const OpSpec op_reduce_mean =
    reduction("reduce_mean", "Mean over the axes; NaN over no elements. Integers: the truncated quotient, 0 over none.",
              evaluate_mean);
constinit const OpSpec op_reduce_max =
    reduction("reduce_max", "Maximum over the axes; NaN if one is NaN; -inf or the lowest integer over no elements.",
              evaluate_max);
constinit const OpSpec op_reduce_min =
    reduction("reduce_min", "Minimum over the axes; NaN if one is NaN; inf or the highest integer over no elements.",
              evaluate_min);
constinit const OpSpec op_reduce_prod = reduction("reduce_prod", "Product over the axes; 1 over none.", evaluate_prod);

constinit const OpSpec op_argmax = {
    .name = "argmax",
    .family = OpFamily::reduction,
    .summary =
        "Index of the largest element along an axis, as i64: the first of equal ones, or the last if `select_last`. "
        "NaN counts as largest; 0 over no elements.",
    .operands = {{{"x", number_dtype}}},
    .attributes = {{{"axis", AttrKind::integer},
                    {"keepdims", AttrKind::boolean, "false"},
                    {"select_last", AttrKind::boolean, "false"}}},
    .infer = infer_argmax,
    .evaluate = evaluate_argmax,
};

constinit const OpSpec op_cumsum = {
    .name = "cumsum",
    .family = OpFamily::reduction,
    .summary = "Running sum along an axis, without the element itself if `exclusive`, from the end if `reverse`.",
    .operands = {{{"x", number_dtype}}},
    .attributes = {{{"axis", AttrKind::integer},
                    {"exclusive", AttrKind::boolean, "false"},
                    {"reverse", AttrKind::boolean, "false"}}},
    .infer = infer_cumsum,
    .evaluate = evaluate_cumsum,
};

}  // namespace rtx
