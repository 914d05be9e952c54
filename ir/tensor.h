// Tensor: a dense array of concrete shape on the host, row-major, tightly packed. The data of constants, of the
// evaluator and of tests.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/result.h"

namespace rtx {

struct Tensor {
  DType dtype = DType::f32;
  std::vector<int64_t> shape;
  std::vector<std::byte> bytes;  // packed_bytes(dtype, element_count()) of them

  Tensor() = default;
  // Zero-filled. The element count must fit int64 and memory: callers check sizes first.
  Tensor(DType dtype, std::vector<int64_t> shape);

  int rank() const { return static_cast<int>(shape.size()); }
  int64_t element_count() const;
  double f64(int64_t index) const { return load_f64(dtype, bytes.data(), index); }
  int64_t i64(int64_t index) const { return load_i64(dtype, bytes.data(), index); }
  void set_f64(int64_t index, double value) { store_f64(dtype, bytes.data(), index, value); }
  void set_i64(int64_t index, int64_t value) { store_i64(dtype, bytes.data(), index, value); }
  bool operator==(const Tensor&) const = default;

  template <typename T>
  T* data() { return reinterpret_cast<T*>(bytes.data()); }
  template <typename T>
  const T* data() const { return reinterpret_cast<const T*>(bytes.data()); }

  // A rank-0 tensor.
  static Tensor scalar(DType dtype, double value);
  // Rank 1, i64.
  static Tensor vector(const std::vector<int64_t>& values);
  // "tensor<[2, 3], f32>"
  std::string type_str() const;
};

// Row-major strides in elements.
std::vector<int64_t> row_major_strides(const std::vector<int64_t>& shape);

}  // namespace rtx
