#include "runtime/compare.h"

#include <algorithm>
#include <cmath>

namespace rtx::runtime {

Tolerance default_tolerance(DType dtype) {
  constexpr double any = std::numeric_limits<double>::infinity();
  switch (dtype) {
    case DType::f64:
    case DType::f32:
      return {.absolute = 2e-5, .relative = 0, .norm = 1e-5};
    case DType::f16:
      return {.absolute = any, .relative = 0, .norm = 5e-3};
    case DType::bf16:
      return {.absolute = any, .relative = 0, .norm = 2e-2};
    case DType::f8e4m3:
    case DType::f8e5m2:
      return {.absolute = any, .relative = 0, .norm = 0.25};
    case DType::i64:
    case DType::i32:
    case DType::i16:
    case DType::i8:
    case DType::u8:
    case DType::u4:
    case DType::i4:
    case DType::boolean:
      return {.absolute = 0, .relative = 0, .norm = 0};
  }
  return {};
}

Comparison compare(const HostTensor& actual, const HostTensor& expected, const Tolerance& tolerance) {
  Comparison result;
  if (actual.dtype != expected.dtype || actual.shape != expected.shape) {
    result.incomparable =
        concat("expected ", type_text(expected.dtype, expected.shape), ", got ", type_text(actual.dtype, actual.shape));
    return result;
  }
  result.elements = 1;
  for (int64_t size : actual.shape) result.elements *= size;

  const bool exact = !is_float(actual.dtype);
  double worst_error = 0, error_squares = 0, expected_squares = 0;
  for (int64_t i = 0; i < result.elements; ++i) {
    const double a = load_f64(actual.dtype, actual.bytes.data(), i);
    const double e = load_f64(expected.dtype, expected.bytes.data(), i);
    result.nans_actual += std::isnan(a);
    result.nans_expected += std::isnan(e);
    double error = 0;
    if (std::isfinite(a) && std::isfinite(e)) {
      error = std::fabs(a - e);
      // Beyond 2^53 two different i64 can give the same double.
      if (exact && error == 0 &&
          load_i64(actual.dtype, actual.bytes.data(), i) != load_i64(expected.dtype, expected.bytes.data(), i))
        error = 1;
      error_squares += error * error;
      expected_squares += e * e;
      result.max_absolute = std::max(result.max_absolute, error);
      if (e != 0) result.max_relative = std::max(result.max_relative, error / std::fabs(e));
      result.far += error > tolerance.absolute + tolerance.relative * std::fabs(e);
    } else if (a != e && !(std::isnan(a) && std::isnan(e))) {
      error = std::numeric_limits<double>::infinity();
      ++result.far;
    }
    if (error > worst_error) {
      worst_error = error;
      result.worst = i;
      result.worst_actual = a;
      result.worst_expected = e;
    }
  }
  if (error_squares > 0) result.norm = std::sqrt(error_squares) / std::sqrt(expected_squares);
  result.ok = result.far == 0 && result.norm <= tolerance.norm;
  return result;
}

std::string index_text(int64_t flat, std::span<const int64_t> shape) {
  std::vector<std::string> index(shape.size());
  for (size_t axis = shape.size(); axis-- > 0;) {
    index[axis] = std::to_string(flat % shape[axis]);
    flat /= shape[axis];
  }
  return concat("[", join(index, ", "), "]");
}

}  // namespace rtx::runtime
