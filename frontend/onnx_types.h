// ONNX element types (TensorProto.DataType) and what the IR makes of them.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/dtype.h"

namespace rtx::onnx {

struct OnnxType {
  int32_t number;         // TensorProto.DataType
  std::string_view name;  // as in "tensor(float16)"
  int bits;               // of one element in raw_data; 0: its size is not checked
  std::optional<DType> dtype;
};

// Null for a number that no version of ONNX up to the pinned schema defines, and for 0 (undefined).
const OnnxType* find_onnx_type(int64_t number);

// The IR dtype; nullopt for unknown numbers and for types that the IR does not have.
std::optional<DType> dtype_of(int64_t number);

}  // namespace rtx::onnx
