// Occupancy: how many blocks of a kernel one multiprocessor can hold at a time, computed from its resources alone.
#pragma once

#include <cstdint>

#include "codegen/arch.h"
#include "runtime/package/manifest.h"

namespace rtx::codegen {

struct Occupancy {
  int blocks_per_sm = 0;  // 0: the kernel cannot be launched like this
  double fraction = 0;    // resident warps over the most that fit
};

// `threads` a block, `registers` a thread, `shared_bytes` a block, static and dynamic. Assumes that the multiprocessor
// gives as much of its L1 memory to shared memory as it can.
Occupancy compute_occupancy(const Arch& arch, int threads, int registers, int64_t shared_bytes);

// Fills blocks_per_sm and occupancy for a launch with these threads and dynamic shared bytes. E411 for an unknown arch.
Result<void> add_occupancy(package::Resources& resources, int threads, int64_t dynamic_shared_bytes);

}  // namespace rtx::codegen
