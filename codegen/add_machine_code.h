// Compiles the kernels of a plan for every architecture and writes kernels.fatbin.
#pragma once

#include "codegen/build_package.h"
#include "runtime/package/manifest.h"

namespace rtx::codegen {

// Fills archs, and code range and resources of each launch of `manifest`, which was made from `plan`.
Result<void> add_machine_code(const Module& module, const ModulePlan& plan, const BuildOptions& options,
                              const std::string& folder, package::Manifest& manifest);

}  // namespace rtx::codegen
