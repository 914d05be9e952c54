// --amp, --keep-fp32 and --amp-report, the same in every tool that converts precision.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "passes/convert_precision.h"

namespace rtx::cli {

struct AmpOptions {
  std::string type;  // fp16, bf16; empty: no conversion
  std::vector<std::string> keep_f32;
  std::string report;  // a file, "-" for stderr; empty: the summary alone, on stderr
  PrecisionReport result;

  std::optional<DType> dtype() const;
};

void add_amp_options(CLI::App& app, AmpOptions& options);
// E001 where the other options are given without --amp.
Result<void> check_amp_options(const AmpOptions& options);
// Writes what was asked for of options.result.
Result<void> write_amp_report(const AmpOptions& options);

}  // namespace rtx::cli
