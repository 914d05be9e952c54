// One layer before and after: the operations as imported, and the kernels that do their work.

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/text.h"
#include "cli/layered_graph.h"
#include "cli/report.h"

namespace rtx::cli {
namespace {

using package::Program;

// Imported operations of a layer: those that its steps come from, and all that lies on a path between two of them.
std::vector<size_t> operations_of(std::span<const ImportedOp> all, const std::set<std::string>& origins) {
  std::vector<bool> after(all.size()), before(all.size()), named(all.size());
  for (size_t i = 0; i < all.size(); ++i) {
    named[i] = std::any_of(all[i].origins.begin(), all[i].origins.end(),
                           [&](const std::string& origin) { return origins.count(origin) > 0; });
    after[i] = named[i] ||
               std::any_of(all[i].sources.begin(), all[i].sources.end(), [&](size_t source) { return after[source]; });
  }
  for (size_t i = all.size(); i-- > 0;) {
    before[i] = before[i] || named[i];
    if (!before[i]) continue;
    for (size_t source : all[i].sources) before[source] = true;
  }
  std::vector<size_t> found;
  for (size_t i = 0; i < all.size(); ++i)
    if (after[i] && before[i]) found.push_back(i);
  return found;
}

std::vector<GraphNode> imported_nodes(const ReportInput& input, const Program& program, const LayerSteps& layer) {
  std::map<std::string, size_t> step_of;  // by origin
  std::set<std::string> origins;
  for (size_t i = layer.first; i < layer.first + layer.count; ++i) {
    for (const std::string& origin : program.steps[i].origins) {
      step_of.try_emplace(origin, i);
      origins.insert(origin);
    }
  }
  std::map<size_t, size_t> position;
  std::vector<GraphNode> nodes;
  for (size_t index : operations_of(input.before, origins)) {
    const ImportedOp& operation = input.before[index];
    GraphNode node;
    node.title = operation.name;
    node.detail = operation.type;
    node.tooltip = join(operation.origins, "\n");
    node.css_class = "box moved";
    for (const std::string& origin : operation.origins) {
      const auto step = step_of.find(origin);
      if (step == step_of.end()) continue;
      node.css_class =
          concat("box ", kind_class(input.package.manifest.kernels[program.steps[step->second].kernel].kind));
      node.tooltip += fmt::format("\nin step {}", step->second);
      node.href = concat("#", step_id(input.package.manifest, program, step->second));
      break;
    }
    for (size_t source : operation.sources) {
      const auto known = position.find(source);
      if (known != position.end()) node.sources.push_back(known->second);
    }
    position[index] = nodes.size();
    nodes.push_back(std::move(node));
  }
  return nodes;
}

// For each step how many earlier steps make something that it or a later one reads.
std::vector<size_t> alive_before_steps(std::span<const StepCost> costs) {
  std::vector<size_t> last_read(costs.size(), 0);
  for (const StepCost& cost : costs)
    for (const std::optional<size_t>& producer : cost.producers)
      if (producer) last_read[*producer] = cost.number;
  std::vector<size_t> begin(costs.size() + 1, 0), end(costs.size() + 1, 0);
  for (size_t step = 0; step < costs.size(); ++step) {
    if (last_read[step] == 0) continue;
    ++begin[step + 1];
    ++end[last_read[step] + 1];
  }
  std::vector<size_t> alive(costs.size(), 0);
  for (size_t step = 1; step < costs.size(); ++step) alive[step] = alive[step - 1] + begin[step] - end[step];
  return alive;
}

std::vector<GraphNode> kernel_nodes(const package::Manifest& manifest, const Program& program, const LayerSteps& layer,
                                    std::span<const StepCost> costs) {
  std::vector<GraphNode> nodes;
  for (size_t i = layer.first; i < layer.first + layer.count; ++i) {
    const package::Kernel& kernel = *costs[i].kernel;
    GraphNode node;
    node.title = kernel.kind;
    node.detail = fmt::format("{}  {}", time_text(costs[i].ns), kernel.plan);
    node.tooltip = concat(kernel.name, "\n", join(program.steps[i].origins, "\n"));
    node.css_class = concat("box ", kind_class(kernel.kind));
    node.href = concat("#", step_id(manifest, program, i));
    for (const std::optional<size_t>& producer : costs[i].producers)
      if (producer && *producer >= layer.first) node.sources.push_back(*producer - layer.first);
    nodes.push_back(std::move(node));
  }
  return nodes;
}

}  // namespace

std::vector<ImportedOp> imported_operations(const Module& module) {
  std::vector<ImportedOp> list;
  if (module.functions.empty()) return list;
  std::map<const Operation*, size_t> position;
  for (const auto& operation : module.functions[0]->block.operations()) {
    if (operation->is(Op::constant) || operation->is(Op::weight) || operation->is(Op::yield)) continue;
    ImportedOp imported;
    imported.name = to_string(operation->op);
    imported.type = operation->result_count() > 0 ? operation->result()->type.str() : std::string();
    if (imported.type.starts_with("tensor<") && imported.type.ends_with(">"))
      imported.type = imported.type.substr(7, imported.type.size() - 8);
    imported.origins = operation->origins;
    for (const Value* operand : operation->operands()) {
      if (operand->def() && position.count(operand->def())) imported.sources.push_back(position.at(operand->def()));
    }
    position[operation.get()] = list.size();
    list.push_back(std::move(imported));
  }
  return list;
}

LayerSteps find_layer(std::span<const StepCost> costs) {
  constexpr size_t longest_layer = 64, least_layer = 3;
  const auto kind = [&](size_t step) -> const std::string& { return costs[step].kernel->kind; };
  LayerSteps best{0, costs.size(), 1};
  size_t covered = 0;
  for (size_t period = least_layer; period <= longest_layer && 2 * period <= costs.size(); ++period) {
    // The longest run in which each step has a kernel of the kind of the one a period later.
    size_t run = 0;
    for (size_t i = 0; i + period < costs.size(); ++i) {
      run = kind(i) == kind(i + period) ? run + 1 : 0;
      // A layer's last steps may be other ones in the last layer of a model.
      if (run == 0 || 4 * run < 3 * period || run + period <= covered) continue;
      covered = run + period;
      best = {i + 1 - run, period, std::max(size_t{2}, covered / period)};
    }
  }
  if (best.repeats == 1) return best;
  // Any step of the first period may be the first of a layer: the last one with the fewest values alive before it is.
  const std::vector<size_t> alive = alive_before_steps(costs);
  const size_t end = std::min(best.first + best.count, best.first + covered - best.count + 1);
  for (size_t first = best.first; first < end; ++first)
    if (alive[first] <= alive[best.first]) best.first = first;
  return best;
}

std::string layer_section(const ReportInput& input, const Program& program, std::span<const StepCost> costs) {
  constexpr size_t most_boxes = 400;
  const LayerSteps layer = find_layer(costs);
  const std::vector<GraphNode> kernels = kernel_nodes(input.package.manifest, program, layer, costs),
                               imported = imported_nodes(input, program, layer);
  std::string out = fmt::format(
      "<p>{} to {}{}. Left what the importer read, right the kernels. Colours say which kernel an operation went into; "
      "dashed ones are named by no kernel: they were rewritten, folded, or became index maps of others.</p>\n",
      layer.repeats > 1 ? fmt::format("Steps {}", layer.first) : "All steps, 0", layer.first + layer.count - 1,
      layer.repeats > 1 ? fmt::format(", a layer that is repeated {} times", layer.repeats) : ", as nothing repeats");
  out += "<div class=\"pair\">\n";
  const auto column = [&](std::string_view title, const std::vector<GraphNode>& nodes, const GraphStyle& style) {
    out += fmt::format("<figure><figcaption>{}: {}</figcaption>\n", title, nodes.size());
    out += nodes.size() > most_boxes ? "<p>Too many to draw.</p>\n" : layered_svg(nodes, style);
    out += "</figure>\n";
  };
  column("Operations as imported", imported, {132, 32, 10, 16, "operations of the layer as imported"});
  column("Kernels", kernels, {190, 40, 20, 30, "kernels of the layer"});
  return out + "</div>\n";
}

}  // namespace rtx::cli
