// Operations that put elements in order.

#include <algorithm>
#include <numeric>

#include "base/text.h"
#include "ir/ops/loops.h"
#include "ir/ops/records.h"
#include "ir/ops/rules.h"

namespace rtx {
namespace {

// axis_c1, topk_c1
Result<std::vector<Type>> infer_topk(const InferContext& context) {
  const Type& x = context.operands[0];
  RTX_ASSIGN(int64_t axis, check_axis(context, "axis", x.rank()));
  const Dim& k = context.attributes.dim("k");
  Shape shape = x.shape;
  Dim& length = shape[static_cast<size_t>(axis)];
  if (known_negative(k) || known_negative(length - k)) {
    return rule_error(context, "topk_c1", concat("k is ", k.str(), " for axis ", axis),
                      concat("0 <= k <= ", length.str()));
  }
  length = k;
  return std::vector<Type>{{x.dtype, shape}, {DType::i64, shape}};
}

// Whether `a` stands before `b` in rising order: NaN counts as largest.
bool is_below(double a, double b) { return a < b || (std::isnan(b) && !std::isnan(a)); }
bool is_below(int64_t a, int64_t b) { return a < b; }

template <typename T>
void topk_rows(const EvaluateContext& context, const std::vector<T>& x, std::vector<Tensor>& results) {
  const Tensor& data = *context.operands[0];
  const size_t axis = static_cast<size_t>(context.attributes.integer("axis"));
  const bool largest = context.attributes.boolean("largest");
  const int64_t length = data.shape[axis], wanted = results[0].shape[axis], k = std::min(wanted, length);
  const int64_t inner = extent(data.shape, axis + 1, data.shape.size()), outer = extent(data.shape, 0, axis);
  std::vector<int64_t> order(static_cast<size_t>(length));
  for (int64_t row = 0; row < outer * inner; ++row) {
    const int64_t from = row / inner * length * inner + row % inner, to = row / inner * wanted * inner + row % inner;
    auto at = [&](int64_t j) { return x[static_cast<size_t>(from + j * inner)]; };
    std::iota(order.begin(), order.end(), 0);
    std::partial_sort(order.begin(), order.begin() + k, order.end(), [&](int64_t a, int64_t b) {
      const T first = at(a), second = at(b);
      if (largest ? is_below(second, first) : is_below(first, second)) return true;
      if (largest ? is_below(first, second) : is_below(second, first)) return false;
      return a < b;
    });
    for (int64_t j = 0; j < k; ++j) {
      const int64_t place = order[static_cast<size_t>(j)];
      copy_elements(results[0], to + j * inner, data, from + place * inner, 1);
      results[1].set_i64(to + j * inner, place);
    }
  }
}

Result<std::vector<Tensor>> evaluate_topk(const EvaluateContext& context) {
  std::vector<Tensor> results(context.results.begin(), context.results.end());
  const Tensor& x = *context.operands[0];
  if (in_f64(x)) {
    topk_rows(context, load_all_f64(x), results);
  } else {
    topk_rows(context, load_all_i64(x), results);
  }
  return results;
}

}  // namespace

// topk_c1: 0 <= k <= the length of the axis, as far as that is known
constinit const OpSpec op_topk = {
    .name = "topk",
    .family = OpFamily::ordering,
    .summary =
        "The k largest (or smallest) elements along an axis in falling (rising) order, and their i64 indices. Of equal "
        "elements the one with the lower index comes first; NaN counts as largest. Places past the length of the axis "
        "hold 0.",
    .operands = {{{"x", number_dtype}}},
    .attributes = {{{"axis", AttrKind::integer}, {"k", AttrKind::dim}, {"largest", AttrKind::boolean, "true"}}},
    .infer = infer_topk,
    .evaluate = evaluate_topk,
};

}  // namespace rtx
