#include "frontend/inline_functions.h"

#include <algorithm>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

#include "base/text.h"
#include "frontend/sort_nodes.h"

namespace rtx::onnx {
namespace {

// Fresh names are made from at most this much of the original: a body that is copied a million times must not copy
// a million long names.
constexpr size_t max_stem_bytes = 48;
constexpr size_t max_node_name_bytes = 200;

using Key = std::tuple<std::string, std::string, std::string>;

Key key_of(const Function& function) { return {function.domain, function.name, function.overload}; }
Key key_of(const Node& node) { return {node.domain, node.op_type, node.overload}; }

std::shared_ptr<Graph>* graph_of(Attribute& attribute) {
  auto* graph = std::get_if<std::shared_ptr<Graph>>(&attribute.value);
  return graph && *graph ? graph : nullptr;
}

// The longest prefix of at most `size` bytes that ends between two UTF-8 characters.
std::string_view cut(std::string_view text, size_t size) {
  if (text.size() <= size) return text;
  while (size > 0 && (static_cast<unsigned char>(text[size]) & 0xc0) == 0x80) --size;
  return text.substr(0, size);
}

// What is known of a function before anything is copied.
struct Facts {
  std::vector<size_t> callees;  // one entry a call
  int64_t own_nodes = 0;        // without calls
  int64_t expanded_nodes = -1;  // -1: not known yet
  int64_t depth = 0;            // calls below and including this one
};

class Inliner {
 public:
  Inliner(std::vector<Function> functions, const ReadLimits& limits)
      : functions_(std::move(functions)), limits_(limits) {}

  Result<std::vector<FunctionUse>> run(Graph& graph) {
    for (size_t i = 0; i < functions_.size(); ++i)
      if (!index_.try_emplace(key_of(functions_[i]), i).second)
        return make_error(ErrorKind::invalid, "E208", concat("function '", functions_[i].str(), "' is defined twice"));
    for (Function& function : functions_) RTX_TRY(check_body(function));
    facts_.resize(functions_.size());
    for (size_t i = 0; i < functions_.size(); ++i) gather(functions_[i].nodes, facts_[i]);
    for (size_t i = 0; i < functions_.size(); ++i) RTX_TRY(measure(i));

    Facts main;
    gather(graph.nodes, main);
    int64_t total = main.own_nodes;
    for (size_t callee : main.callees) {
      total = std::min(total + facts_[callee].expanded_nodes, limits_.max_inlined_nodes + 1);
      if (facts_[callee].depth > limits_.max_depth)
        return make_error(ErrorKind::limit, "E502",
                          concat("calls of '", functions_[callee].str(), "' are nested too deep"))
            .with_expected(concat("call depth at most ", limits_.max_depth))
            .with_got(std::to_string(facts_[callee].depth))
            .with_help("raise the limit with --max-depth");
    }
    if (main.callees.empty()) return std::vector<FunctionUse>();
    if (total > limits_.max_inlined_nodes)
      return make_error(ErrorKind::limit, "E503", "inlining the model-local functions gives too many nodes")
          .with_expected(concat("at most ", limits_.max_inlined_nodes, " nodes"))
          .with_help("raise the limit with --max-inlined-nodes");
    collect_names(graph);
    calls_.resize(functions_.size());
    RTX_TRY(expand_graph(graph));
    std::vector<FunctionUse> uses;
    for (size_t i = 0; i < functions_.size(); ++i)
      if (calls_[i].calls > 0)
        uses.push_back({functions_[i].domain, functions_[i].name, calls_[i].opset, calls_[i].calls});
    return uses;
  }

 private:
  const Function* find(const Node& node) const {
    auto found = index_.find(key_of(node));
    return found == index_.end() ? nullptr : &functions_[found->second];
  }

