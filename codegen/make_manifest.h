// The manifest of a planned module, without machine code and file list (build_package adds both).
#pragma once

#include "codegen/plan_module.h"
#include "runtime/package/manifest.h"

namespace rtx::codegen {

// `module` is the one the plan was made from. Launches are left out in a package for the CPU device alone.
Result<package::Manifest> make_manifest(const Module& module, const ModulePlan& plan, bool with_launches);

}  // namespace rtx::codegen
