// Reads a file that holds one serialized TensorProto, as ONNX test data sets do (input_0.pb, output_0.pb).
#pragma once

#include <string>

#include "base/result.h"
#include "ir/tensor.h"

namespace rtx::onnx {

// Errors: E106 (not a TensorProto), E303 to E305 (its data), E501 (more than 1 GiB), E901; E421 (unsupported) for an
// element type that the IR does not have.
Result<Tensor> read_tensor_file(const std::string& path);

}  // namespace rtx::onnx
