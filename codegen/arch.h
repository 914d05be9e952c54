// The GPU architectures that machine code can be made for, with the limits that decide occupancy.
#pragma once

#include <span>
#include <string_view>

#include "base/result.h"

namespace rtx::codegen {

// One multiprocessor: CUDA C++ Programming Guide 13.0, "Technical Specifications per Compute Capability". The same for
// all of them: 64 Ki registers, at most 255 a thread and 64 Ki a block, 1024 threads a block, warps of 32.
struct Arch {
  std::string_view name;  // "sm_90a"; with 'a', code for exactly this chip, with 'f', for its family
  int threads_per_sm = 0;
  int blocks_per_sm = 0;
  int shared_bytes_per_sm = 0;
  int shared_bytes_per_block = 0;  // the most a launch may ask for
};

// In order of compute capability.
std::span<const Arch> list_archs();

// E411 (unsupported) lists the known ones.
Result<Arch> find_arch(std::string_view name);

}  // namespace rtx::codegen
