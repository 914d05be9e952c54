// Nodes: from the row of the table to the outputs, and branches of If.
#include <set>
#include <utility>

#include "base/text.h"
#include "frontend/importer.h"
#include "frontend/refused_operators.h"

namespace rtx::onnx {

namespace {

// `other_versions`: the table has the operator, but not at the opset of the node.
Diagnostic unsupported_operator(const Node& node, bool other_versions) {
  if (other_versions)
    return make_error(ErrorKind::unsupported, "E401",
                      concat("this version of the operator is not supported, those from opset ",
                             first_version(node.domain, node.op_type), " on are"))
        .with_help("export the model with a later opset");
  const std::string_view reason = refusal_of(node.domain, node.op_type);
  return make_error(ErrorKind::unsupported, "E401", reason.empty() ? "operator is not supported" : std::string(reason))
      .with_help("export the model without it; rtx has no fallback that would run it elsewhere");
}

bool is_node(const Node& node, std::string_view op_type) { return node.op_type == op_type && node.domain.empty(); }

// Replaced by what they run; such a node has no row in the table.
bool is_control(const Node& node) { return is_node(node, "If") || is_node(node, "Loop"); }

bool has_blank_separated(std::string_view list, std::string_view word) {
  while (!list.empty()) {
    size_t end = list.find(' ');
    if (list.substr(0, end) == word) return true;
    list = end == std::string_view::npos ? std::string_view() : list.substr(end + 1);
  }
  return false;
}

}  // namespace

void Importer::import_nodes(const Graph& graph) {
  const Graph* outer = std::exchange(graph_, &graph);
  for (const Node& node : graph.nodes) import_node(node);
  graph_ = outer;
}

void Importer::import_node(const Node& node) {
  if (selector_) return;
  const int64_t reports_before = reports_;
  const size_t operations_before = function_->block.size();
  NodeFate fate = try_node(node);
  if (fate == NodeFate::converted && reports_ != reports_before) fate = NodeFate::refused;
  if (uses_) count(node, fate, operations_before);
}

NodeFate Importer::try_node(const Node& node) {
  node_ = &node;
  dims_to_fix_.clear();
  const auto failed = [&](NodeFate fate) {
    fail_outputs(node);
    return fate;
  };
  bool known = false;
  const Converter* row = find_converter(node.domain, node.op_type, node.opset, &known);
  if (!row && !is_control(node)) {
    report(node, unsupported_operator(node, known));
    for (const Attribute& attribute : node.attributes)
      if (auto* inner = std::get_if<std::shared_ptr<Graph>>(&attribute.value); inner && *inner)
        report_unknown_operators(**inner);
    return failed(NodeFate::refused);
  }
  std::vector<Imported*> inputs;
  for (const std::string& name : node.inputs) {
    Imported* imported = name.empty() ? nullptr : lookup(name);
    if (!name.empty() && !imported) {
      report(node,
             Error(make_error(ErrorKind::invalid, "E203", concat("value '", escape_text(name), "' is not defined"))));
      return failed(NodeFate::refused);
    }
    if (imported && imported->unsupported) {
      report(node, Error(make_error(ErrorKind::unsupported, "E404",
                                    concat("an input of type ", *imported->unsupported, " is not supported"))));
      return failed(NodeFate::refused);
    }
    if (imported && imported->failed) return failed(NodeFate::untried);
    if (imported && imported->sequence && row && !row->takes_sequences) {
      report(node, Error(make_error(ErrorKind::unsupported, "E404", "an input that is a sequence is not supported")));
      return failed(NodeFate::refused);
    }
    inputs.push_back(imported);
  }
  while (!inputs.empty() && !inputs.back()) inputs.pop_back();
  Result<void> done = row                   ? convert(node, *row, std::move(inputs))
                      : is_node(node, "If") ? inline_if(node, inputs)
                                            : unroll_loop(node, inputs);
  node_ = &node;
  if (!done) {
    report(node, std::move(done).error());
    return failed(NodeFate::refused);
  }
  return row ? NodeFate::converted : NodeFate::inlined;
}

Result<void> Importer::convert(const Node& node, const Converter& row, std::vector<Imported*> inputs) {
  int count = static_cast<int>(inputs.size());
  if (count < row.min_inputs || count > row.max_inputs)
    return make_error(ErrorKind::invalid, "E221", concat("the operator has ", count, " inputs"))
        .with_expected(row.max_inputs == any_number       ? concat(row.min_inputs, " or more")
                       : row.min_inputs == row.max_inputs ? concat(row.min_inputs)
                                                          : concat(row.min_inputs, " to ", row.max_inputs));
  for (int i = 0; i < count; ++i) {
    const bool needed = row.max_inputs == any_number || (i < row.min_inputs && !(row.optional_inputs >> i & 1));
    if (needed && !inputs[static_cast<size_t>(i)])
      return make_error(ErrorKind::invalid, "E221", concat("input ", i, " is left out"))
          .with_expected("the name of a value: the operator needs this input");
  }
  if (node.outputs.empty()) return make_error(ErrorKind::invalid, "E221", "the node has no outputs");
  if (static_cast<int64_t>(node.outputs.size()) > row.max_outputs)
    return make_error(ErrorKind::invalid, "E221", concat("the operator has ", node.outputs.size(), " outputs"))
        .with_expected(concat("at most ", row.max_outputs, " outputs of this type of operator"));
  for (const Attribute& attribute : node.attributes)
    if (!has_blank_separated(row.attributes, attribute.name))
      return make_error(ErrorKind::invalid, "E325",
                        concat("attribute '", escape_text(attribute.name), "' is not known to version ", row.since,
                               " of the operator"))
          .with_expected(row.attributes.empty() ? "no attributes" : std::string(row.attributes));
    else if (!attribute.unsupported.empty())
      return make_error(
          ErrorKind::unsupported, "E404",
          concat("attribute '", escape_text(attribute.name), "' of type ", attribute.unsupported, " is not supported"));

  std::vector<std::optional<Contents>> known(node.outputs.size());
  bool complete = evaluate_symbolically(node, row, inputs, known);
  builder_->origins = {node_->origin()};
  Conversion conversion(*this, node, *builder_, std::move(inputs));
  if (!complete) {
    Result<void> done = row.convert(conversion);
    if (conversion.deferred_error()) return *conversion.deferred_error();
    if (!done) return done;
  }
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    const Conversion::Output& output = conversion.outputs()[i];
    const std::optional<Contents>& contents = output.contents ? output.contents : known[i];
    size_t rank = output.value ? output.value->type.shape.size() : contents ? contents->shape.size() : 0;
    if (rank > static_cast<size_t>(options_.max_rank))
      return make_error(ErrorKind::limit, "E504", concat("the result has rank ", rank))
          .with_expected(concat("at most ", options_.max_rank))
          .with_help("--max-rank");
  }
  define_outputs(conversion, std::move(known));
  return Ok{};
}

