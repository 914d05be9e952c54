#include <cstring>

#include "base/text.h"
#include "frontend/tensor_data.h"

namespace rtx::onnx {
namespace {

constexpr int64_t max_dense_bytes = int64_t{256} << 20;

Diagnostic invalid(std::string_view id, std::string message) {
  return make_error(ErrorKind::invalid, id, std::move(message));
}

}  // namespace

Result<ReadTensor> read_sparse_tensor(onnx_schema::SparseTensorProto& tensor, TensorSource& source) {
  std::vector<int64_t> shape(tensor.dims().begin(), tensor.dims().end());
  const auto bad = [&](std::string why) {
    return invalid("E306", concat("sparse tensor ", shape_text(shape), ": ", why));
  };
  const auto part = [&](onnx_schema::TensorProto& stored, std::string_view name) -> Result<ReadTensor> {
    Result<ReadTensor> read = read_tensor(stored, source);
    if (read.ok()) return read;
    const Diagnostic& reason = read.error().first();
    Diagnostic result = reason;
    result.id = "E306";
    result.message = concat("sparse tensor ", shape_text(shape), ": ", name, ": ", reason.message);
    return result;
  };
  RTX_ASSIGN(ReadTensor values, part(*tensor.mutable_values(), "values"));
  RTX_ASSIGN(ReadTensor indices, part(*tensor.mutable_indices(), "indices"));
  if (!values.unsupported.empty()) return bad(concat("values of type ", values.unsupported));
  if (indices.entry.dtype != DType::i64 || !indices.unsupported.empty()) return bad("the indices are not int64");
  const int width = bit_width(values.entry.dtype);
  if (width < 8) return bad("4-bit values");
  if (values.entry.shape.size() != 1) return bad("the values are not of rank 1");
  Result<int64_t> count = checked_element_count(shape, width, source.limits);
  if (!count) return bad(count.error().first().message);
  const int64_t dense_bytes = *count * (width / 8);
  if (dense_bytes > max_dense_bytes - source.dense_bytes)
    return make_error(ErrorKind::limit, "E306", concat("sparse tensor ", shape_text(shape), " is too large when dense"))
        .with_expected(concat("at most ", max_dense_bytes, " bytes for all sparse tensors"))
        .with_got(concat(dense_bytes, " bytes, after ", source.dense_bytes))
        .with_help("store it dense");
  source.dense_bytes += dense_bytes;

  const int64_t stored = values.entry.shape[0];
  const int64_t rank = static_cast<int64_t>(shape.size());
  const std::vector<int64_t>& index_shape = indices.entry.shape;
  const bool linear = index_shape.size() == 1;
  if (!(linear && index_shape[0] == stored) &&
      !(index_shape.size() == 2 && index_shape[0] == stored && index_shape[1] == rank))
    return bad(concat("indices of shape ", shape_text(index_shape), " for ", stored, " values"));
  RTX_ASSIGN(const Tensor value_data, load(values.entry));
  RTX_ASSIGN(const Tensor index_data, load(indices.entry));

  std::vector<std::byte> dense(static_cast<size_t>(dense_bytes));
  int64_t previous = -1;
  for (int64_t i = 0; i < stored; ++i) {
    int64_t place = 0;
    if (linear) {
      place = index_data.i64(i);
      if (place < 0 || place >= *count) return bad(concat("index ", place, " is outside"));
    } else {
      for (int64_t axis = 0; axis < rank; ++axis) {
        const int64_t index = index_data.i64(i * rank + axis);
        if (index < 0 || index >= shape[static_cast<size_t>(axis)]) return bad(concat("index ", index, " is outside"));
        place = place * shape[static_cast<size_t>(axis)] + index;
      }
    }
    if (place <= previous) return bad("the indices are not in strictly ascending order");
    previous = place;
    std::memcpy(dense.data() + place * (width / 8), value_data.bytes.data() + i * (width / 8),
                static_cast<size_t>(width / 8));
  }
  ReadTensor result;
  result.onnx_type = values.onnx_type;
  result.entry = in_memory(values.entry.dtype, std::move(shape), std::move(dense));
  return result;
}

}  // namespace rtx::onnx
