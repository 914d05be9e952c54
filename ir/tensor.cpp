#include "ir/tensor.h"

#include "base/text.h"

namespace rtx {

Tensor::Tensor(DType dtype, std::vector<int64_t> shape) : dtype(dtype), shape(std::move(shape)) {
  bytes.resize(static_cast<size_t>(*packed_bytes(dtype, element_count())));
}

int64_t Tensor::element_count() const {
  int64_t count = 1;
  for (int64_t d : shape) count *= d;
  return count;
}

Tensor Tensor::scalar(DType dtype, double value) {
  Tensor out(dtype, {});
  out.set_f64(0, value);
  return out;
}

Tensor Tensor::vector(const std::vector<int64_t>& values) {
  Tensor out(DType::i64, {static_cast<int64_t>(values.size())});
  for (size_t i = 0; i < values.size(); ++i) out.set_i64(static_cast<int64_t>(i), values[i]);
  return out;
}

std::string Tensor::type_str() const {
  return concat("tensor<[", join(shape, ", ", [](int64_t d) { return d; }), "], ", to_string(dtype), ">");
}

std::vector<int64_t> row_major_strides(const std::vector<int64_t>& shape) {
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  return strides;
}

}  // namespace rtx
