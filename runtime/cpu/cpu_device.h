// The CPU device: runs a package's kernel bodies on the host. It needs no machine code, so it takes every package.
//
// Results have the same bits for any number of threads and any x86-64 instruction set, and a row's bits do not depend
// on the other rows (what each loop does is in matmul.h and row_loops.h; the sign and payload of a NaN are not
// covered). Work is done when it is enqueued; streams only keep the interface.
#pragma once

#include <memory>

#include "runtime/device.h"

namespace rtx::runtime {

// `threads` includes the caller; 0: one for each processor this process may use.
std::unique_ptr<Device> make_cpu_device(int threads = 0);

}  // namespace rtx::runtime
