// Workspace: the memory that kernels use while they run. One for a device, since its kernels run one at a time; it
// grows to what the hungriest kernel needs and is kept.
#pragma once

#include "runtime/cpu/aligned_buffer.h"

namespace rtx::runtime::cpu {

struct Workspace {
  AlignedBuffer body;    // values between the steps of a body
  AlignedBuffer shared;  // of one step, for all threads
  AlignedBuffer slots;   // of one step, a piece for each thread
};

}  // namespace rtx::runtime::cpu
