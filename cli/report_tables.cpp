// The tables of the report: kernels, and the steps with why they are what they are.

#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "base/text.h"
#include "cli/report.h"

namespace rtx::cli {
namespace {

using package::Decision;
using package::Kernel;
using package::Manifest;
using package::Program;

struct KernelSum {
  const StepCost* first = nullptr;
  int launches = 0;
  double ns = 0;
};

// One cell for each architecture: registers, shared memory, spills, occupancy.
std::string resources_cells(const Kernel& kernel, const Manifest& manifest) {
  std::string out;
  for (size_t i = 0; i < manifest.archs.size(); ++i) {
    if (!kernel.launch) {
      out += "<td class=\"muted\">library</td>";
      continue;
    }
    const package::Resources& r = kernel.launch->resources[i];
    out += fmt::format("<td>{}{} &#183; {} &#183; {:.0f}%</td>", r.registers,
                       r.spill_bytes > 0 ? fmt::format(" <b class=\"bad\">+{} B spilled</b>", r.spill_bytes) : "",
                       r.shared_bytes, r.occupancy * 100);
  }
  return out;
}

std::string decision_item(const ReportInput& input, const StepCost& cost, const Decision& decision) {
  std::string subject = html(decision.subject);
  if (decision.operand) {
    subject += fmt::format(" with operand {}", *decision.operand);
    if (const std::optional<size_t> producer = cost.producer(*decision.operand))
      subject += fmt::format(" of step {}", *producer);
  }
  if (!decision.launches.empty()) {
    const Result<double> ns = package::estimate_ns(decision.launches, input.symbols, input.gpu);
    if (ns) subject += concat(", ", time_text(*ns));
  }
  return fmt::format("<li class=\"{}\"><b>{}</b>{}{}</li>\n", decision.chosen ? "yes" : "no", subject,
                     decision.reason.empty() ? "" : ": ", html(decision.reason));
}

std::string inputs_text(const Program& program, const StepCost& cost, const Manifest& manifest) {
  std::vector<std::string> parts;
  for (size_t i = 0; i < cost.step->operands.size(); ++i) {
    const package::Buffer& buffer = program.buffers[cost.step->operands[i]];
    if (const std::optional<size_t> producer = cost.producer(i)) {
      parts.push_back(fmt::format("<a href=\"#{}\">step {}</a>", step_id(manifest, program, *producer), *producer));
    } else if (buffer.kind == package::BufferKind::input) {
      parts.push_back(concat("input ", html(program.inputs[buffer.index].name)));
    } else if (buffer.kind == package::BufferKind::weight) {
      parts.push_back(concat("weight ", html(manifest.weights[buffer.index])));
    }
  }
  return join(parts, ", ");
}

}  // namespace

std::string kernel_table(const Manifest& manifest, std::span<const StepCost> costs) {
  double total = 0;
  std::map<const Kernel*, size_t> position;
  std::vector<KernelSum> sums;
  for (const StepCost& cost : costs) {
    const auto [known, is_new] = position.try_emplace(cost.kernel, sums.size());
    if (is_new) sums.push_back({&cost, 0, 0});
    ++sums[known->second].launches;
    sums[known->second].ns += cost.ns;
    total += cost.ns;
  }
  std::stable_sort(sums.begin(), sums.end(), [](const KernelSum& a, const KernelSum& b) { return a.ns > b.ns; });
  std::string out =
      "<div class=\"wide\"><table>\n<thead><tr><th>kernel</th><th>plan</th><th>launches</th><th>each</th><th>share</th>"
      "<th>bound by</th><th>flops</th><th>bytes</th>";
  for (const std::string& arch : manifest.archs)
    out += fmt::format("<th title=\"registers, bytes of shared memory, occupancy\">{}</th>", html(arch));
  out += "</tr></thead>\n<tbody>\n";
  for (const KernelSum& sum : sums) {
    const Kernel& kernel = *sum.first->kernel;
    const double share = total > 0 ? 100 * sum.ns / total : 0;
    out += fmt::format(
        "<tr><td><span class=\"swatch {}\"></span>{}</td><td>{}</td><td>{}</td><td>{}</td><td><span class=\"bar\" "
        "style=\"width:{:.1f}px\"></span>{:.1f}%</td><td>{}</td><td>{}</td><td>{}</td>{}</tr>\n",
        kind_class(kernel.kind), html(kernel.name), html(kernel.plan), sum.launches, time_text(sum.first->ns), share,
        share, sum.first->bound(), scaled(sum.first->flops), scaled(sum.first->bytes),
        resources_cells(kernel, manifest));
  }
  return out + "</tbody></table></div>\n";
}

std::string steps_section(const ReportInput& input, const Program& program, std::span<const StepCost> costs) {
  const Manifest& manifest = input.package.manifest;
  std::string out;
  for (const StepCost& cost : costs) {
    const Kernel& kernel = *cost.kernel;
    out += fmt::format(
        "<details id=\"{}\"><summary><span class=\"number\">{}</span><span class=\"swatch {}\"></span><b>{}</b> "
        "{} <span class=\"time\">{}</span></summary>\n",
        step_id(manifest, program, cost.number), cost.number, kind_class(kernel.kind), html(kernel.kind),
        html(kernel.plan), time_text(cost.ns));
    const std::string reads = inputs_text(program, cost, manifest);
    out += fmt::format("<p>{}{}</p>\n", html(kernel.name), reads.empty() ? "" : concat(" reads ", reads));
    if (!cost.step->origins.empty())
      out += concat("<p class=\"muted\">from ",
                    join(cost.step->origins, ", ", [](const std::string& origin) { return html(origin); }), "</p>\n");
    out += "<ul>\n";
    for (uint32_t decision : kernel.decisions) out += decision_item(input, cost, manifest.decisions[decision]);
    for (uint32_t decision : cost.step->decisions) out += decision_item(input, cost, manifest.decisions[decision]);
    if (kernel.kind == "pointwise") {
      for (const ReaderDecision& reader : cost.readers)
        out += fmt::format("<li class=\"no\"><b>inside its reader, <a href=\"#{}\">step {}</a></b>: {}</li>\n",
                           step_id(manifest, program, reader.reader), reader.reader, html(reader.decision->reason));
    }
    out += fmt::format("</ul>\n<pre>{}</pre></details>\n", html(kernel.body));
  }
  return out;
}

}  // namespace rtx::cli
