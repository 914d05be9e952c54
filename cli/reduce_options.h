// --reduce of rtx-opt: what it looks at, and how it tells failures apart.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "passes/pipeline.h"

namespace rtx::cli {

struct ReduceOptions {
  bool reduce = false;
  std::string check = "evaluate";  // or a command
  uint64_t seed = 1;
  double tolerance = 1e-4;
};

void add_reduce_options(CLI::App& app, ReduceOptions& options);

// The smallest module found that fails as `module` does (passes/reduce_module.h); each step is a line on stderr. With a
// command, passes run first if there are any. Errors: E016, it does not fail; E017, the command cannot be run.
Result<std::unique_ptr<Module>> reduce(const Module& module, const std::vector<std::string>& passes,
                                       const PipelineOptions& pipeline, const ReduceOptions& options);

}  // namespace rtx::cli
