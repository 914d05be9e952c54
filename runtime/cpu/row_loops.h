// Loops over one row: reductions and what is built on them, for one instruction set each.
//
// Numerics: sums and products are kept in f64 (int64 for integers, which wrap), as 16 partial results over the elements
// i mod 16 that are then combined in the fixed order of a binary tree. All else is computed in f64 and rounded once.
#pragma once

#include <cstdint>

#include "runtime/cpu/isa.h"
#include "runtime/cpu/lanes.h"

namespace rtx::runtime::cpu {

enum class Reduction : uint8_t { sum, mean, max, min, prod };

// A row of a normalisation. scale and bias hold a row each; bias may be null.
struct NormRow {
  const void* x;
  const void* scale;
  const void* bias;
  void* to;
  int64_t length;
  double epsilon;
  bool subtract_mean;
};

struct RowLoops {
  // to[0] = the reduction of x[0 .. length). `start` is what an empty row gives (max, min of integers; else ignored).
  void (*reduce)(Reduction reduction, const void* x, int64_t length, int64_t start, void* to);
  // totals[j] = the reduction over i < rows of x[i * stride + j], i ascending, for j < columns; `accumulators` has room
  // for `columns` values of 8 bytes.
  void (*reduce_columns)(Reduction reduction, const void* x, int64_t rows, int64_t stride, int64_t columns,
                         int64_t start, void* accumulators, void* totals);
  // Null for integers. `x` may be `to`.
  void (*softmax)(const void* x, int64_t length, bool logarithm, void* to);
  void (*norm)(const NormRow& row);
  int64_t (*argmax)(const void* x, int64_t length, bool select_last);
  // Running sums of x[i * stride], i < length, in the wide type, in the order of the direction.
  void (*cumsum)(const void* x, int64_t length, int64_t stride, bool exclusive, bool reverse, void* to);
};

// For the lanes f64, f32, i64 and i32.
const RowLoops& row_loops(Isa isa, Lane lane);

}  // namespace rtx::runtime::cpu
