// What rtx-import prints of operators: those of one model, and those it can import at all.
#pragma once

#include <string>

#include "frontend/import.h"

namespace rtx::cli {

// A row for each operator and opset of the model, then one line that says whether all is supported.
std::string support_table(const onnx::OperatorUses& uses, bool imported);

// {"model", "supported", "operators": [{"domain", "operator", "opset", "nodes", "fates": {fate: nodes},
// "ir_operations", "reasons"}], "diagnostics": [as --diagnostics-format=json]}
std::string support_json(const onnx::Model& model, const onnx::OperatorUses& uses,
                         const Result<onnx::ImportResult>& imported);

// The table of converters: domain, operator, the opsets of each form, inputs, outputs and attributes.
std::string converters_table();
std::string converters_json();

}  // namespace rtx::cli