  // A body on its own: inputs are all it can see.
  Result<void> check_body(Function& function) {
    Graph body;
    body.name = function.name;
    for (const std::string& input : function.inputs) body.inputs.push_back({input, 0, {}, true, {}});
    for (const std::string& output : function.outputs) body.outputs.push_back({output, 0, {}, true, {}});
    body.nodes = std::move(function.nodes);
    if (Result<void> checked = check_and_sort(body); !checked)
      return std::move(checked).error().within(concat("function '", function.str(), "'"));
    function.nodes = std::move(body.nodes);
    return Ok{};
  }

  void gather(std::vector<Node>& nodes, Facts& facts) {
    for (Node& node : nodes) {
      if (auto found = index_.find(key_of(node)); found != index_.end())
        facts.callees.push_back(found->second);
      else
        ++facts.own_nodes;
      for (Attribute& attribute : node.attributes)
        if (auto* graph = graph_of(attribute)) gather((*graph)->nodes, facts);
    }
  }

  // Depth-first over the call graph without recursion of our own.
  Result<void> measure(size_t start) {
    struct Frame {
      size_t function, next;
    };
    std::vector<Frame> stack{{start, 0}};
    std::unordered_set<size_t> active{start};
    if (facts_[start].expanded_nodes >= 0) return Ok{};
    while (!stack.empty()) {
      Frame& frame = stack.back();
      Facts& facts = facts_[frame.function];
      if (frame.next < facts.callees.size()) {
        const size_t callee = facts.callees[frame.next++];
        if (facts_[callee].expanded_nodes >= 0) continue;
        if (!active.insert(callee).second) {
          std::string path;
          bool inside = false;
          for (const Frame& step : stack) {
            inside |= step.function == callee;
            if (inside) path += concat(functions_[step.function].str(), " -> ");
          }
          return make_error(ErrorKind::invalid, "E206",
                            concat("recursive function: ", escape_text(path + functions_[callee].str(), 400)));
        }
        stack.push_back({callee, 0});
        continue;
      }
      int64_t nodes = facts.own_nodes;
      for (size_t callee : facts.callees) {
        nodes = std::min(nodes + facts_[callee].expanded_nodes, limits_.max_inlined_nodes + 1);
        facts.depth = std::max(facts.depth, facts_[callee].depth);
      }
      ++facts.depth;
      facts.expanded_nodes = nodes;
      active.erase(frame.function);
      stack.pop_back();
    }
    return Ok{};
  }

  void collect_names(const Graph& graph) {
    for (const ValueInfo& input : graph.inputs) taken_.insert(input.name);
    for (const Initializer& initializer : graph.initializers) taken_.insert(initializer.name);
    for (const auto& [name, info] : graph.value_info) taken_.insert(name);
    for (const Node& node : graph.nodes) {
      for (const std::string& output : node.outputs) taken_.insert(output);
      for (const Attribute& attribute : node.attributes)
        if (auto* inner = std::get_if<std::shared_ptr<Graph>>(&attribute.value); inner && *inner)
          collect_names(**inner);
    }
  }

  std::string fresh(std::string_view name) {
    std::string stem(cut(name, max_stem_bytes));
    if (stem == name && taken_.insert(stem).second) return stem;
    int64_t& number = next_number_[stem];
    while (true) {
      std::string candidate = concat(stem, "_", ++number);
      if (taken_.insert(candidate).second) return candidate;
    }
  }

  Result<void> expand_graph(Graph& graph) {
    std::vector<Node> nodes;
    for (Node& node : graph.nodes) RTX_TRY(expand_node(std::move(node), nodes));
    graph.nodes = std::move(nodes);
    return Ok{};
  }

  Result<void> expand_node(Node node, std::vector<Node>& out) {
    for (Attribute& attribute : node.attributes) {
      if (auto* graph = graph_of(attribute)) RTX_TRY(expand_graph(**graph));
    }
    if (const Function* function = find(node)) return expand_call(node, *function, out);
    out.push_back(std::move(node));
    return Ok{};
  }

  // Names inside one copy of a body: formal names and definitions to their new names, the innermost last.
  using Names = std::unordered_map<std::string, std::string>;

