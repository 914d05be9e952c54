// Tensors of the file in every form they may be stored in.
//
// Included only by the reader: it knows the generated ONNX classes.
#pragma once

#include <memory>
#include <string>

#include "base/file.h"
#include "frontend/external_data.h"
#include "frontend/model.h"
#include "frontend/read_model.h"
#include "rtx_onnx.pb.h"

namespace rtx::onnx {

// What reading a tensor needs to know besides the tensor.
struct TensorSource {
  std::shared_ptr<const File> model_file;
  ExternalFiles& external;
  const ReadLimits& limits;
  int64_t total_bytes = 0;  // of all tensors read so far, counting shared ranges of a file each time
  int64_t dense_bytes = 0;  // of all sparse tensors made dense
};

// E504 if the tensors ask for many times the bytes that the model and its data files hold: each may point at the same
// range, and importing writes them all out.
Result<void> check_total_bytes(const TensorSource& source);

// The name field is not looked at by read_tensor.
struct ReadTensor {
  WeightEntry entry;
  int32_t onnx_type = 0;
  std::string unsupported;  // as Initializer::unsupported
};

// `tensor` comes from a scanned file (wire_scan.h). Its data stays in the file unless it is small. Errors: E301 to E305
// and E311 to E317, E504.
Result<ReadTensor> read_tensor(const onnx_schema::TensorProto& tensor, TensorSource& source);

// Makes the dense tensor. Error: E306, also when it or all of them together would be too large.
Result<ReadTensor> read_sparse_tensor(onnx_schema::SparseTensorProto& tensor, TensorSource& source);

// Checks a shape against the limits and multiplies it: E301 negative, E302 overflow, E504 limits.
Result<int64_t> checked_element_count(const std::vector<int64_t>& shape, int bits, const ReadLimits& limits);

// "[2, 3]"
std::string shape_text(const std::vector<int64_t>& shape);

WeightEntry in_memory(DType dtype, std::vector<int64_t> shape, std::vector<std::byte> bytes);

}  // namespace rtx::onnx
