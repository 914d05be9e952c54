#include "ir/ops/loops.h"

namespace rtx {

int64_t extent(const std::vector<int64_t>& shape, size_t from, size_t to) {
  int64_t product = 1;
  for (size_t i = from; i < to; ++i) product *= shape[i];
  return product;
}

Strides broadcast_strides(const std::vector<int64_t>& operand, const std::vector<int64_t>& result) {
  Strides strides(result.size(), 0);
  Strides own = row_major_strides(operand);
  size_t offset = result.size() - operand.size();
  for (size_t i = 0; i < operand.size(); ++i) strides[offset + i] = operand[i] == 1 ? 0 : own[i];
  return strides;
}

void copy_elements(Tensor& to, int64_t to_index, const Tensor& from, int64_t from_index, int64_t count) {
  int bits = bit_width(to.dtype);
  if (bits < 8) {
    for (int64_t i = 0; i < count; ++i) to.set_i64(to_index + i, from.i64(from_index + i));
  } else if (count > 0) {
    int64_t width = bits / 8;
    std::memcpy(to.bytes.data() + to_index * width, from.bytes.data() + from_index * width,
                static_cast<size_t>(count * width));
  }
}

void copy_strided(Tensor& to, const Tensor& from, int64_t base, const Strides& strides) {
  if (to.shape.empty()) return copy_elements(to, 0, from, base, 1);
  // The last axis is an inner loop of its own, so that contiguous rows are one memcpy.
  std::vector<int64_t> outer(to.shape.begin(), to.shape.end() - 1);
  Strides outer_strides(strides.begin(), strides.end() - 1);
  int64_t row = to.shape.back(), step = strides.back();
  if (row == 0) return;
  for_each_element<1>(outer, {outer_strides}, [&](int64_t i, const std::array<int64_t, 1>& offset) {
    if (step == 1) return copy_elements(to, i * row, from, base + offset[0], row);
    for (int64_t j = 0; j < row; ++j) copy_elements(to, i * row + j, from, base + offset[0] + j * step, 1);
  });
}

std::vector<double> load_all_f64(const Tensor& tensor) {
  std::vector<double> values(static_cast<size_t>(tensor.element_count()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = tensor.f64(static_cast<int64_t>(i));
  return values;
}

std::vector<int64_t> load_all_i64(const Tensor& tensor) {
  std::vector<int64_t> values(static_cast<size_t>(tensor.element_count()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = tensor.i64(static_cast<int64_t>(i));
  return values;
}

int64_t lowest_integer(DType dtype) {
  return is_signed(dtype) ? static_cast<int64_t>(~uint64_t{0} << (bit_width(dtype) - 1)) : 0;
}

int64_t highest_integer(DType dtype) {
  return is_signed(dtype) ? ~lowest_integer(dtype) : (int64_t{1} << bit_width(dtype)) - 1;
}

}  // namespace rtx
