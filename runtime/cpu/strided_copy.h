// StridedCopy: copies a box of elements between two strided arrangements, bit by bit, in parallel.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/cpu/thread_pool.h"

namespace rtx::runtime::cpu {

class StridedCopy {
 public:
  // Strides in elements of `element_bytes` (1, 2, 4 or 8); those of the source may be 0 or negative.
  StridedCopy(std::span<const int64_t> shape, std::span<const int64_t> from_strides,
              std::span<const int64_t> to_strides, int64_t element_bytes);
  // The addresses of the element with index 0.
  void run(const std::byte* from, std::byte* to, ThreadPool& pool) const;

 private:
  struct Axis {
    int64_t length, from, to;  // strides in bytes
  };
  template <typename T>
  void run_typed(const std::byte* from, std::byte* to, ThreadPool& pool) const;

  std::vector<Axis> outer_;
  Axis middle_ = {1, 0, 0}, inner_ = {1, 0, 0};
  int64_t element_bytes_;
  bool empty_ = false;
};

}  // namespace rtx::runtime::cpu
