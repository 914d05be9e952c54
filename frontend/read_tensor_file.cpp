#include "frontend/read_tensor_file.h"

#include <cstring>

#include "base/file.h"
#include "base/text.h"
#include "frontend/external_data.h"
#include "frontend/onnx_types.h"
#include "frontend/tensor_data.h"
#include "rtx_onnx.pb.h"

namespace rtx::onnx {
namespace {

constexpr int64_t max_file_bytes = int64_t{1} << 30;

// read_tensor() knows raw_data as a place in a model file; here it is the bytes themselves.
Result<Tensor> from_raw_data(const onnx_schema::TensorProto& proto, DType dtype) {
  std::vector<int64_t> shape(proto.dims().begin(), proto.dims().end());
  RTX_ASSIGN(const int64_t elements, checked_element_count(shape, bit_width(dtype), ReadLimits{}));
  const std::optional<int64_t> bytes = packed_bytes(dtype, elements);
  if (!bytes || *bytes != static_cast<int64_t>(proto.raw_data().size())) {
    return make_error(ErrorKind::invalid, "E303", "wrong size of raw_data")
        .with_got(concat(proto.raw_data().size(), " bytes"));
  }
  Tensor tensor(dtype, std::move(shape));
  std::memcpy(tensor.bytes.data(), proto.raw_data().data(), proto.raw_data().size());
  return tensor;
}

Result<Tensor> read(const std::string& path) {
  RTX_ASSIGN(const std::string text, read_text_file(path, max_file_bytes));
  onnx_schema::TensorProto proto;
  if (!proto.ParseFromString(text)) return make_error(ErrorKind::invalid, "E106", "not a serialized TensorProto");
  const OnnxType* type = find_onnx_type(proto.data_type());
  if (!type || !type->dtype) {
    return make_error(ErrorKind::unsupported, "E421",
                      concat("element type ", type ? type->name : "?", " is not supported"));
  }
  if (proto.has_raw_data()) return from_raw_data(proto, *type->dtype);
  ExternalFiles external(path, {});
  const ReadLimits limits;
  TensorSource source{nullptr, external, limits};
  RTX_ASSIGN(const ReadTensor typed, read_tensor(proto, source));
  Tensor tensor(typed.entry.dtype, typed.entry.shape);
  if (typed.entry.memory) tensor.bytes = *typed.entry.memory;
  return tensor;
}

}  // namespace

Result<Tensor> read_tensor_file(const std::string& path) {
  Result<Tensor> tensor = read(path);
  if (!tensor) return std::move(tensor).error().within(path);
  return tensor;
}

}  // namespace rtx::onnx
