// The only list of passes, and the driver that runs them.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "passes/pass.h"

namespace rtx {

struct PassInfo {
  std::string_view name;
  Result<bool> (*run)(Module&, PassContext&);
  std::string_view summary;
};

std::span<const PassInfo> all_passes();
const PassInfo* find_pass(std::string_view name);

// The passes that take a module from `imported` to `canonical`, in order. A name may stand more than once.
std::span<const std::string_view> canonical_pipeline();

struct PassTiming {
  std::string name;
  double elapsed_ms = 0;
  bool changed = false;
};

struct PipelineOptions {
  bool verify_each = true;
  // Print, parse and print again after each pass: the two texts must be equal.
  bool round_trip = false;
  // Called after each pass.
  std::function<void(const Module&, const PassTiming&)> after_pass;
  // On a failure, the module as it was before the failing pass and the passes left to run are written here, so that
  // `rtx-opt` can run them again. Empty: nothing is written.
  std::string reproducer;
};

// Runs the named passes in order. An unknown name is a usage error that lists the known ones.
Result<void> run_passes(Module& module, std::span<const std::string_view> names, PassContext& context,
                        const PipelineOptions& options = {});

// canonical_pipeline(), then the module is in stage `canonical`.
Result<void> run_canonical_pipeline(Module& module, PassContext& context, const PipelineOptions& options = {});

}  // namespace rtx
