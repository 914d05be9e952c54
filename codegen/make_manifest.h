// The manifest of a planned module, without machine code and file list (build_package adds both).
#pragma once

#include "codegen/plan_module.h"
#include "runtime/package/manifest.h"

namespace rtx::codegen {

// A module of more steps leaves out the decisions about them, so that the manifest stays below what a reader takes.
inline constexpr size_t most_explained_steps = 10'000;

// `module` is the one the plan was made from. Launches are left out in a package for the CPU device alone.
Result<package::Manifest> make_manifest(const Module& module, const ModulePlan& plan, bool with_launches);

}  // namespace rtx::codegen
