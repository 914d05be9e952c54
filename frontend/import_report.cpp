// What an import has to say: warnings, invalid nodes, and the one report of everything unsupported.
#include <algorithm>

#include "base/text.h"
#include "frontend/importer.h"

namespace rtx::onnx {
namespace {

constexpr size_t max_named_nodes = 3;
constexpr int max_explained = 12;  // nodes that lead to unknown contents
constexpr size_t max_reasons = 8;  // of one operator in a table

// Between an input that holds a size and the place where the size is used: nothing is computed there.
bool only_moves(const Node& node) {
  bool known = false;
  const Converter* row = find_converter(node.domain, node.op_type, node.opset, &known);
  return node.op_type == "Cast" || (row && row->symbolic.kind == SymbolicRule::Kind::move);
}

}  // namespace

void Importer::warn(std::string_view id, std::string message) {
  Diagnostic warning = make_error(ErrorKind::invalid, id, std::move(message));
  warning.severity = Severity::warning;
  warning.where = node_ ? concat(model_.path, ": ", node_->str()) : model_.path;
  if (warned_.insert(concat(warning.where, "\n", warning.message)).second) warnings_.push_back(std::move(warning));
}

void Importer::report(const Node& node, Error error) {
  ++reports_;
  for (Diagnostic& diagnostic : error.diagnostics) {
    if (diagnostic.kind == ErrorKind::invalid && diagnostic.help.empty() && !dims_to_fix_.empty()) {
      // The model may be right for some sizes: it is not known to break a rule.
      diagnostic.kind = ErrorKind::unsupported;
      diagnostic.id = "E406";
      diagnostic.help = dims_to_fix_;
    }
    if (uses_) note_reason(node, diagnostic);
    if (diagnostic.kind == ErrorKind::unsupported) {
      std::string operator_name = node.domain.empty() ? node.op_type : concat(node.domain, ".", node.op_type);
      std::string key = concat(operator_name, "\n", node.opset, "\n", diagnostic.id, "\n", diagnostic.message);
      auto [entry, is_new] = refusal_index_.try_emplace(key, refusals_.size());
      if (is_new) {
        diagnostic.message =
            concat(escape_text(operator_name), " (domain '", escape_text(node.domain.empty() ? "ai.onnx" : node.domain),
                   "', opset ", node.opset, "): ", diagnostic.message);
        if (!node.source.empty()) diagnostic.notes.push_back(concat("the first at ", escape_text(node.source)));
        refusals_.push_back({std::move(diagnostic), 0, {}});
      }
      Refusal& refusal = refusals_[entry->second];
      ++refusal.count;
      if (refusal.nodes.size() < max_named_nodes) refusal.nodes.push_back(node.origin());
    } else if (invalid_.size() < max_invalid_reports) {
      std::string place = concat(model_.path, ": ", node.str());
      diagnostic.where = diagnostic.where.empty() ? place : concat(place, ": ", diagnostic.where);
      if (diagnostic.help.empty() && diagnostic.expected.empty())
        diagnostic.help = "the exporter or an editing tool wrote it wrongly; export the model again";
      if (!node.scope.empty()) diagnostic.notes.push_back(concat("in module ", escape_text(node.scope)));
      if (!node.source.empty()) diagnostic.notes.push_back(concat("at ", escape_text(node.source)));
      invalid_.push_back(std::move(diagnostic));
    }
  }
}

// Back through the first input of each node that is not known.
void Importer::explain_data(const Imported& imported, Diagnostic& diagnostic) const {
  const Imported* at = &imported;
  bool computed = false;
  for (int steps = 0; at && steps < max_explained; ++steps) {
    if (!at->producer) {
      diagnostic.with_note(concat("which is input '", escape_text(at->name), "' of the model"));
      break;
    }
    computed = computed || !only_moves(*at->producer);
    diagnostic.with_note(concat("'", escape_text(at->name), "' comes from ", at->producer->origin()));
    const Imported* next = nullptr;
    for (const std::string& name : at->producer->inputs) {
      const Imported* candidate = name.empty() ? nullptr : lookup(name);
      if (!candidate || candidate->stored || (candidate->contents && candidate->contents->all_known())) continue;
      next = candidate;
      break;
    }
    at = next;
  }
  diagnostic.with_help(at && !computed
                           ? concat("give the value now, --constant '", escape_text(at->name),
                                    "=...', or take the size from the shape of another input")
                           : std::string("sizes must follow from the shapes of the inputs and from constants: export "
                                         "with padding to a fixed size in place of this"));
}

// Named after its own node, so constants and dims that other nodes gave it do not count.
void Importer::count(const Node& node, NodeFate fate, size_t operations_before) {
  OperatorUse& use = use_of(node);
  if (fate == NodeFate::converted) {
    const auto& operations = function_->block.operations();
    const std::string origin = node.origin();
    bool any = false;
    auto at = operations.rbegin();
    for (size_t left = operations.size() - operations_before; left > 0; --left, ++at) {
      if ((*at)->origins.size() != 1 || (*at)->origins[0] != origin) continue;
      any = true;
      if (!(*at)->is(Op::constant)) use.ir_ops.insert(rtx::to_string((*at)->op));
    }
    if (!any) fate = NodeFate::folded;
  }
  uses_->count(node, fate);
}

void Importer::count_dead(const Graph& graph) {
  for (const Node& node : graph.nodes) {
    uses_->count(node, NodeFate::dead);
    for (const Attribute& attribute : node.attributes)
      if (auto* inner = std::get_if<std::shared_ptr<Graph>>(&attribute.value); inner && *inner) count_dead(**inner);
  }
}

void Importer::note_reason(const Node& node, const Diagnostic& diagnostic) {
  std::vector<std::string>& reasons = use_of(node).reasons;
  const std::string reason = concat(diagnostic.message, " [RTX-", diagnostic.id, "]");
  if (reasons.size() < max_reasons && std::find(reasons.begin(), reasons.end(), reason) == reasons.end())
    reasons.push_back(reason);
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
