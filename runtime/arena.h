// Where the arena of a program has its pieces and its counters lie, for one binding of the symbols.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "runtime/package/arena_layout.h"

namespace rtx::runtime {

using package::aligned;
using package::alignment;

struct Arena {
  std::vector<int64_t> offsets;      // of each piece
  std::vector<int64_t> piece_bytes;  // rounded up
  int64_t bytes = 0;
  // The buffers of counters, one after the other in memory of their own, each rounded up.
  std::vector<int64_t> counter_offsets;
  int64_t counter_bytes = 0;
};

// Errors: E604 (a formula), E506 (negative or too large).
Result<Arena> lay_out_arena(const package::Program& program, std::span<const int64_t> symbols);

}  // namespace rtx::runtime
