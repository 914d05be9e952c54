// The list of passes, and the driver that runs some of them.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "passes/pass.h"

namespace rtx {

struct PassEntry {
  std::string_view name;
  PassFunction function;
  std::string_view summary;
  Stage stage;  // the last stage of a module that the pass accepts
};

// Every pass, in the order of docs/ir.md.
std::span<const PassEntry> all_passes();
// The passes that take a module from `imported` to `canonical`.
std::span<const std::string_view> canonical_pipeline();
// The passes that prepare a canonical module for fusing.
std::span<const std::string_view> optimize_pipeline();

// Mixed precision for an optimized module.
std::span<const std::string_view> precision_pipeline();

// "a,b,c" to names; "canonical", "optimize" and "precision" stand for their pipelines. An unknown name is E010.
Result<std::vector<std::string>> parse_pass_list(std::string_view text);

struct PassTiming {
  std::string name;
  int64_t elapsed_ns = 0;
  bool changed = false;
  size_t operations_before = 0, operations_after = 0;
};

struct PipelineOptions {
  bool verify_each = true;
  // Print, parse and print again after each pass; the two texts must be equal. On when RTX_ROUND_TRIP=1 is in the
  // environment.
  bool round_trip = false;
  // Called with the pass and the module, if set: after every pass, or after those that changed something.
  std::function<void(std::string_view pass, const Module&)> print_after_all, print_after_change;
  // Where a failing pass leaves the module it was given and the passes still to run, for `rtx-opt --reproduce`. Empty:
  // nowhere, and no copy is kept.
  std::string reproducer_path;
  PassContext context;
};

struct PipelineReport {
  std::vector<PassTiming> timings;
  std::vector<Diagnostic> remarks;
  std::vector<NearMatch> near_matches;
};

// Runs the passes in order. After an error the module may be half changed and must not be used.
Result<PipelineReport> run_pipeline(Module& module, std::span<const std::string> names, PipelineOptions options = {});

Result<PipelineReport> run_pipeline(Module& module, std::span<const std::string_view> names,
                                    PipelineOptions options = {});

// What rtx-compile runs, one after the other.
Result<PipelineReport> run_canonical_pipeline(Module& module, PipelineOptions options = {});
Result<PipelineReport> run_optimize_pipeline(Module& module, PipelineOptions options = {});

// The first line of a reproducer file, and the pass list in it (empty if the text is not one).
std::string reproducer_line(std::span<const std::string> names);
std::string_view reproducer_passes(std::string_view text);

}  // namespace rtx
