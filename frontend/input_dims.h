// The axes of a model's inputs as dims, and the ranges that the user gave them.
#pragma once

#include <map>
#include <string>

#include "frontend/import.h"
#include "ir/dim.h"
#include "ir/type.h"

namespace rtx::onnx {

struct InputDims {
  // By input, for those with a declared rank that are neither initializers nor given constants. An axis without a name
  // has the symbol INPUT_dimN; one with an expression over a symbol that no axis is exactly has a symbol of its own.
  std::map<std::string, Shape> shapes;
  SymbolRanges symbols;  // of the shapes
};

// Dims with one size in options.ranges are constants in the result. E001: a range for a name that no axis has.
Result<InputDims> input_dims(const Model& model, const ImportOptions& options);

}  // namespace rtx::onnx
