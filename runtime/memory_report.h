// How much memory a program takes for one binding of the symbols.
#pragma once

#include <cstdint>
#include <span>

#include "base/result.h"
#include "runtime/package/manifest.h"

namespace rtx::runtime {

struct MemoryReport {
  int64_t input_bytes = 0, output_bytes = 0;
  int64_t arena_bytes = 0;    // the peak of intermediate values, as laid out
  int64_t lower_bound = 0;    // the most bytes alive at one step, pieces rounded up: no layout is smaller
  int64_t counter_bytes = 0;  // counters of all steps
};

// Errors: E604, E506 (a size that does not fit).
Result<MemoryReport> report_memory(const package::Program& program, std::span<const int64_t> symbols);

}  // namespace rtx::runtime
