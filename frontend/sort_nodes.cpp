#include "frontend/sort_nodes.h"

#include <queue>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "base/text.h"

namespace rtx::onnx {
namespace {

constexpr size_t max_errors = 20;
constexpr size_t max_cycle_shown = 6;
constexpr int not_a_node = -1;  // a graph input or an initializer

// What the names of one graph stand for; the graph around it is `outer`.
struct Scope {
  const Scope* outer = nullptr;
  std::unordered_map<std::string_view, int> definitions;  // number of the node, or not_a_node
};

class Sorter {
 public:
  Result<void> run(Graph& graph) {
    sort(graph, nullptr);
    if (errors_.empty()) return Ok{};
    return Error(std::move(errors_));
  }

 private:
  void report(std::string_view id, std::string where, std::string message) {
    if (errors_.size() < max_errors)
      errors_.push_back(make_error(ErrorKind::invalid, id, std::move(message)).with_where(std::move(where)));
  }

  void define(Scope& scope, std::string_view name, int node, const Graph& graph) {
    auto [place, is_new] = scope.definitions.try_emplace(name, node);
    if (is_new) return;
    const std::string shown = escape_text(name);
    if (node == not_a_node) {
      report("E202", concat("graph '", escape_text(graph.name), "'"),
             concat("two graph inputs are named '", shown, "'"));
      return;
    }
    const int first = place->second;
    report("E202", graph.nodes[static_cast<size_t>(node)].str(),
           first == not_a_node
               ? concat("value '", shown, "' is already defined as a graph input or initializer")
               : concat("value '", shown, "' is already defined by ", graph.nodes[static_cast<size_t>(first)].str()));
  }

  void define_all(Scope& scope, const Graph& graph) {
    for (const ValueInfo& input : graph.inputs) define(scope, input.name, not_a_node, graph);
    std::unordered_set<std::string_view> initializers;
    for (const Initializer& initializer : graph.initializers) {
      if (!initializers.insert(initializer.name).second)
        report("E204", concat("graph '", escape_text(graph.name), "'"),
               concat("duplicate initializer '", escape_text(initializer.name), "'"));
      scope.definitions.try_emplace(initializer.name, not_a_node);  // may also be an input: its default
    }
    for (size_t i = 0; i < graph.nodes.size(); ++i)
      for (const std::string& output : graph.nodes[i].outputs)
        if (!output.empty()) define(scope, output, static_cast<int>(i), graph);
  }

  // Sorts `graph` and the graphs inside. Returns the names it takes from outer graphs.
  std::vector<std::string> sort(Graph& graph, const Scope* outer) {
    Scope scope;
    scope.outer = outer;
    define_all(scope, graph);
    std::unordered_set<std::string> captured;
    std::vector<std::vector<int>> needs(graph.nodes.size());  // nodes that must run before

    const auto use = [&](const std::string& name, const auto& where, std::vector<int>* need) {
      if (auto found = scope.definitions.find(name); found != scope.definitions.end()) {
        if (need && found->second != not_a_node) need->push_back(found->second);
        return;
      }
      for (const Scope* around = outer; around; around = around->outer) {
        if (around->definitions.count(name) == 0) continue;
        captured.insert(name);
        return;
      }
      report("E203", where(), concat("value '", escape_text(name), "' is not defined"));
    };
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      Node& node = graph.nodes[i];
      const auto where = [&] { return node.str(); };
      for (const std::string& input : node.inputs)
        if (!input.empty()) use(input, where, &needs[i]);
      for (Attribute& attribute : node.attributes) {
        auto* inner = std::get_if<std::shared_ptr<Graph>>(&attribute.value);
        if (!inner || !*inner) continue;
        for (const std::string& name : sort(**inner, &scope)) use(name, where, &needs[i]);
      }
    }
    for (const ValueInfo& output : graph.outputs)
      use(
          output.name, [&] { return concat("graph '", escape_text(graph.name), "', output"); }, nullptr);
    if (errors_.empty()) order(graph, needs);
    return {captured.begin(), captured.end()};
  }

  void order(Graph& graph, const std::vector<std::vector<int>>& needs) {
    bool sorted = true;
    for (size_t i = 0; sorted && i < needs.size(); ++i)
      for (int need : needs[i]) sorted &= need < static_cast<int>(i);
    if (sorted) return;

    std::vector<std::vector<int>> users(needs.size());
    std::vector<size_t> missing(needs.size());
    std::priority_queue<int, std::vector<int>, std::greater<>> ready;  // lowest number first
    for (size_t i = 0; i < needs.size(); ++i) {
      for (int need : needs[i]) users[static_cast<size_t>(need)].push_back(static_cast<int>(i));
      missing[i] = needs[i].size();
      if (missing[i] == 0) ready.push(static_cast<int>(i));
    }
    std::vector<int> sequence;
    while (!ready.empty()) {
      const int next = ready.top();
      ready.pop();
      sequence.push_back(next);
      for (int user : users[static_cast<size_t>(next)])
        if (--missing[static_cast<size_t>(user)] == 0) ready.push(user);
    }
    if (sequence.size() < needs.size()) return report_cycle(graph, needs, missing);
    std::vector<Node> nodes;
    nodes.reserve(sequence.size());
    for (int index : sequence) nodes.push_back(std::move(graph.nodes[static_cast<size_t>(index)]));
    graph.nodes = std::move(nodes);
  }

  // Follows unmet needs backwards until a node comes again.
  void report_cycle(const Graph& graph, const std::vector<std::vector<int>>& needs,
                    const std::vector<size_t>& missing) {
    int at = 0;
    while (missing[static_cast<size_t>(at)] == 0) ++at;
    std::unordered_map<int, size_t> place;
    std::vector<int> walk;
    while (place.try_emplace(at, walk.size()).second) {
      walk.push_back(at);
      for (int need : needs[static_cast<size_t>(at)]) {
        if (missing[static_cast<size_t>(need)] == 0) continue;
        at = need;
        break;
      }
    }
    walk.erase(walk.begin(), walk.begin() + static_cast<std::ptrdiff_t>(place[at]));
    std::string text;
    for (size_t i = 0; i < walk.size() && i < max_cycle_shown; ++i)
      text += concat(graph.nodes[static_cast<size_t>(walk[i])].str(), " needs ");
    if (walk.size() > max_cycle_shown) text += concat("... (", walk.size() - max_cycle_shown, " more) needs ");
    text += graph.nodes[static_cast<size_t>(walk[0])].str();
    report("E201", concat("graph '", escape_text(graph.name), "'"),
           concat("the nodes form a cycle of ", walk.size(), ": ", text));
  }

  std::vector<Diagnostic> errors_;
};

}  // namespace

Result<void> check_and_sort(Graph& graph) { return Sorter().run(graph); }

}  // namespace rtx::onnx