Result<std::vector<Imported*>> Importer::convert_in_place(Node made, std::vector<Imported*> inputs) {
  const Node& node = made_nodes_.emplace_back(std::move(made));
  bool known = false;
  const Converter* row = find_converter(node.domain, node.op_type, node.opset, &known);
  assert(row);
  for (const Imported* input : inputs) made_nodes_.back().inputs.push_back(input ? input->name : std::string());
  scopes_.emplace_back();
  Result<void> done = convert(node, *row, std::move(inputs));
  std::vector<Imported*> results;
  for (size_t i = 0; done && i < node.outputs.size(); ++i) results.push_back(scopes_.back()[node.outputs[i]]);
  scopes_.pop_back();
  if (!done) return std::move(done).error();
  return results;
}

Imported* Importer::known(const std::vector<Dim>& dims) {
  Imported& imported = values_.emplace_back();
  imported.contents = Contents{DType::i64, {static_cast<int64_t>(dims.size())}, {}};
  for (const Dim& dim : dims) imported.contents->elements.push_back(Element::of(dim));
  imported.contents_asked = true;
  imported.type = {DType::i64, static_shape(imported.contents->shape)};
  return &imported;
}

Result<void> Importer::check_size(const Type& type) const {
  int64_t count = 1;
  bool wraps = false;
  for (const Dim& dim : type.shape) {
    if (dim.overflowed()) return make_error(ErrorKind::invalid, "E302", "a size of the result overflows 64 bits");
    if (dim.is(0)) return Ok{};
    if (dim.is_constant() && __builtin_mul_overflow(count, dim.constant(), &count)) wraps = true;
  }
  auto bytes = wraps ? std::nullopt : packed_bytes(type.dtype, count);
  if (!bytes)
    return make_error(ErrorKind::invalid, "E302", "the element count of the result overflows 64 bits")
        .with_got(type.str());
  if (*bytes > options_.max_tensor_bytes)
    return make_error(ErrorKind::limit, "E504", concat("the result has ", *bytes, " bytes"))
        .with_expected(concat("at most ", options_.max_tensor_bytes))
        .with_got(type.str())
        .with_help("--max-tensor-bytes");
  return Ok{};
}