  static std::string renamed(const Names& names, const std::string& name) {
    auto found = names.find(name);
    return found == names.end() ? name : found->second;
  }

  Result<void> expand_call(const Node& call, const Function& function, std::vector<Node>& out) {
    RTX_TRY(check_call(call, function));
    Calls& calls = calls_[static_cast<size_t>(&function - functions_.data())];
    calls.opset = call.opset;
    ++calls.calls;
    Names names;
    for (size_t i = 0; i < function.inputs.size(); ++i)
      names[function.inputs[i]] = i < call.inputs.size() ? call.inputs[i] : std::string();
    std::unordered_set<std::string_view> produced;
    for (const Node& node : function.nodes)
      for (const std::string& output : node.outputs)
        if (!output.empty()) produced.insert(output);
    // A result that the body produces takes the name of the call's output; any other (an input passed through, or a
    // result that is listed twice) is copied to it.
    std::vector<std::pair<std::string, std::string>> copies;
    for (size_t i = 0; i < call.outputs.size(); ++i) {
      const std::string& formal = function.outputs[i];
      if (call.outputs[i].empty()) continue;
      if (produced.count(formal) == 0 || !names.try_emplace(formal, call.outputs[i]).second)
        copies.emplace_back(formal, call.outputs[i]);
    }
    for (const Node& node : function.nodes)
      for (const std::string& output : node.outputs)
        if (!output.empty() && names.count(output) == 0) names[output] = fresh(output);

    for (const Node& node : function.nodes) {
      RTX_TRY(expand_node(copy_node(node, call, function, names), out));
      if (copied_bytes_ > limits_.max_inlined_bytes)
        return make_error(ErrorKind::limit, "E503", "inlining the model-local functions takes too much memory")
            .with_expected(concat("at most ", limits_.max_inlined_bytes, " bytes"))
            .with_help("raise the limit with --max-inlined-bytes");
    }
    for (const auto& [formal, actual] : copies) {
      Node identity;
      identity.name = call.name;
      identity.op_type = "Identity";
      auto version = function.opsets.find("");
      identity.opset = version == function.opsets.end() ? 13 : version->second;
      identity.inputs = {renamed(names, formal)};
      identity.outputs = {actual};
      identity.scope = call.scope;
      identity.source = call.source;
      if (identity.inputs[0].empty())
        return make_error(ErrorKind::invalid, "E207",
                          concat("function '", function.str(), "' returns its input '", escape_text(formal),
                                 "', which the call leaves out"))
            .with_where(call.str());
      out.push_back(std::move(identity));
    }
    return Ok{};
  }

  Result<void> check_call(const Node& call, const Function& function) const {
    const auto bad = [&](std::string why) {
      return make_error(ErrorKind::invalid, "E207",
                        concat("the call does not fit the inputs, outputs and attributes of function '", function.str(),
                               "': ", why))
          .with_where(call.str());
    };
    if (call.inputs.size() > function.inputs.size())
      return bad(concat(call.inputs.size(), " inputs, but the function has ", function.inputs.size()));
    if (call.outputs.size() > function.outputs.size())
      return bad(concat(call.outputs.size(), " outputs, but the function has ", function.outputs.size()));
    for (const Attribute& attribute : call.attributes) {
      const bool known = std::find(function.attributes.begin(), function.attributes.end(), attribute.name) !=
                             function.attributes.end() ||
                         std::any_of(function.defaults.begin(), function.defaults.end(),
                                     [&](const Attribute& known_one) { return known_one.name == attribute.name; });
      if (!known) return bad(concat("it has no attribute '", escape_text(attribute.name), "'"));
    }
    return Ok{};
  }

  Node copy_node(const Node& original, const Node& call, const Function& function, Names& names) {
    Node node = original;
    const std::string_view inner = original.name.empty() ? std::string_view(original.op_type) : original.name;
    node.name =
        call.name.empty() ? std::string(inner) : std::string(cut(concat(call.name, "/", inner), max_node_name_bytes));
    if (node.scope.empty()) node.scope = call.scope;
    if (node.source.empty()) node.source = call.source;
    rewrite(node, call, function, names);
    return node;
  }

