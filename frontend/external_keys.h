// The key-value list that says where the external data of a tensor lies.
//
// Included only by the reader: it knows the generated ONNX classes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "rtx_onnx.pb.h"

namespace rtx::onnx {

struct ExternalKeys {
  std::string location;  // not checked
  int64_t offset = 0;
  std::optional<int64_t> length;
};

// Known keys, each at most once, decimal numbers. Errors: E315, E317.
Result<ExternalKeys> external_keys(const onnx_schema::TensorProto& tensor);

}  // namespace rtx::onnx
