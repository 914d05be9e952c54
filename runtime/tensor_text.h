// Tensors on the command line and in a terminal.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "runtime/host_tensor.h"

namespace rtx::runtime {

// "2x3xf32", "i64" (rank 0).
struct TensorTypeText {
  DType dtype = DType::f32;
  std::vector<int64_t> shape;
};
std::optional<TensorTypeText> parse_tensor_type(std::string_view text);

// The elements of a tensor as text: numbers separated by commas (nan, inf, true and false are numbers); a single number
// fills the tensor. Errors: E007 (not a number, wrong count, outside the type).
Result<HostTensor> parse_elements(const TensorTypeText& type, std::string_view text);

// "f32[1, 5, 1000]: min -1.25, max 3.5, mean 0.04; 0.1 0.2 0.3 ..."
std::string summary(const HostTensor& tensor, int64_t shown = 8);

// SHA-256 over the outputs in order: of each the type text, a newline, and the bytes.
std::string hash_tensors(std::span<const HostTensor> tensors);

}  // namespace rtx::runtime
