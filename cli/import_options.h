// Options of the tools that read ONNX models: dims, limits, external data.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "cli/tool.h"
#include "frontend/import.h"
#include "frontend/read_model.h"

namespace rtx::cli {

// As given on the command line.
struct OnnxOptions {
  onnx::ReadOptions read;
  int64_t max_loop_iterations = onnx::ImportOptions{}.max_loop_iterations;
  std::vector<std::string> dims;                                // "batch=1:4:8"
  std::vector<std::string> fixed_dims;                          // "batch=4"
  std::vector<std::string> constants;                           // "axes=0,1", "table=@table.npy"
  std::vector<std::string> min_shapes, opt_shapes, max_shapes;  // "input_ids:1x128,attention_mask:1x128"
};

void add_onnx_options(CLI::App& app, OnnxOptions& options);

struct OnnxInput {
  onnx::Model model;
  onnx::ImportOptions import;
};

// Reads the model and finds the ranges of its dims. Errors of the command line are E001.
Result<OnnxInput> read_onnx(const std::string& path, const OnnxOptions& options);

// Sets the ranges of the dims of a module that was imported earlier. E001: it has no such dim or input.
Result<void> apply_ranges(Module& module, const OnnxOptions& options);

}  // namespace rtx::cli
