// --constant: values for inputs that must be known to compile.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "frontend/model.h"
#include "ir/tensor.h"

namespace rtx::cli {

// "NAME=1,128" for a scalar or vector, "NAME=@FILE.npy" for any tensor, in the element type that the input declares.
// E001: malformed, no such input, another rank or size than it declares, a value that its type does not hold.
Result<std::map<std::string, Tensor>> constants_of(const std::vector<std::string>& arguments, const onnx::Graph& graph);

}  // namespace rtx::cli
