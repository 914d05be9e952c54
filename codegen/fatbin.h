// Writes fatbin containers: cubins for several architectures in one blob that the driver picks from. The layout stands
// in docs/package_format.md and is byte for byte that of CUDA 13's `fatbinary -64`; runtime/package/fatbin.h reads it.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace rtx::codegen {

struct FatbinImage {
  std::string arch;  // "sm_90a"
  std::span<const std::byte> cubin;
};

// One container with the images in the given order, not compressed. An image that is no 64-bit ELF file of a CUDA
// device is an internal error (E725).
Result<std::vector<std::byte>> make_fatbin(std::span<const FatbinImage> images);

}  // namespace rtx::codegen
