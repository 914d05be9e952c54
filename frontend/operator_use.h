// What an import made of the operators of a model.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "frontend/model.h"

namespace rtx::onnx {

// What became of one node. A node that is imported more than once (in both programs of an If, in each iteration of a
// loop) counts once, as the last of these that it was.
enum class NodeFate : uint8_t {
  dead,       // in a branch that cannot run, in a loop without iterations: not looked at
  untried,    // its operator is known, but its inputs come from a refused node
  inlined,    // replaced by its nodes: a call of a model-local function, the live branch of an If, a loop
  folded,     // no operation: computed while importing, stored as a weight, or the same as its input
  converted,  // to operations of the IR
  refused,    // unsupported, or not as the specification has it
};
inline constexpr int node_fates = 6;
std::string_view to_string(NodeFate fate);

// The nodes of one operator at one opset, wherever in the model they stand: bodies of functions count for each call.
struct OperatorUse {
  std::string domain;  // "" is ai.onnx
  std::string op_type;
  int64_t opset = 0;
  int64_t nodes[node_fates] = {};     // by NodeFate
  std::set<std::string_view> ir_ops;  // that the converted nodes became
  std::vector<std::string> reasons;   // of the refused nodes, each once, in the order of appearance

  int64_t count() const;
  bool supported() const { return reasons.empty(); }
  // "Add-17", "com.microsoft.Attention-1"
  std::string str() const;
  // One line: "matmul, transpose; 3 of 12 folded away", "not supported: the reason".
  std::string handling() const;
};

// By domain, operator and opset.
class OperatorUses {
 public:
  // Counts a node, which must live as long as it may be counted again.
  void count(const Node& node, NodeFate fate);
  OperatorUse& of(std::string_view domain, std::string_view op_type, int64_t opset);
  // The default domain first, then by name.
  std::vector<const OperatorUse*> sorted() const;

 private:
  std::map<std::string, OperatorUse, std::less<>> uses_;
  std::unordered_map<const Node*, NodeFate> fates_;
};

}  // namespace rtx::onnx
