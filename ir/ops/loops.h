// Index walking for the evaluate functions: plain loops over row-major shapes with precomputed strides.
#pragma once

#include <array>
#include <cmath>
#include <cstring>
#include <span>
#include <vector>

#include "base/result.h"
#include "ir/op.h"
#include "ir/tensor.h"

namespace rtx {

using Strides = std::vector<int64_t>;

// The product of shape[from, to).
int64_t extent(const std::vector<int64_t>& shape, size_t from, size_t to);

// Strides with which an operand of `operand` shape is read while walking `result`, aligned from the right; axes of
// length 1 have stride 0.
Strides broadcast_strides(const std::vector<int64_t>& operand, const std::vector<int64_t>& result);

// Calls body(index) for every index vector of `shape` in row-major order. Rank 0 has one.
template <typename Body>
void for_each_index(const std::vector<int64_t>& shape, Body body) {
  for (int64_t n : shape) {
    if (n == 0) return;
  }
  std::vector<int64_t> index(shape.size(), 0);
  while (true) {
    body(index);
    size_t axis = shape.size();
    while (axis > 0 && ++index[axis - 1] == shape[axis - 1]) index[--axis] = 0;
    if (axis == 0) return;
  }
}

// Calls body(i, offsets) for element i = 0, 1, ... of `shape`, where offsets[k] = sum(index[axis] * strides[k][axis]).
template <size_t N, typename Body>
void for_each_element(const std::vector<int64_t>& shape, const std::array<Strides, N>& strides, Body body) {
  int64_t i = 0;
  std::array<int64_t, N> offsets = {};
  for (int64_t n : shape) {
    if (n == 0) return;
  }
  std::vector<int64_t> index(shape.size(), 0);
  while (true) {
    body(i++, offsets);
    size_t axis = shape.size();
    while (axis > 0) {
      --axis;
      for (size_t k = 0; k < N; ++k) offsets[k] += strides[k][axis];
      if (++index[axis] < shape[axis]) break;
      for (size_t k = 0; k < N; ++k) offsets[k] -= strides[k][axis] * shape[axis];
      index[axis] = 0;
      if (axis == 0) return;
    }
    if (shape.empty()) return;
  }
}

// Copies `count` elements bit by bit, whatever the dtype.
void copy_elements(Tensor& to, int64_t to_index, const Tensor& from, int64_t from_index, int64_t count);

// to[index] = from[base + sum(index[axis] * strides[axis])] for every element of `to`.
void copy_strided(Tensor& to, const Tensor& from, int64_t base, const Strides& strides);

// All elements as f64, or as int64.
std::vector<double> load_all_f64(const Tensor& tensor);
std::vector<int64_t> load_all_i64(const Tensor& tensor);

// Whether arithmetic on the dtype is done in f64 (else in int64).
inline bool in_f64(const Tensor& tensor) { return is_float(tensor.dtype); }

// int64 arithmetic that wraps.
inline int64_t wrap_add(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
inline int64_t wrap_sub(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
}
inline int64_t wrap_mul(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}

// IEEE 754-2019 minimum and maximum: NaN if either is, -0 below +0.
inline double nan_minimum(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) ? a : b;
  if (a == b) return std::signbit(a) ? a : b;
  return a < b ? a : b;
}
inline double nan_maximum(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) ? a : b;
  if (a == b) return std::signbit(a) ? b : a;
  return a > b ? a : b;
}

// The lowest and highest value of an integer dtype.
int64_t lowest_integer(DType dtype);
int64_t highest_integer(DType dtype);

inline Result<std::vector<Tensor>> one(Tensor tensor) {
  std::vector<Tensor> results;
  results.push_back(std::move(tensor));
  return results;
}

// result[i] = f(x[i]) in f64.
template <typename F>
Result<std::vector<Tensor>> map_f64(const EvaluateContext& context, F f) {
  Tensor out = context.results[0];
  const Tensor& x = *context.operands[0];
  for (int64_t i = 0, n = out.element_count(); i < n; ++i) out.set_f64(i, f(x.f64(i)));
  return one(std::move(out));
}

// result[i] = f(x[i]) in int64.
template <typename F>
Result<std::vector<Tensor>> map_i64(const EvaluateContext& context, F f) {
  Tensor out = context.results[0];
  const Tensor& x = *context.operands[0];
  for (int64_t i = 0, n = out.element_count(); i < n; ++i) out.set_i64(i, f(x.i64(i)));
  return one(std::move(out));
}

}  // namespace rtx
