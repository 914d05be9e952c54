// Names of a graph checked and its nodes put into an order that runs.
#pragma once

#include <string>
#include <vector>

#include "frontend/model.h"

namespace rtx::onnx {

// Checks that every value of the graph and of the graphs in its attributes has one definition and that every use has
// one in scope (an inner graph sees the values of the outer ones; the innermost definition counts), then sorts the
// nodes of each graph topologically. A graph that is sorted already keeps its order; else the node that stands first
// among those that can run comes next. What an inner graph reads from outside counts as an input of its node.
//
// Errors: E201 cycle, E202 two definitions, E203 undefined value, E204 two initializers of one name; several are
// reported together, each placed at its node.
Result<void> check_and_sort(Graph& graph);

}  // namespace rtx::onnx
