// Graphs, nodes, attributes and functions of the generated ONNX classes, turned into those of frontend/model.h.
//
// Included only by the reader: it knows the generated ONNX classes.
#pragma once

#include <map>
#include <string>

#include "frontend/inline_functions.h"
#include "frontend/model.h"
#include "frontend/tensor_data.h"

namespace rtx::onnx {

using Opsets = std::map<std::string, int64_t>;

// "ai.onnx" is another name of the default domain.
std::string folded_domain(const std::string& domain);

// Versions by folded domain. E112: a version below 1, above the newest known one (default domain), or two for a domain.
template <typename Imports>
Result<Opsets> read_opsets(const Imports& imports);

struct GraphContext {
  TensorSource& tensors;
  int64_t ir_version = 0;
  const Opsets* opsets = nullptr;  // in force
  bool in_function = false;        // attribute references are allowed
};

// The names are clean text (the scan saw to it). The main graph has `is_main`: its inputs must have types, and it must
// have outputs. Errors: E110, E111, E112, E205, E3xx, each placed at its node or value.
Result<Graph> read_graph(onnx_schema::GraphProto& proto, GraphContext& context, bool is_main);
Result<Function> read_function(onnx_schema::FunctionProto& proto, GraphContext& context);

}  // namespace rtx::onnx
