// Which machine code runs on which GPU (CUDA C++ Programming Guide, "Binary Compatibility" and "Family-specific
// Architecture Features").
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace rtx::runtime {

struct ComputeCapability {
  int major = 0;
  int minor = 0;
  // "sm_90"
  std::string arch() const { return "sm_" + std::to_string(major * 10 + minor); }
};

// Machine code for `arch` runs on a device of `capability`: "sm_90a" only on 9.0 itself; "sm_100f" on the same major
// version from that minor version on, as does "sm_90". False for text that is no arch.
bool arch_runs_on(std::string_view arch, ComputeCapability capability);

}  // namespace rtx::runtime
