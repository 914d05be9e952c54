// The tables of converters, one a family file.
#pragma once

#include <span>

#include "base/text.h"
#include "frontend/converter.h"

namespace rtx::onnx {

std::span<const Converter> elementwise_table();
std::span<const Converter> shape_table();
std::span<const Converter> movement_table();
std::span<const Converter> indexing_table();
std::span<const Converter> scatter_table();
std::span<const Converter> selection_table();
std::span<const Converter> blocks_table();
std::span<const Converter> window_table();
std::span<const Converter> reduction_table();
std::span<const Converter> contraction_table();
std::span<const Converter> normalization_table();
std::span<const Converter> activation_table();
std::span<const Converter> attention_table();
std::span<const Converter> contrib_attention_table();
std::span<const Converter> group_query_attention_table();
std::span<const Converter> quantization_table();
std::span<const Converter> integer_products_table();
std::span<const Converter> qlinear_table();
std::span<const Converter> pooling_table();
std::span<const Converter> resize_table();
std::span<const Converter> packed_weights_table();
std::span<const Converter> einsum_table();
std::span<const Converter> slicing_table();
std::span<const Converter> sequence_table();
std::span<const Converter> linear_attention_table();
std::span<const Converter> decoder_attention_table();
std::span<const Converter> position_bias_table();

}  // namespace rtx::onnx
