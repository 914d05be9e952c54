#include "runtime/cpu/matmul.h"

#include <algorithm>
#include <array>
#include <bit>
#include <type_traits>
#include <utility>

#include "runtime/cpu/matmul_loops.h"

#define RTX_ISA_FILE "runtime/cpu/matmul_loops.inc"
#include "runtime/cpu/for_each_isa.inc"

namespace rtx::runtime::cpu {
namespace {

const MatmulLoops& loops_for(Isa isa, DType dtype) {
  switch (isa) {
    case Isa::baseline:
      break;
    case Isa::v3:
      return v3::matmul_loops(dtype);
    case Isa::v4:
      return v4::matmul_loops(dtype);
  }
  return baseline::matmul_loops(dtype);
}

int64_t round_up(int64_t value, int64_t multiple) { return (value + multiple - 1) / multiple * multiple; }
int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// How a result is cut into tasks. Changes no bits.
struct Partition {
  int64_t rows, columns;            // of a task
  int64_t row_tasks, column_tasks;  // in one matrix
};

// Large parts use each packed piece of rhs more often; small ones keep all threads busy.
Partition partition(const MatmulShape& shape, const MatmulLoops& loops, int threads) {
  const int64_t batch = static_cast<int64_t>(shape.result_offsets.size());
  // A task should be worth waking a thread for: at least about two microseconds.
  const double products = static_cast<double>(batch * shape.m * shape.n) * static_cast<double>(shape.k);
  const int64_t worthwhile = 1 + static_cast<int64_t>(std::min(products / 65536, 1e6));
  const int64_t wanted = threads == 1 ? 1 : std::min(worthwhile, int64_t{4} * threads);
  Partition p;
  p.columns = round_up(std::clamp<int64_t>(shape.n, 1, 128), loops.tile_columns);
  p.rows = round_up(std::clamp<int64_t>(shape.m, 1, 384), loops.tile_rows);
  const auto count = [&] {
    p.row_tasks = ceil_div(shape.m, p.rows);
    p.column_tasks = ceil_div(shape.n, p.columns);
    return batch * p.row_tasks * p.column_tasks;
  };
  while (count() < wanted && p.columns > loops.tile_columns) p.columns = round_up(p.columns / 2, loops.tile_columns);
  while (count() < wanted && p.rows > 4 * loops.tile_rows) p.rows = round_up(p.rows / 2, loops.tile_rows);
  return p;
}

}  // namespace

Result<void> matmul(const MatmulShape& s, Isa isa, const void* lhs, const void* rhs, void* result, ThreadPool& pool,
                    Workspace& workspace) {
  const int64_t batch = static_cast<int64_t>(s.result_offsets.size());
  if (batch == 0 || s.m == 0 || s.n == 0) return Ok{};
  const MatmulLoops& loops = loops_for(isa, s.dtype);
  const int64_t element = bit_width(s.dtype) / 8;
  const int64_t accumulator = s.dtype == DType::f64 || s.dtype == DType::i64 ? 8 : 4;

  // Matrices of lhs that are used by several products are packed once.
  std::vector<int64_t> lhs_starts = s.lhs_offsets;
  std::sort(lhs_starts.begin(), lhs_starts.end());
  lhs_starts.erase(std::unique(lhs_starts.begin(), lhs_starts.end()), lhs_starts.end());
  const int64_t packed_bytes = s.m * s.k * accumulator;
  RTX_TRY(workspace.shared.reserve(packed_bytes * static_cast<int64_t>(lhs_starts.size())));
  const int64_t panels = ceil_div(s.m, 8 * loops.tile_rows);
  const auto pack = [&](int64_t task) {
    const int64_t which = task / panels, begin = task % panels * 8 * loops.tile_rows;
    loops.pack_lhs(static_cast<const std::byte*>(lhs) + lhs_starts[which] * element, s.lhs.row, s.lhs.column, begin,
                   std::min(begin + 8 * loops.tile_rows, s.m), s.k, workspace.shared.data() + which * packed_bytes);
  };
  pool.run(panels * static_cast<int64_t>(lhs_starts.size()), pack);

  const Partition parts = partition(s, loops, pool.thread_count());
  const int64_t tasks_per_matrix = parts.row_tasks * parts.column_tasks;
  const int64_t scratch = round_up(loops.scratch_bytes(parts.rows, parts.columns), buffer_alignment);
  RTX_TRY(workspace.slots.reserve(scratch * pool.thread_count()));
  pool.run_slotted(batch * tasks_per_matrix, [&](int64_t task, int64_t slot) {
    const int64_t b = task / tasks_per_matrix, part = task % tasks_per_matrix;
    const int64_t row = part % parts.row_tasks * parts.rows, column = part / parts.row_tasks * parts.columns;
    const int64_t which = std::lower_bound(lhs_starts.begin(), lhs_starts.end(), s.lhs_offsets[b]) - lhs_starts.begin();
    loops.run({row, std::min(row + parts.rows, s.m), column, std::min(column + parts.columns, s.n), s.k,
               workspace.shared.data() + which * packed_bytes,
               static_cast<const std::byte*>(rhs) + s.rhs_offsets[b] * element, s.rhs.row, s.rhs.column,
               static_cast<std::byte*>(result) + s.result_offsets[b] * element, s.n,
               workspace.slots.data() + slot * scratch});
  });
  return Ok{};
}

}  // namespace rtx::runtime::cpu
