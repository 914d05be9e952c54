// Matrix products and convolutions. Sums run over the contracted axis in rising order, in f64 (int64 for integers).

#include "base/text.h"
#include "ir/ops/loops.h"
#include "ir/ops/records.h"
#include "ir/ops/rules.h"

namespace rtx {
namespace {

// dtype_c1, matmul_c1, matmul_c2, broadcast_c1
Result<std::vector<Type>> infer_matmul(const InferContext& context) {
  RTX_TRY(check_same_dtype(context));
  const Shape &lhs = context.operands[0].shape, &rhs = context.operands[1].shape;
  if (lhs.size() < 2 || rhs.size() < 2) {
    return rule_error(context, "matmul_c2", "an operand has fewer than two axes", "ranks of 2 or more");
  }
  bool transpose_lhs = context.attributes.boolean("transpose_lhs");
  bool transpose_rhs = context.attributes.boolean("transpose_rhs");
  const Dim &m = lhs[lhs.size() - (transpose_lhs ? 1 : 2)], &lhs_k = lhs[lhs.size() - (transpose_lhs ? 2 : 1)];
  const Dim &n = rhs[rhs.size() - (transpose_rhs ? 2 : 1)], &rhs_k = rhs[rhs.size() - (transpose_rhs ? 1 : 2)];
  if (!context.same(lhs_k, rhs_k)) {
    return rule_error(
        context, "matmul_c1", "inner dimensions differ",
        concat("lhs.shape[", transpose_lhs ? "-2" : "-1", "] == rhs.shape[", transpose_rhs ? "-1" : "-2", "]"));
  }
  RTX_ASSIGN(Shape shape,
             broadcast_shapes(context, Shape(lhs.begin(), lhs.end() - 2), Shape(rhs.begin(), rhs.end() - 2)));
  shape.push_back(m);
  shape.push_back(n);
  return std::vector<Type>{{context.operands[0].dtype, std::move(shape)}};
}

// sum over k of lhs[m, k] * rhs[k, n] for each batch; `at` turns a sum into an element of `out`.
template <typename T, typename MultiplyAdd, typename Store>
void matmul(const EvaluateContext& context, const std::vector<T>& lhs, const std::vector<T>& rhs,
            MultiplyAdd multiply_add, Store store) {
  const std::vector<int64_t>&lhs_shape = context.operands[0]->shape, &rhs_shape = context.operands[1]->shape;
  const std::vector<int64_t>& shape = context.results[0].shape;
  size_t rank = shape.size();
  int64_t m = shape[rank - 2], n = shape[rank - 1];
  bool transpose_lhs = context.attributes.boolean("transpose_lhs");
  bool transpose_rhs = context.attributes.boolean("transpose_rhs");
  int64_t k = lhs_shape[lhs_shape.size() - (transpose_lhs ? 2 : 1)];
  int64_t lhs_m = transpose_lhs ? 1 : k, lhs_k = transpose_lhs ? m : 1;
  int64_t rhs_k = transpose_rhs ? 1 : n, rhs_n = transpose_rhs ? k : 1;

  std::vector<int64_t> batch(shape.begin(), shape.end() - 2);
  auto batch_strides = [&](const std::vector<int64_t>& operand) {
    Strides strides = broadcast_strides({operand.begin(), operand.end() - 2}, batch);
    for (int64_t& stride : strides) stride *= operand[operand.size() - 2] * operand[operand.size() - 1];
    return strides;
  };
  std::vector<T> sums(static_cast<size_t>(n));
  for_each_element<2>(batch, {batch_strides(lhs_shape), batch_strides(rhs_shape)}, [&](int64_t b, const auto& at) {
    for (int64_t i = 0; i < m; ++i) {
      std::fill(sums.begin(), sums.end(), T{0});
      // k outside n: the same order of summation for each element, and rows of rhs are read in sequence.
      for (int64_t p = 0; p < k; ++p) {
        T x = lhs[static_cast<size_t>(at[0] + i * lhs_m + p * lhs_k)];
        const T* row = rhs.data() + at[1] + p * rhs_k;
        for (int64_t j = 0; j < n; ++j)
          sums[static_cast<size_t>(j)] = multiply_add(x, row[j * rhs_n], sums[static_cast<size_t>(j)]);
      }
      for (int64_t j = 0; j < n; ++j) store((b * m + i) * n + j, sums[static_cast<size_t>(j)]);
    }
  });
}

Result<std::vector<Tensor>> evaluate_matmul(const EvaluateContext& context) {
  Tensor out = context.results[0];
  const Tensor &lhs = *context.operands[0], &rhs = *context.operands[1];
  if (in_f64(lhs)) {
    matmul(
        context, load_all_f64(lhs), load_all_f64(rhs), [](double x, double y, double sum) { return sum + x * y; },
        [&](int64_t i, double sum) { out.set_f64(i, sum); });
  } else {
    matmul(
        context, load_all_i64(lhs), load_all_i64(rhs),
        [](int64_t x, int64_t y, int64_t sum) { return wrap_add(sum, wrap_mul(x, y)); },
        [&](int64_t i, int64_t sum) { out.set_i64(i, sum); });
  }
  return one(std::move(out));
}

// The rules of conv that concern the attributes: conv_c2, conv_c3.
Result<void> check_conv_attributes(const InferContext& context, size_t spatial) {
  const auto &strides = context.attributes.integers("strides"), &dilations = context.attributes.integers("dilations");
  const auto& pads = context.attributes.integers("pads");
  constexpr int64_t limit = int64_t{1} << 31;  // keeps every product below far from overflow
  auto all_in = [](const std::vector<int64_t>& values, int64_t low) {
    for (int64_t value : values) {
      if (value < low || value >= limit) return false;
    }
    return true;
  };
  if (strides.size() != spatial || dilations.size() != spatial || pads.size() != 2 * spatial) {
    return rule_error(context, "conv_c2", "strides, dilations and pads do not fit the rank",
                      concat(spatial, " strides and dilations, ", 2 * spatial, " pads"));
  }
  if (!all_in(strides, 1) || !all_in(dilations, 1) || !all_in(pads, 0) || context.attributes.integer("groups") < 1) {
    return rule_error(context, "conv_c3", "an attribute is out of range",
                      "strides, dilations and groups of 1 or more, pads of 0 or more, below 2^31");
  }
  return Ok{};
}

// dtype_c1, conv_c1 to conv_c6
Result<std::vector<Type>> infer_conv(const InferContext& context) {
  RTX_TRY(check_same_dtype(context));
  const Shape &x = context.operands[0].shape, &w = context.operands[1].shape;
  if (x.size() < 3 || w.size() != x.size()) {
    return rule_error(context, "conv_c1", "ranks do not fit", "x and w of one rank, 3 or more");
  }
  size_t spatial = x.size() - 2;
  RTX_TRY(check_conv_attributes(context, spatial));
  int64_t groups = context.attributes.integer("groups");
  if (!context.same(x[1], w[1] * Dim(groups)) || !w[0].is_constant() || w[0].constant() % groups != 0) {
    return rule_error(context, "conv_c4", concat("channels do not fit ", groups, " groups"),
                      "x.shape[1] == w.shape[1] * groups, and groups divides w.shape[0]");
  }
  if (context.operands.size() > 2) {
    const Shape& bias = context.operands[2].shape;
    if (bias.size() != 1 || !context.same(bias[0], w[0])) {
      return rule_error(context, "conv_c5", "bias does not fit", concat("bias of shape [", w[0].str(), "]"));
    }
  }
  Shape shape = {x[0], w[0]};
  for (size_t i = 0; i < spatial; ++i) {
    const auto& pads = context.attributes.integers("pads");
    Dim window = Dim(context.attributes.integers("dilations")[i]) * (w[2 + i] - 1) + 1;
    Dim room = x[2 + i] + Dim(pads[i]) + Dim(pads[spatial + i]) - window;
    if (known_negative(room)) {
      return rule_error(context, "conv_c6", concat("the window is larger than padded axis ", 2 + i),
                        "a window that fits at least once");
    }
    shape.push_back(floordiv(room, Dim(context.attributes.integers("strides")[i])) + 1);
  }
  return std::vector<Type>{{context.operands[0].dtype, std::move(shape)}};
}

Result<std::vector<Tensor>> evaluate_conv(const EvaluateContext& context) {
  Tensor out = context.results[0];
  const std::vector<int64_t>&x_shape = context.operands[0]->shape, &w_shape = context.operands[1]->shape;
  std::vector<double> x = load_all_f64(*context.operands[0]), w = load_all_f64(*context.operands[1]);
  const auto &stride = context.attributes.integers("strides"), &dilation = context.attributes.integers("dilations");
  const auto& pads = context.attributes.integers("pads");
  int64_t outputs_per_group = w_shape[0] / context.attributes.integer("groups"), channels = w_shape[1];
  std::vector<int64_t> window(w_shape.begin() + 2, w_shape.end());
  Strides x_strides = row_major_strides(x_shape);
  int64_t window_elems = extent(window, 0, window.size());

  int64_t i = 0;
  for_each_index(out.shape, [&](const std::vector<int64_t>& at) {  // [batch, output channel, spatial...]
    double sum = context.operands.size() > 2 ? context.operands[2]->f64(at[1]) : 0.0;
    int64_t first_channel = at[1] / outputs_per_group * channels;
    for (int64_t c = 0; c < channels; ++c) {
      int64_t tap = (at[1] * channels + c) * window_elems;
      for_each_index(window, [&](const std::vector<int64_t>& offset) {
        int64_t from = at[0] * x_strides[0] + (first_channel + c) * x_strides[1];
        bool inside = true;
        for (size_t k = 0; inside && k < offset.size(); ++k) {
          int64_t position = at[2 + k] * stride[k] + offset[k] * dilation[k] - pads[k];
          inside = position >= 0 && position < x_shape[2 + k];
          from += position * x_strides[2 + k];
        }
        if (inside) sum += x[static_cast<size_t>(from)] * w[static_cast<size_t>(tap)];
        ++tap;
      });
    }
    out.set_f64(i++, sum);
  });
  return one(std::move(out));
}

}  // namespace

// matmul_c1: the contracted axes are equal
// matmul_c2: both ranks are 2 or more
constinit const OpSpec op_matmul = {
    .name = "matmul",
    .family = OpFamily::contraction,
    .summary = "Matrix product over the last two axes; leading axes broadcast. A sum over no elements is 0.",
    .operands = {{{"lhs", number_dtype}, {"rhs", number_dtype}}},
    .attributes = {{{"transpose_lhs", AttrKind::boolean, "false"}, {"transpose_rhs", AttrKind::boolean, "false"}}},
    .precision = Precision::narrow,
    .infer = infer_matmul,
    .evaluate = evaluate_matmul,
};

// conv_c1: x [batch, channels, spatial...] and w [outputs, channels / groups, window...] have one rank, 3 or more
// conv_c2: one stride and dilation for each spatial axis, pads (all begins, then all ends) twice as many
// conv_c3: strides, dilations and groups are 1 or more, pads 0 or more
// conv_c4: channels and outputs fit the groups
// conv_c5: bias is [outputs]
// conv_c6: the window fits into the padded axis, as far as that is known
constinit const OpSpec op_conv = {
    .name = "conv",
    .family = OpFamily::contraction,
    .summary = "Cross-correlation, channels first, zero padding, any number of spatial axes.",
    .operands = {{{"x", float_dtype}, {"w", float_dtype}, {"bias", float_dtype, true}}},
    .attributes = {{{"strides", AttrKind::integers},
                    {"dilations", AttrKind::integers},
                    {"pads", AttrKind::integers},
                    {"groups", AttrKind::integer, "1"}}},
    .precision = Precision::narrow,
    .infer = infer_conv,
    .evaluate = evaluate_conv,
};

}  // namespace rtx
