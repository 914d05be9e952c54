// What golden tests of passes do with one file: input, `# expect:`, and the whole output, or `# expect: unchanged`.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "passes/pipeline.h"

namespace rtx::testing {

std::vector<std::string> lines_of(std::string_view text);
// A line diff: "  " of both, "- " of `expected` alone, "+ " of `got` alone.
std::string diff(const std::string& expected, const std::string& got);
// Whether the first line says why the case exists.
bool has_reason(const std::string& text);
// RTX_BLESS=1 is in the environment.
bool blessing();

// Changes a module; the passes by their names, or what a test plants in their place.
using RunPasses = std::function<Result<void>(Module&, const PassContext&)>;
RunPasses run_passes(std::string pass_list);

// Runs the passes on the input of the file at `path`. They must keep what the module computes, within `tolerance` (0:
// bit by bit); then the output must be the expected one, or with `bless` is written to the file. Lines "# half: bf16"
// and
// "# keep-fp32: GLOB" before the module are options of convert_precision. Returns what is wrong.
std::optional<std::string> check_pass_file(const std::string& path, const RunPasses& run, double tolerance, bool bless);

}  // namespace rtx::testing
