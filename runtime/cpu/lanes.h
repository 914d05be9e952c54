// Lanes: the types that the CPU device computes in. Loops exist for these five only; other dtypes are widened to their
// lane when loaded, and every value is rounded to its dtype while it stays in the lane.
#pragma once

#include <cstdint>

#include "base/dtype.h"

namespace rtx::runtime::cpu {

enum class Lane : uint8_t {
  f64,
  f32,  // f32 f16 bf16 f8e4m3 f8e5m2
  i64,
  i32,      // i32 i16 i8 u8 u4 i4
  boolean,  // a byte, 0 or 1
};

inline Lane lane_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return Lane::f64;
    case DType::f32:
    case DType::f16:
    case DType::bf16:
    case DType::f8e4m3:
    case DType::f8e5m2:
      return Lane::f32;
    case DType::i64:
      return Lane::i64;
    case DType::i32:
    case DType::i16:
    case DType::i8:
    case DType::u8:
    case DType::u4:
    case DType::i4:
      return Lane::i32;
    case DType::boolean:
      return Lane::boolean;
  }
  return Lane::f32;
}

inline int64_t lane_bytes(Lane lane) {
  return lane == Lane::f64 || lane == Lane::i64 ? 8 : lane == Lane::boolean ? 1 : 4;
}

// The dtype whose elements in memory are lanes.
inline DType lane_dtype(Lane lane) {
  switch (lane) {
    case Lane::f64:
      return DType::f64;
    case Lane::f32:
      return DType::f32;
    case Lane::i64:
      return DType::i64;
    case Lane::i32:
      return DType::i32;
    case Lane::boolean:
      return DType::boolean;
  }
  return DType::f32;
}

// Whether an element in memory has the form of its lane, so that loops can work on memory directly.
inline bool is_lane_form(DType dtype) {
  return dtype == DType::f64 || dtype == DType::f32 || dtype == DType::i64 || dtype == DType::i32;
}

}  // namespace rtx::runtime::cpu
