// Operators that the importer knows and refuses.
#pragma once

#include <string_view>

namespace rtx::onnx {

// Why, in a few words; empty for an operator that has converters or that is not known at all. `domain`: "" is ai.onnx.
std::string_view refusal_of(std::string_view domain, std::string_view op_type);

}  // namespace rtx::onnx
