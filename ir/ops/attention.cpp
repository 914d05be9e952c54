// Scaled dot-product attention and rotary position embedding, as one operation each.

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "ir/ops/attention_expansion.h"
#include "ir/ops/loops.h"
#include "ir/ops/records.h"
#include "ir/ops/rules.h"

namespace rtx {
namespace {

bool mask_dtype(DType dtype) { return dtype == DType::boolean || float_dtype(dtype); }

// dtype_c1, attention_c1 to attention_c3
Result<std::vector<Type>> infer_attention(const InferContext& context) {
  const Type &q = context.operands[0], &k = context.operands[1], &v = context.operands[2];
  if (q.dtype != k.dtype || q.dtype != v.dtype) {
    return rule_error(context, "dtype_c1", "operands have different dtypes", "one dtype for q, k and v");
  }
  const bool fits = q.rank() == 4 && k.rank() == 4 && v.rank() == 4 && context.same(q.shape[0], k.shape[0]) &&
                    context.same(q.shape[0], v.shape[0]) && context.same(k.shape[1], v.shape[1]) &&
                    context.same(k.shape[2], v.shape[2]) && context.same(q.shape[3], k.shape[3]);
  if (!fits) {
    return rule_error(context, "attention_c1", "shapes do not fit",
                      "q [batch, heads, queries, size], k [batch, kv_heads, keys, size], "
                      "v [batch, kv_heads, keys, value_size]");
  }
  if (!q.shape[1].divided_by(k.shape[1])) {
    return rule_error(context, "attention_c2", concat(q.shape[1].str(), " heads for ", k.shape[1].str(), " kv_heads"),
                      "heads is a multiple of kv_heads");
  }
  const Shape scores = {q.shape[0], q.shape[1], q.shape[2], k.shape[2]};
  for (const Type& mask : context.operands.subspan(3)) {
    bool broadcasts = mask.rank() <= 4;
    for (int i = 1; broadcasts && i <= mask.rank(); ++i) {
      const Dim& dim = mask.shape[static_cast<size_t>(mask.rank() - i)];
      broadcasts = dim.is(1) || context.same(dim, scores[static_cast<size_t>(4 - i)]);
    }
    if (!broadcasts) {
      return rule_error(context, "attention_c3", concat("a mask of shape ", to_string(mask.shape)),
                        concat("axes that are 1 or those of the scores ", to_string(scores)));
    }
  }
  return std::vector<Type>{{q.dtype, {q.shape[0], q.shape[1], q.shape[2], v.shape[3]}}};
}

Result<std::vector<Tensor>> evaluate_attention(const EvaluateContext& context) {
  Tensor out = context.results[0];
  const Tensor &q = *context.operands[0], &k = *context.operands[1], &v = *context.operands[2];
  const int64_t batch = q.shape[0], heads = q.shape[1], queries = q.shape[2], size = q.shape[3];
  const int64_t kv_heads = k.shape[1], keys = k.shape[2], value_size = v.shape[3];
  const double scale = context.attributes.real("scale"), softcap = context.attributes.real("softcap");
  const double fill = context.attributes.real("fill");
  const bool causal = context.attributes.boolean("causal"), guard = context.attributes.boolean("guard");
  RTX_ASSIGN(const int64_t offset, context.attributes.dim("offset").evaluate(context.symbols));
  RTX_ASSIGN(const int64_t window, context.attributes.dim("window").evaluate(context.symbols));
  const std::vector<int64_t> shape = {batch, heads, queries, keys};
  std::vector<Strides> strides;
  for (const Tensor* mask : context.operands.subspan(3)) strides.push_back(broadcast_strides(mask->shape, shape));

  std::vector<double> row(static_cast<size_t>(keys));
  for (int64_t r = 0; r < batch * heads * queries; ++r) {
    const int64_t i = r % queries, h = r / queries % heads, b = r / queries / heads;
    const int64_t group = b * kv_heads + (heads > 0 ? h / (heads / kv_heads) : 0);
    double top = -INFINITY, sum = 0;
    for (int64_t j = 0; j < keys; ++j) {
      double score = 0;
      for (int64_t d = 0; d < size; ++d) score += q.f64(r * size + d) * k.f64((group * keys + j) * size + d);
      score *= scale;
      if (softcap != 0) score = softcap * std::tanh(score / softcap);
      bool seen = !(causal && j > i + offset) && !(window != 0 && j <= i + offset - window);
      for (size_t m = 0; m < strides.size(); ++m) {
        const Tensor& mask = *context.operands[3 + m];
        const int64_t at = b * strides[m][0] + h * strides[m][1] + i * strides[m][2] + j * strides[m][3];
        if (mask.dtype == DType::boolean) {
          seen = seen && mask.i64(at) != 0;
        } else {
          score += mask.f64(at);
        }
      }
      if (!seen) score += fill;
      row[static_cast<size_t>(j)] = score;
      top = score > top ? score : top;
    }
    if (guard && std::all_of(row.begin(), row.end(), [](double score) { return score == -INFINITY; })) continue;
    for (double& score : row) {
      score = std::exp(score - top);
      sum += score;
    }
    for (double& weight : row) weight /= sum;
    for (int64_t d = 0; d < value_size; ++d) {
      double y = 0;
      for (int64_t j = 0; j < keys; ++j) y += row[static_cast<size_t>(j)] * v.f64((group * keys + j) * value_size + d);
      out.set_f64(r * value_size + d, y);
    }
  }
  return one(std::move(out));
}

// dtype_c1, rope_c1, rope_c2
Result<std::vector<Type>> infer_rope(const InferContext& context) {
  RTX_TRY(check_same_dtype(context));
  const Type &x = context.operands[0], &cosine = context.operands[1];
  if (x.rank() == 0 || cosine.rank() == 0 || context.operands[2].shape != cosine.shape) {
    return rule_error(context, "rope_c1", "shapes do not fit", "x of rank 1 or more, cos and sin of one shape");
  }
  const Dim &size = x.shape.back(), &pairs = cosine.shape.back();
  bool fits =
      pairs.is_constant() && size.is_constant() && 2 * pairs.constant() <= size.constant() && cosine.rank() <= x.rank();
  for (int i = 2; fits && i <= cosine.rank(); ++i) {
    const Dim& dim = cosine.shape[static_cast<size_t>(cosine.rank() - i)];
    fits = dim.is(1) || context.same(dim, x.shape[static_cast<size_t>(x.rank() - i)]);
  }
  if (!fits) {
    return rule_error(context, "rope_c2", "cos and sin do not fit x",
                      "[..., pairs] that broadcasts to x, with 2 * pairs <= the last axis of x, both constant");
  }
  return infer_same_type(context);
}

Result<std::vector<Tensor>> evaluate_rope(const EvaluateContext& context) {
  Tensor out = context.results[0];
  const Tensor &x = *context.operands[0], &cosine = *context.operands[1], &sine = *context.operands[2];
  const bool interleaved = context.attributes.boolean("interleaved");
  const int64_t size = x.shape.back(), pairs = cosine.shape.back();
  std::vector<int64_t> rows = x.shape, table_rows = cosine.shape;
  rows.back() = 1;
  table_rows.back() = 1;
  for_each_element<1>(rows, {broadcast_strides(table_rows, rows)}, [&](int64_t row, const auto& at) {
    for (int64_t d = 2 * pairs; d < size; ++d) copy_elements(out, row * size + d, x, row * size + d, 1);
    for (int64_t p = 0; p < pairs; ++p) {
      const int64_t first = row * size + (interleaved ? 2 * p : p), second = first + (interleaved ? 1 : pairs);
      const double c = cosine.f64(at[0] * pairs + p), s = sine.f64(at[0] * pairs + p);
      out.set_f64(first, x.f64(first) * c - x.f64(second) * s);
      out.set_f64(second, x.f64(second) * c + x.f64(first) * s);
    }
  });
  return one(std::move(out));
}

}  // namespace

// attention_c1: the shapes below; attention_c2: heads is a multiple of kv_heads, and head h reads kv head
// h / (heads / kv_heads); attention_c3: masks broadcast to [batch, heads, queries, keys] without enlarging it
constinit const OpSpec op_attention = {
    .name = "attention",
    .family = OpFamily::composite,
    .summary =
        "softmax(scores) v over q [batch, heads, queries, size], k and v [batch, kv_heads, keys, size]. Scores are "
        "scale * q k^T; then, with a softcap, softcap * tanh(scores / softcap). `fill` is added, once, where query i "
        "may "
        "not see key j: j > i + offset if causal, j <= i + offset - window if window is not 0, a bool mask that is "
        "false. "
        "Float masks are added. A row of -inf only gives NaN, or with `guard` zeros.",
    .operands = {{{"q", float_dtype}, {"k", float_dtype}, {"v", float_dtype}, {"masks", mask_dtype, true}}},
    .attributes = {{{"scale", AttrKind::real},
                    {"softcap", AttrKind::real, "0"},
                    {"causal", AttrKind::boolean, "false"},
                    {"offset", AttrKind::dim, "0"},
                    {"window", AttrKind::dim, "0"},
                    {"fill", AttrKind::real, "-inf"},
                    {"guard", AttrKind::boolean, "false"}}},
    .traits = trait_variadic,
    .precision = Precision::narrow,
    .infer = infer_attention,
    .evaluate = evaluate_attention,
    .expand = expand_attention,
};

// rope_c1: cos and sin have one shape; rope_c2: it is [..., pairs] and broadcasts to x but for the last axis
constinit const OpSpec op_rope = {
    .name = "rope",
    .family = OpFamily::composite,
    .summary =
        "Rotary position embedding: the first 2 * pairs elements of the last axis of x are pairs (x[p], x[p + pairs]), "
        "or (x[2p], x[2p + 1]) if interleaved, each turned to (a cos - b sin, b cos + a sin); the rest stays.",
    .operands = {{{"x", float_dtype}, {"cos", float_dtype}, {"sin", float_dtype}}},
    .attributes = {{{"interleaved", AttrKind::boolean, "false"}}},
    .precision = Precision::follows,
    .infer = infer_rope,
    .evaluate = evaluate_rope,
    .expand = expand_rope,
};

}  // namespace rtx
