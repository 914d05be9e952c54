// Matrix products on the CPU: result[b] = lhs[b] * rhs[b], [m, n] = [m, k] * [k, n]. The operands may lie in any
// strides, so that transposed ones need no copy; the result is row-major.
//
// Numerics: each element is the sum over k in ascending order of products rounded to the accumulator type (f32; f64 for
// f64), without contraction, in runs of 256 terms that start from zero and are then added up in order. The bits of an
// element depend on its row of lhs, its column of rhs and k alone: not on m, n, the batch, the number of threads or the
// instruction set. f16 and bf16 operands are widened exactly and the sum is rounded once at the end. Integers wrap.
#pragma once

#include <cstdint>
#include <vector>

#include "base/dtype.h"
#include "runtime/cpu/isa.h"
#include "runtime/cpu/thread_pool.h"
#include "runtime/cpu/workspace.h"

namespace rtx::runtime::cpu {

struct MatmulShape {
  DType dtype = DType::f32;  // of operands and result: f64 f32 f16 bf16 i64 i32 i16 i8 u8
  int64_t m = 0, n = 0, k = 0;
  // Element (i, p) of lhs at i * row + p * column, element (p, j) of rhs at p * row + j * column. Fast where the rows
  // or the columns of rhs are contiguous.
  struct Strides {
    int64_t row = 0, column = 0;
  };
  Strides lhs, rhs;
  // For each matrix of the batch, where the operands and the result start, in elements.
  std::vector<int64_t> lhs_offsets, rhs_offsets, result_offsets;

  // One product of row-major operands, of which rhs may be stored [n, k].
  static MatmulShape plain(DType dtype, int64_t m, int64_t n, int64_t k, bool transpose_rhs = false) {
    return {dtype, m, n, k, {k, 1}, transpose_rhs ? Strides{1, k} : Strides{n, 1}, {0}, {0}, {0}};
  }
};

// One product for all matrices of the batch. `isa` must be supported. The only error is E801, for the workspace.
Result<void> matmul(const MatmulShape& shape, Isa isa, const void* lhs, const void* rhs, void* result, ThreadPool& pool,
                    Workspace& workspace);

}  // namespace rtx::runtime::cpu
