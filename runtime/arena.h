// Where the slots of a program lie in its arena and its counters in theirs, for one binding of the symbols.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "runtime/package/manifest.h"

namespace rtx::runtime {

// Every slot, weight and allocation starts at a multiple of this many bytes.
inline constexpr int64_t alignment = 256;

// `bytes` rounded up to the alignment; E506 if it is negative or the result does not fit.
Result<int64_t> aligned(int64_t bytes);

struct Arena {
  std::vector<int64_t> offsets;  // of each slot
  int64_t bytes = 0;             // all slots, each rounded up
  // The buffers of counters, one after the other in memory of their own, each rounded up.
  std::vector<int64_t> counter_offsets;
  int64_t counter_bytes = 0;
};

// Errors: E604 (a formula), E506 (negative or too large).
Result<Arena> lay_out_arena(const package::Program& program, std::span<const int64_t> symbols);

}  // namespace rtx::runtime
