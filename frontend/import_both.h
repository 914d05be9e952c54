// Models whose branches an input decides. Private to frontend/.
#pragma once

#include <string>

#include "frontend/import.h"

namespace rtx::onnx {

// Imports the model twice, with the bool input of that name known to be true and to be false, as the functions
// `main.true` and `main.false` of one module, which share weights and symbols. The input stays an argument of both.
// `uses` (may be null) counts the nodes of both.
Result<ImportResult> import_both(const Model& model, const ImportOptions& options, OperatorUses* uses,
                                 const std::string& input);

}  // namespace rtx::onnx