void Importer::define_outputs(Conversion& conversion, std::vector<std::optional<Contents>> known) {
  const Node& node = conversion.node();
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i].empty()) continue;
    Conversion::Output& output = conversion.outputs()[i];
    if (output.alias) {
      scopes_.back()[node.outputs[i]] = output.alias;
      check_value_info(*graph_, node.outputs[i]);
      continue;
    }
    Imported& imported = add(node.outputs[i]);
    imported.producer = &node;
    imported.sources = conversion.inputs_;
    if (output.sequence) {
      imported.sequence = std::move(output.sequence);
      continue;
    }
    imported.stored = output.stored;
    imported.value = output.value;
    imported.contents = output.contents ? std::move(output.contents) : std::move(known[i]);
    if (output.value) {
      if (output.value->name.empty()) output.value->name = node.outputs[i];
      imported.type = output.value->type;
      imported.contents_asked = true;
    } else if (output.stored) {
      imported.type = {output.stored->dtype, static_shape(output.stored->shape)};
    } else if (imported.contents) {
      imported.type = {imported.contents->dtype, static_shape(imported.contents->shape)};
    } else {
      imported.failed = true;  // an optional output that the converter does not make
      report(node, Error(make_error(ErrorKind::unsupported, "E401", concat("output ", i, " is not supported"))));
    }
    check_value_info(*graph_, node.outputs[i]);
  }
}

void Importer::fail_outputs(const Node& node) {
  for (const std::string& name : node.outputs) {
    if (name.empty()) continue;
    Imported& imported = add(name);
    imported.producer = &node;
    imported.failed = true;
  }
}

