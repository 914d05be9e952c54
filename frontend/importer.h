// Importer: walks the nodes of a model once and builds a function. Private to frontend/; import.h is the interface.
#pragma once

#include <deque>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "frontend/conversion.h"
#include "frontend/converter.h"
#include "frontend/import.h"

namespace rtx::onnx {

// A shape of known sizes.
inline Shape static_shape(const std::vector<int64_t>& sizes) { return Shape(sizes.begin(), sizes.end()); }

constexpr size_t max_invalid_reports = 20;

class Importer {
 public:
  // `fixed`: the value that a bool input of one element is known to have (it stays an input). The weights used are
  // added to `weights`.
  Importer(const Model& model, const ImportOptions& options, OperatorUses* uses, std::shared_ptr<WeightStore> weights,
           std::optional<Selector> fixed)
      : model_(model), options_(options), weights_(std::move(weights)), fixed_(std::move(fixed)), uses_(uses) {}

  // Where the condition of an If depends on one bool input alone: gives up, and selector() names the input.
  Result<ImportResult> run();
  const std::optional<std::string>& selector() const { return selector_; }

  // ---- For Conversion
  Result<Value*> materialise(Imported& imported, Builder& builder);
  // A constant, or a weight of this (or a like) name where it is not small.
  Result<Value*> constant(Tensor tensor, const std::string& name, Builder& builder);
  const Contents* contents(Imported& imported);
  // True if the dims are equal or can be made so by fixing a symbol everywhere. Warns once about each symbol fixed.
  bool unify(const Dim& a, const Dim& b);
  // `dim` with every symbol that was fixed since replaced.
  Dim fresh(Dim dim) const;
  void limit(const Dim& dim, int64_t bound);
  void refresh(AttributeList& attributes) const;
  void warn(std::string_view id, std::string message);
  // Refuses a type whose fixed axes alone make it too large (E504) or overflow (E302).
  Result<void> check_size(const Type& type) const;
  const SymbolRanges& ranges() const { return module_->symbols; }
  Imported* lookup(std::string_view name) const;
  // Notes of the nodes that make the contents of a value unknown, back to an input of the model, and what to do.
  void explain_data(const Imported& imported, Diagnostic& diagnostic) const;
  // See Conversion::apply and Conversion::known.
  Result<std::vector<Imported*>> convert_in_place(Node node, std::vector<Imported*> inputs);
  Imported* known(const std::vector<Dim>& dims);

 private:
  // Names visible at one nesting level; an inner graph sees the outer ones.
  using Scope = std::unordered_map<std::string, Imported*>;

  // One kind of refusal and where it happened.
  struct Refusal {
    Diagnostic diagnostic;
    int64_t count = 0;
    std::vector<std::string> nodes;
  };

  Imported& add(const std::string& name);
  void define_initializers(const Graph& graph);
  Result<void> define_inputs();
  void import_nodes(const Graph& graph);
  void import_node(const Node& node);
  NodeFate try_node(const Node& node);
  Result<void> convert(const Node& node, const Converter& row, std::vector<Imported*> inputs);
  Result<void> inline_if(const Node& node, const std::vector<Imported*>& inputs);
  Result<void> unroll_loop(const Node& node, const std::vector<Imported*>& inputs);
  Result<std::vector<Imported*>> run_body(const Graph& body, int64_t iteration, bool condition,
                                          const std::vector<Imported*>& carried);
  Result<int64_t> control_value(Imported& value, std::string_view what);
  Result<Imported*> empty_scan(const ValueInfo& declared, const std::string& name);
  Result<Imported*> stack(const Node& node, const std::string& name, std::vector<Imported*> slices);
  // The one input that a value depends on, if there is one and it is a bool of one element.
  const Imported* only_source(const Imported& value) const;
  // Adds a weight; an equal one of that name is taken instead. Returns its name.
  std::string add_weight(const std::string& stem, const WeightEntry& entry);
  void report_unknown_operators(const Graph& graph);
  // ---- For the uses of operators
  OperatorUse& use_of(const Node& node) { return uses_->of(node.domain, node.op_type, node.opset); }
  void count(const Node& node, NodeFate fate, size_t operations_before);
  void count_dead(const Graph& graph);
  void note_reason(const Node& node, const Diagnostic& diagnostic);
  // Fills the contents of the outputs without emitting. True if all of them are fully known.
  bool evaluate_symbolically(const Node& node, const Converter& row, const std::vector<Imported*>& inputs,
                             std::vector<std::optional<Contents>>& results);
  bool evaluate_in_scratch(const Node& node, const Converter& row, const std::vector<Imported*>& inputs,
                           std::vector<std::optional<Contents>>& results);
  void define_outputs(Conversion& conversion, std::vector<std::optional<Contents>> known);
  void fail_outputs(const Node& node);
  void report(const Node& node, Error error);
  void finish();
  // Compares what the file declares of a value with what inference found. An element type that differs is E326; a shape
  // that differs is only noted (`declared_shapes_`), since shapes are often left over from tracing or editing.
  void check_declared(const ValueInfo& declared, const Imported& found, std::string_view what);
  // The same for the entry of `value_info` of this name, if there is one.
  void check_value_info(const Graph& graph, const std::string& name);
  void warn_of_declared_shapes();
  Error collected() const;

  const Model& model_;
  const ImportOptions& options_;
  std::shared_ptr<WeightStore> weights_;
  std::optional<Selector> fixed_;
  std::optional<std::string> selector_;
  std::unique_ptr<Module> module_;
  Function* function_ = nullptr;
  std::optional<Builder> builder_;
  std::deque<Imported> values_;
  std::deque<Node> made_nodes_;    // that convert_in_place was given
  std::deque<WeightEntry> given_;  // the entries of options_.constants
  std::vector<Scope> scopes_;
  const Graph* graph_ = nullptr;  // being imported, and its node
  const Node* node_ = nullptr;
  std::vector<std::string> declared_shapes_;  // that inference contradicts, in the order found
  std::vector<std::pair<std::string, Dim>> substitutions_;
  std::string dims_to_fix_;  // help for the node being imported, where dims that it needs equal could not be made so
  std::vector<Diagnostic> warnings_;
  std::set<std::string> warned_;  // each is given once
  std::vector<Diagnostic> invalid_;
  // By operator, domain, opset and reason; in the order of first appearance.
  std::vector<Refusal> refusals_;
  std::map<std::string, size_t> refusal_index_;
  int64_t reports_ = 0;           // calls of report()
  int64_t unrolled_nodes_ = 0;    // of the bodies of loops, for each iteration
  OperatorUses* uses_ = nullptr;  // null: nobody asks
};

}  // namespace rtx::onnx
