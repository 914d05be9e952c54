// What an import has to say: warnings, invalid nodes, and the one report of everything unsupported.
#include "base/text.h"
#include "frontend/importer.h"

namespace rtx::onnx {
namespace {

constexpr size_t max_named_nodes = 3;

}  // namespace

void Importer::warn(std::string_view id, std::string message) {
  Diagnostic warning = make_error(ErrorKind::invalid, id, std::move(message));
  warning.severity = Severity::warning;
  warning.where = node_ ? concat(model_.path, ": ", node_->str()) : model_.path;
  if (warned_.insert(concat(warning.where, "\n", warning.message)).second) warnings_.push_back(std::move(warning));
}

void Importer::report(const Node& node, Error error) {
  for (Diagnostic& diagnostic : error.diagnostics) {
    if (diagnostic.kind == ErrorKind::unsupported) {
      std::string operator_name = node.domain.empty() ? node.op_type : concat(node.domain, ".", node.op_type);
      std::string key = concat(operator_name, "\n", node.opset, "\n", diagnostic.id, "\n", diagnostic.message);
      auto [entry, is_new] = refusal_index_.try_emplace(key, refusals_.size());
      if (is_new) {
        diagnostic.message =
            concat(escape_text(operator_name), " (domain '", escape_text(node.domain.empty() ? "ai.onnx" : node.domain),
                   "', opset ", node.opset, "): ", diagnostic.message);
        refusals_.push_back({std::move(diagnostic), 0, {}});
      }
      Refusal& refusal = refusals_[entry->second];
      ++refusal.count;
      if (refusal.nodes.size() < max_named_nodes) refusal.nodes.push_back(node.str());
    } else if (invalid_.size() < max_invalid_reports) {
      std::string place = concat(model_.path, ": ", node.str());
      diagnostic.where = diagnostic.where.empty() ? place : concat(place, ": ", diagnostic.where);
      if (!node.scope.empty()) diagnostic.notes.push_back(concat("in module ", escape_text(node.scope)));
      invalid_.push_back(std::move(diagnostic));
    }
  }
}

Error Importer::collected() const {
  std::vector<Diagnostic> all = invalid_;
  for (const Refusal& refusal : refusals_) {
    Diagnostic diagnostic = refusal.diagnostic;
    if (diagnostic.where.empty()) diagnostic.where = model_.path;
    if (!refusal.nodes.empty()) {
      bool more = refusal.count > static_cast<int64_t>(refusal.nodes.size());
      diagnostic.notes.insert(diagnostic.notes.begin(),
                              concat(refusal.count, refusal.count == 1 ? " node: " : " nodes: ",
                                     join(refusal.nodes, ", "), more ? ", ..." : ""));
    }
    all.push_back(std::move(diagnostic));
  }
  return Error(std::move(all));
}

}  // namespace rtx::onnx
