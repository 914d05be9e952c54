#include <algorithm>
#include <array>
#include <map>
#include <string>

#include "frontend/converters/tables.h"

namespace rtx::onnx {

std::span<const std::span<const Converter>> all_converters() {
  static const std::array tables = {
      elementwise_table(),
      shape_table(),
      movement_table(),
      indexing_table(),
      scatter_table(),
      selection_table(),
      blocks_table(),
      window_table(),
      reduction_table(),
      contraction_table(),
      normalization_table(),
      activation_table(),
      attention_table(),
      contrib_attention_table(),
      group_query_attention_table(),
      quantization_table(),
      integer_products_table(),
      qlinear_table(),
      pooling_table(),
      resize_table(),
      packed_weights_table(),
      einsum_table(),
      slicing_table(),
      sequence_table(),
      linear_attention_table(),
      decoder_attention_table(),
      position_bias_table(),
  };
  return tables;
}

const Converter* find_converter(std::string_view domain, std::string_view op_type, int64_t opset, bool* known) {
  using Key = std::pair<std::string_view, std::string_view>;
  static const auto index = [] {
    std::map<Key, std::vector<const Converter*>> rows;
    for (std::span<const Converter> table : all_converters())
      for (const Converter& row : table) rows[{row.domain, row.op_type}].push_back(&row);
    for (auto& [key, versions] : rows)
      std::sort(versions.begin(), versions.end(), [](auto* a, auto* b) { return a->since < b->since; });
    return rows;
  }();
  auto found = index.find({domain, op_type});
  *known = found != index.end();
  if (!*known) return nullptr;
  const Converter* best = nullptr;
  for (const Converter* row : found->second)
    if (row->since <= opset) best = row;
  return best;
}

int64_t first_version(std::string_view domain, std::string_view op_type) {
  int64_t first = 0;
  for (std::span<const Converter> table : all_converters())
    for (const Converter& row : table)
      if (row.domain == domain && row.op_type == op_type && (first == 0 || row.since < first)) first = row.since;
  return first;
}

}  // namespace rtx::onnx
