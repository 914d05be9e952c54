#include "frontend/read_tensor_file.h"

#include "base/file.h"
#include "base/text.h"
#include "frontend/external_data.h"
#include "frontend/model.h"
#include "frontend/tensor_data.h"
#include "frontend/wire_scan.h"
#include "rtx_onnx.pb.h"

namespace rtx::onnx {
namespace {

Result<Tensor> read(const std::string& path) {
  RTX_ASSIGN(std::shared_ptr<const File> file, File::open(path));
  const ReadLimits limits;
  const Result<std::string> scanned = scan_tensor_file(*file, limits);
  onnx_schema::TensorProto proto;
  if (!scanned || !proto.ParseFromString(*scanned)) {
    Diagnostic error = make_error(ErrorKind::invalid, "E106", "not a serialized TensorProto");
    if (!scanned) error.with_note(scanned.error().first().message);
    return error;
  }
  ExternalFiles external(path, {});
  TensorSource source{std::move(file), external, limits};
  RTX_ASSIGN(const ReadTensor tensor, read_tensor(proto, source));
  if (!tensor.unsupported.empty()) {
    return make_error(ErrorKind::unsupported, "E421", concat("element type ", tensor.unsupported, " is not supported"));
  }
  return load(tensor.entry);
}

}  // namespace

Result<Tensor> read_tensor_file(const std::string& path) {
  Result<Tensor> tensor = read(path);
  if (!tensor) return std::move(tensor).error().within(path);
  return tensor;
}

}  // namespace rtx::onnx
