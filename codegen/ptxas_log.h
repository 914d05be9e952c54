// What ptxas says about a kernel under -v: registers, shared memory, stack and spills.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "runtime/package/manifest.h"

namespace rtx::codegen {

// Reads the log of one kernel. Of functions that were not inlined, the largest stack and the sum of spills count.
// Occupancy is left at 0. A log without the resources of a kernel is an internal error (E726).
Result<package::Resources> parse_ptxas_log(std::string_view log, std::string_view arch);

}  // namespace rtx::codegen
