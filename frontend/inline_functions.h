// Model-local functions, replaced by their bodies.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "frontend/model.h"
#include "frontend/read_model.h"

namespace rtx::onnx {

struct Function {
  std::string domain, name, overload;  // together the key
  std::vector<std::string> inputs, outputs;
  std::vector<std::string> attributes;  // that a call may give; no default
  std::vector<Attribute> defaults;      // attributes with a default
  std::map<std::string, int64_t> opsets;
  std::vector<Node> nodes;  // Node::opset is that of the function's own imports

  std::string str() const;  // "domain.name", with ":overload" if there is one
};

// Replaces every call in the graph and in the graphs of its attributes, also of functions by functions, whatever their
// order. Values and nodes of a body get fresh names, inputs are bound by position, left-out inputs stay left out,
// attribute references take the value of the call or the default, or vanish. The result is not sorted.
//
// Errors: E202 to E204 and E201 inside a body, E206 recursion, E207 a call does not fit its function, E208 two
// functions of one key, E502 call depth, E503 too many nodes; recursion and limits are found before anything is copied.
// The result names the functions that are called, in the order of the file.
Result<std::vector<FunctionUse>> inline_functions(Graph& graph, std::vector<Function> functions, const ReadLimits& limits);

}  // namespace rtx::onnx
