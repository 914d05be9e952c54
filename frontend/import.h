// ONNX model -> IR.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "frontend/model.h"
#include "frontend/operator_use.h"
#include "ir/module.h"

namespace rtx::onnx {

struct ImportOptions {
  // Ranges by symbol: `--dim batch=1:4:8` (min:opt:max); a single number makes the symbol static. A name that no input
  // has is an error (E001).
  std::map<std::string, SymbolRange> ranges;
  // Graph inputs that are given now and become constants: shapes, axes and the like, which must be known to compile.
  std::map<std::string, Tensor> constants;
  // Of every value in the module, as far as its fixed axes decide (E504).
  int max_rank = 8;
  int64_t max_tensor_bytes = int64_t{64} << 30;
  // A Loop that takes more iterations is not unrolled; its nodes count for each iteration (E503).
  int64_t max_loop_iterations = 1024;
  int64_t max_inlined_nodes = 1'000'000;
};

struct ImportResult {
  std::unique_ptr<Module> module;    // stage imported, verified; module->weights holds the initializers used
  std::vector<Diagnostic> warnings;  // dims unified, declared shapes that inference contradicts
};

// `uses`: what became of the operators of the model is added here, also where the import fails.
//
// Collects every unsupported thing of the model before it gives up: one diagnostic for each (operator, domain, opset,
// reason) with its count and first nodes. Exit kind unsupported; invalid where the model breaks the specification.
Result<ImportResult> import_model(const Model& model, const ImportOptions& options = {}, OperatorUses* uses = nullptr);

}  // namespace rtx::onnx
