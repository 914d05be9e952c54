#include "frontend/operator_use.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "base/text.h"

namespace rtx::onnx {

std::string_view to_string(NodeFate fate) {
  switch (fate) {
    case NodeFate::converted:
      return "converted";
    case NodeFate::folded:
      return "folded";
    case NodeFate::inlined:
      return "inlined";
    case NodeFate::dead:
      return "dead";
    case NodeFate::untried:
      return "untried";
    case NodeFate::refused:
      return "refused";
  }
  return "";
}

int64_t OperatorUse::count() const { return std::accumulate(std::begin(nodes), std::end(nodes), int64_t{0}); }

std::string OperatorUse::str() const { return concat(domain, domain.empty() ? "" : ".", op_type, "-", opset); }

std::string OperatorUse::handling() const {
  const auto of = [&](NodeFate fate) { return nodes[static_cast<int>(fate)]; };
  const int64_t all = count();
  std::vector<std::string> parts;
  const auto part = [&](NodeFate fate, std::string_view text) {
    if (of(fate) == 0) return;
    parts.push_back(of(fate) == all ? std::string(text) : concat(of(fate), " of ", all, " ", text));
  };
  if (of(NodeFate::converted) > 0) {
    parts.push_back(ir_ops.empty() ? "constant" : join(ir_ops, ", ", [](std::string_view op) { return op; }));
  }
  part(NodeFate::folded, "folded away");
  part(NodeFate::inlined, "replaced by its nodes");
  part(NodeFate::dead, "in a branch that cannot run");
  part(NodeFate::untried, "not tried: the inputs come from a refused node");
  for (const std::string& reason : reasons) parts.push_back(concat("not supported: ", reason));
  return join(parts, "; ");
}

OperatorUse& OperatorUses::of(std::string_view domain, std::string_view op_type, int64_t opset) {
  OperatorUse& use = uses_[concat(domain, "\n", op_type, "\n", opset)];
  if (use.op_type.empty()) {
    use.domain = domain;
    use.op_type = op_type;
    use.opset = opset;
  }
  return use;
}

void OperatorUses::count(const Node& node, NodeFate fate) {
  auto [known, is_new] = fates_.try_emplace(&node, fate);
  int64_t* nodes = of(node.domain, node.op_type, node.opset).nodes;
  if (!is_new) {
    if (fate <= known->second) return;
    --nodes[static_cast<int>(known->second)];
    known->second = fate;
  }
  ++nodes[static_cast<int>(fate)];
}

std::vector<const OperatorUse*> OperatorUses::sorted() const {
  std::vector<const OperatorUse*> all;
  for (const auto& [key, use] : uses_) all.push_back(&use);
  std::sort(all.begin(), all.end(), [](const OperatorUse* a, const OperatorUse* b) {
    return std::tie(a->domain, a->op_type, a->opset) < std::tie(b->domain, b->op_type, b->opset);
  });
  return all;
}

}  // namespace rtx::onnx