// Exporters guard squeeze and the like by an If on a shape. The branch that cannot run is not looked at.
Result<void> Importer::inline_if(const Node& node, const std::vector<Imported*>& inputs) {
  if (inputs.size() != 1) return make_error(ErrorKind::invalid, "E221", "If needs one input, the condition");
  const Graph* branches[2] = {};
  const char* names[2] = {"else_branch", "then_branch"};
  for (int i = 0; i < 2; ++i) {
    const Attribute* branch = node.find(names[i]);
    auto* graph = branch ? std::get_if<std::shared_ptr<Graph>>(&branch->value) : nullptr;
    if (!graph || !*graph || (*graph)->outputs.size() != node.outputs.size())
      return make_error(ErrorKind::invalid, "E222",
                        concat("attribute '", names[i], "' is missing or has another number of outputs than the node"));
    branches[i] = graph->get();
  }
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    int32_t types[2] = {branches[0]->outputs[i].elem_type, branches[1]->outputs[i].elem_type};
    if (types[0] != 0 && types[1] != 0 && types[0] != types[1])
      return make_error(ErrorKind::invalid, "E335", concat("the branches give output ", i, " different types"));
  }
  const Type& condition_type = inputs[0]->value ? inputs[0]->value->type : inputs[0]->type;
  Dim count = condition_type.element_count();
  if (condition_type.dtype != DType::boolean || (count.is_constant() && !count.is(1)))
    return make_error(ErrorKind::invalid, "E327", "input 0, the condition, must be one bool")
        .with_got(condition_type.str());
  const Contents* condition = contents(*inputs[0]);
  if (!condition || condition->elements.size() != 1 || !condition->all_constant()) {
    if (const Imported* source = only_source(*inputs[0]); source && !fixed_) {
      selector_ = source->name;
      return make_error(ErrorKind::unsupported, "E405", "the condition is an input");
    }
    report_unknown_operators(*branches[0]);
    report_unknown_operators(*branches[1]);
    Diagnostic diagnostic = make_error(ErrorKind::unsupported, "E405", "the condition is known only at run time");
    if (condition && condition->all_known())
      return diagnostic.with_help("fix the dims it depends on with --dim NAME=SIZE, or export without the branch");
    explain_data(*inputs[0], diagnostic);
    return diagnostic.with_help("export without the branch");
  }
  bool taken = !condition->elements[0].dim.is(0);
  const Graph* graph = branches[taken ? 1 : 0];
  if (uses_) count_dead(*branches[taken ? 0 : 1]);

  scopes_.emplace_back();
  define_initializers(*graph);
  import_nodes(*graph);
  std::vector<Imported*> results;
  for (const ValueInfo& output : graph->outputs) results.push_back(lookup(output.name));
  scopes_.pop_back();
  for (size_t i = 0; i < results.size(); ++i) {
    if (!results[i])
      return make_error(ErrorKind::invalid, "E203",
                        concat("value '", escape_text(graph->outputs[i].name), "' is not defined"));
    check_declared(graph->outputs[i], *results[i], "output");
    if (!node.outputs[i].empty()) scopes_.back()[node.outputs[i]] = results[i];
  }
  return Ok{};
}

const Imported* Importer::only_source(const Imported& value) const {
  constexpr size_t most_values = 256;
  std::vector<const Imported*> open = {&value};
  std::set<const Imported*> seen;
  const Imported* source = nullptr;
  while (!open.empty()) {
    const Imported* at = open.back();
    open.pop_back();
    if (!at || at->stored || (at->contents && at->contents->all_known()) || !seen.insert(at).second) continue;
    if (seen.size() > most_values) return nullptr;
    if (at->sequence) {
      open.insert(open.end(), at->sequence->begin(), at->sequence->end());
    } else if (at->producer) {
      open.insert(open.end(), at->sources.begin(), at->sources.end());
    } else {
      if (source || at->type.dtype != DType::boolean || !at->type.element_count().is(1)) return nullptr;
      source = at;
    }
  }
  return source;
}

// A branch that cannot be imported is still looked at, so that the report is whole.
void Importer::report_unknown_operators(const Graph& graph) {
  for (const Node& node : graph.nodes) {
    bool known = false;
    const bool unknown = !find_converter(node.domain, node.op_type, node.opset, &known) && !is_control(node);
    if (unknown) report(node, unsupported_operator(node, known));
    if (uses_) uses_->count(node, unknown ? NodeFate::refused : NodeFate::untried);
    for (const Attribute& attribute : node.attributes)
      if (auto* inner = std::get_if<std::shared_ptr<Graph>>(&attribute.value); inner && *inner)
        report_unknown_operators(**inner);
  }
}

}  // namespace rtx::onnx