  // Renames the values of a copied node and fills in its attribute references.
  void rewrite(Node& node, const Node& call, const Function& function, Names& names) {
    for (std::string& input : node.inputs) input = renamed(names, input);
    for (std::string& output : node.outputs) output = renamed(names, output);
    std::vector<Attribute> attributes;
    for (Attribute& attribute : node.attributes) {
      if (!attribute.reference.empty()) {
        const Attribute* given = call.find(attribute.reference);
        for (const Attribute& candidate : function.defaults)
          if (!given && candidate.name == attribute.reference) given = &candidate;
        if (!given) continue;
        Attribute bound = *given;
        bound.name = attribute.name;
        attribute = std::move(bound);
        if (auto* graph = graph_of(attribute)) *graph = std::make_shared<Graph>(**graph);
      } else if (auto* graph = graph_of(attribute)) {
        *graph = copy_graph(**graph, call, function, names);
      }
      attributes.push_back(std::move(attribute));
    }
    node.attributes = std::move(attributes);
    copied_bytes_ += static_cast<int64_t>(sizeof(Node) + node.name.size() + node.scope.size() + node.source.size() +
                                          node.attributes.size() * sizeof(Attribute));
    for (const auto* list : {&node.inputs, &node.outputs})
      for (const std::string& name : *list) copied_bytes_ += static_cast<int64_t>(sizeof(std::string) + name.size());
  }

  // A graph inside a body. Its own definitions hide outer ones of the same name, so they are put back afterwards.
  std::shared_ptr<Graph> copy_graph(const Graph& original, const Node& call, const Function& function, Names& names) {
    auto graph = std::make_shared<Graph>(original);
    graph->value_info.clear();
    std::vector<std::pair<std::string, std::optional<std::string>>> hidden;
    const auto define = [&](const std::string& name) {
      if (name.empty()) return;
      auto [place, is_new] = names.try_emplace(name);
      hidden.emplace_back(name, is_new ? std::nullopt : std::optional(place->second));
      place->second = fresh(name);
    };
    std::unordered_set<std::string_view> inputs;
    for (const ValueInfo& input : original.inputs) {
      inputs.insert(input.name);
      define(input.name);
    }
    for (const Initializer& initializer : original.initializers)
      if (inputs.count(initializer.name) == 0) define(initializer.name);
    for (const Node& node : original.nodes)
      for (const std::string& output : node.outputs) define(output);

    for (ValueInfo& input : graph->inputs) input.name = renamed(names, input.name);
    for (Initializer& initializer : graph->initializers) initializer.name = renamed(names, initializer.name);
    for (ValueInfo& output : graph->outputs) output.name = renamed(names, output.name);
    for (Node& node : graph->nodes) rewrite(node, call, function, names);
    for (auto back = hidden.rbegin(); back != hidden.rend(); ++back) {
      if (back->second)
        names[back->first] = *back->second;
      else
        names.erase(back->first);
    }
    return graph;
  }

  std::vector<Function> functions_;
  const ReadLimits& limits_;
  std::map<Key, size_t> index_;
  std::vector<Facts> facts_;
  struct Calls {
    int64_t opset = 0, calls = 0;
  };
  std::vector<Calls> calls_;  // of each function
  int64_t copied_bytes_ = 0;
  std::unordered_set<std::string> taken_;
  std::unordered_map<std::string, int64_t> next_number_;
};

}  // namespace

std::string Function::str() const {
  std::string text = domain.empty() ? name : concat(domain, ".", name);
  if (!overload.empty()) text += ":" + overload;
  return escape_text(text);
}

Result<std::vector<FunctionUse>> inline_functions(Graph& graph, std::vector<Function> functions,
                                                  const ReadLimits& limits) {
  if (functions.empty()) return std::vector<FunctionUse>();
  return Inliner(std::move(functions), limits).run(graph);
}

}  // namespace rtx::onnx
