// How far a tensor is from the one expected.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "runtime/host_tensor.h"

namespace rtx::runtime {

// An element is close if |actual - expected| <= absolute + relative * |expected|. Two NaNs are close, two equal
// infinities are close. The tensor as a whole moreover must keep
//   sqrt(sum (actual - expected)^2) <= norm * sqrt(sum expected^2)
// over the elements that are finite in both.
struct Tolerance {
  double absolute = 0, relative = 0;
  double norm = std::numeric_limits<double>::infinity();
};

// What a correct backend reaches on transformer models: f32 and f64 2e-5 absolute and 1e-5 norm-wise; f16 5e-3, bf16
// 2e-2, f8 0.25 norm-wise; integers and bool exact.
Tolerance default_tolerance(DType dtype);

struct Comparison {
  bool ok = false;
  // Not empty if the tensors cannot be compared at all: other shape or element type.
  std::string incomparable;
  int64_t elements = 0;
  int64_t far = 0;  // elements that are not close
  int64_t nans_actual = 0, nans_expected = 0;
  double max_absolute = 0;  // over elements finite in both
  double max_relative = 0;  // to |expected|, where that is not 0
  double norm = 0;          // relative error norm
  // The element with the greatest error (an unmatched NaN or infinity before all others); -1 if all are equal.
  int64_t worst = -1;
  double worst_actual = 0, worst_expected = 0;
};

Comparison compare(const HostTensor& actual, const HostTensor& expected, const Tolerance& tolerance);

// "[0, 3, 17]" for the flat index of an element.
std::string index_text(int64_t flat, std::span<const int64_t> shape);

}  // namespace rtx::runtime
