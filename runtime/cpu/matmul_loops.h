// What matmul.cpp shares with its loops: the part of a product that is one task, and the table of a variant.
#pragma once

#include <cstdint>

#include "base/dtype.h"

namespace rtx::runtime::cpu {

// Length of the runs of k that are summed from zero. Fixed: it decides the bits.
inline constexpr int64_t k_run = 256;

// Rows [row_begin, row_end) x columns [column_begin, column_end) of one matrix of the batch.
struct MatmulTask {
  int64_t row_begin, row_end, column_begin, column_end, k;
  const void* packed_lhs;  // of the whole matrix, as pack_lhs leaves it
  const void* rhs;         // element (p, j) at p * rhs_row_stride + j * rhs_column_stride
  int64_t rhs_row_stride, rhs_column_stride;
  void* result;  // element (i, j) at i * result_stride + j
  int64_t result_stride;
  void* scratch;  // scratch_bytes(...) of it, for this task alone
};

// The loops for one dtype, compiled for one instruction set.
struct MatmulLoops {
  int64_t tile_rows, tile_columns;  // of the block of the result that is kept in registers
  // Rows [begin, end), a multiple of tile_rows at `begin`, of a lhs with element (i, p) at i * row_stride + p *
  // column_stride. The packed form holds, for each tile of rows, [k, rows of the tile], in the accumulator type.
  void (*pack_lhs)(const void* lhs, int64_t row_stride, int64_t column_stride, int64_t begin, int64_t end, int64_t k,
                   void* packed);
  int64_t (*scratch_bytes)(int64_t rows, int64_t columns);
  void (*run)(const MatmulTask& task);
};

}  // namespace rtx::runtime::cpu
