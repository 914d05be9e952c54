#include "cli/report.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/text.h"
#include "runtime/host_tensor.h"

namespace rtx::cli {
namespace {

using package::Manifest;
using package::Program;

constexpr std::string_view style = R"(
:root { --ink: #1c2430; --muted: #667080; --paper: #ffffff; --panel: #f5f7fa; --line: #d8dee6; --edge: #8a94a3;
  --contract: #2f6fd6; --attention: #c2447f; --row: #1f9d63; --pointwise: #d9831f; --reduce: #7a5cc9; --other: #5e6b7a;
  --bad: #c62828; --good: #1f9d63; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e9f0; --muted: #98a3b3; --paper: #12161c; --panel: #1b2129; --line: #303946; --edge: #6d7889;
    --contract: #6ea0f0; --attention: #e67bb0; --row: #56c893; --pointwise: #efae5f; --reduce: #a88df0; --other: #93a1b3;
    --bad: #ff7b72; --good: #56c893; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 24px 28px 60px; max-width: 1240px; color: var(--ink); background: var(--paper);
  font: 14px/1.45 system-ui, "DejaVu Sans", sans-serif; }
h1 { font-size: 24px; margin: 0 0 2px; } h2 { font-size: 18px; margin: 34px 0 8px; }
h2 + p { margin-top: 0; }
.muted { color: var(--muted); } .bad { color: var(--bad); }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); gap: 10px; margin: 18px 0; }
.tile { background: var(--panel); border: 1px solid var(--line); border-radius: 6px; padding: 10px 12px; }
.tile b { display: block; font-size: 19px; } .tile span { color: var(--muted); font-size: 12px; }
.legend { display: flex; flex-wrap: wrap; gap: 14px; color: var(--muted); font-size: 12px; }
.swatch { display: inline-block; width: 11px; height: 11px; border-radius: 2px; margin-right: 6px; background: var(--kind); }
.contract { --kind: var(--contract); } .attention { --kind: var(--attention); } .row { --kind: var(--row); }
.pointwise { --kind: var(--pointwise); } .reduce { --kind: var(--reduce); } .other { --kind: var(--other); }
.moved { --kind: var(--line); }
.pair { display: flex; gap: 24px; align-items: flex-start; }
figure { margin: 0; padding: 10px; background: var(--panel); border: 1px solid var(--line); border-radius: 6px; min-width: 0; }
figure:first-child { flex: 1.7; } figure:last-child { flex: 1; position: sticky; top: 10px; }
figcaption { font-weight: 600; margin-bottom: 6px; }
svg { max-width: 100%; height: auto; display: block; }
.graph { margin: 0 auto; }
.box rect { fill: var(--paper); stroke: var(--kind); stroke-width: 1.6; }
.box text { fill: var(--ink); text-anchor: middle; font-size: 12px; } .box .small { fill: var(--muted); font-size: 9.5px; }
.moved text { fill: var(--muted); } .moved rect { stroke-dasharray: 4 3; stroke: var(--edge); }
a .box:hover rect { stroke-width: 3; }
.edge { fill: none; stroke: var(--edge); stroke-width: 1.1; }
.chart { width: 100%; background: var(--panel); border: 1px solid var(--line); border-radius: 6px; }
.grid { stroke: var(--line); stroke-width: 1; } .roof { stroke: var(--ink); stroke-width: 1.6; }
.bound { stroke: var(--ink); stroke-width: 1.4; stroke-dasharray: 6 4; }
.tick { fill: var(--muted); font-size: 11px; } .middle { text-anchor: middle; } .end { text-anchor: end; }
.dot { fill: var(--kind); fill-opacity: .55; stroke: var(--kind); } .life { fill: var(--kind); fill-opacity: .6; stroke: var(--kind); stroke-width: .5; }
.charts { display: grid; grid-template-columns: 1fr 1fr; gap: 24px; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: 13px; }
th, td { text-align: right; padding: 4px 9px; border-bottom: 1px solid var(--line); white-space: nowrap; }
th { color: var(--muted); font-weight: 600; } th:nth-child(-n+2), td:nth-child(-n+2) { text-align: left; }
.bar { display: inline-block; height: 9px; margin-right: 6px; background: var(--muted); border-radius: 2px; }
details { border: 1px solid var(--line); border-radius: 6px; margin: 4px 0; padding: 5px 10px; }
details[open] { background: var(--panel); } details:target { border-color: var(--ink); }
summary { cursor: pointer; } .number { display: inline-block; width: 34px; color: var(--muted); }
.time { float: right; color: var(--muted); }
details p { margin: 6px 0; } ul { margin: 6px 0; padding-left: 4px; list-style: none; }
li::before { display: inline-block; width: 34px; color: var(--muted); content: "no"; } li.yes::before { color: var(--good); content: "yes"; }
pre { overflow-x: auto; background: var(--paper); border: 1px solid var(--line); border-radius: 4px; padding: 8px; font-size: 11.5px; }
@media (max-width: 800px) { .pair { flex-direction: column; } .charts { grid-template-columns: 1fr; } }
@media print { body { max-width: none; padding: 0; } figure { break-inside: avoid; position: static; } .wide { overflow: visible; } table { font-size: 10px; } }
)";

std::string tile(std::string_view value, std::string_view what) {
  return fmt::format("<div class=\"tile\"><b>{}</b><span>{}</span></div>\n", html(value), html(what));
}

std::string binding_text(const Manifest& manifest, std::span<const int64_t> symbols) {
  std::string text;
  for (size_t i = 0; i < symbols.size(); ++i)
    text += concat(i ? ", " : "", manifest.symbols[i].name, " = ", symbols[i]);
  return text.empty() ? "no named dims" : text;
}

std::string legend() {
  std::string out = "<div class=\"legend\">";
  for (std::string_view kind : {"contract", "attention", "row", "pointwise", "reduce", "other"})
    out += fmt::format("<span><span class=\"swatch {0}\"></span>{0}</span>", kind);
  return out + "</div>\n";
}

std::string summary(const ReportInput& input, std::span<const StepCost> costs) {
  double total = 0, launch_bound = 0;
  for (const StepCost& cost : costs) {
    total += cost.ns;
    launch_bound += cost.bound() == "launch" ? 1 : 0;
  }
  int64_t weight_bytes = 0;
  for (const auto& [name, entry] : input.package.weights_index) weight_bytes += entry.bytes;
  const Manifest& manifest = input.package.manifest;
  std::string out = "<div class=\"tiles\">\n";
  out += tile(time_text(total), fmt::format("estimated on {} ({})", input.gpu.name, input.gpu.arch));
  out += tile(std::to_string(costs.size()), fmt::format("steps, of {} kernels", manifest.kernels.size()));
  out += tile(fmt::format("{:.0f}", launch_bound), "steps bound by their launch");
  out += tile(fmt::format("{:.1f} MiB", static_cast<double>(weight_bytes) / (1 << 20)), "weights");
  out += tile(std::string(to_string(manifest.determinism)), "determinism");
  out += tile(manifest.archs.empty() ? "cpu" : join(manifest.archs, ", "), "machine code for");
  return out + "</div>\n";
}

std::string program_section(const ReportInput& input, const Program& program) {
  const Manifest& manifest = input.package.manifest;
  const std::vector<StepCost> costs = cost_steps(manifest, program, input.symbols, input.gpu);
  std::string out = summary(input, costs);
  out += "<h2>One layer, before and after</h2>\n" + legend() + layer_section(input, program, costs);
  out += "<h2>Kernels</h2>\n";
  if (!manifest.archs.empty())
    out += "<p>Under each architecture: registers a thread, bytes of static shared memory a block, occupancy.</p>\n";
  out += kernel_table(manifest, costs);
  out +=
      "<div class=\"charts\">\n<section><h2>Roofline</h2>\n<p>By estimate: a dot below the roofs loses time to its "
      "launch "
      "or to the share of the peak that its kind reaches. Areas grow with time.</p>\n" +
      roofline_svg(costs, input.gpu) + "</section>\n";
  out += "<section><h2>Arena over time</h2>\n" + memory_svg(manifest, program, input.symbols) + "</section>\n</div>\n";
  out += "<h2>Steps, and why</h2>\n<p>Everything that was considered, with the reason; " + choice_text() + ".</p>\n" +
         steps_section(input, program, costs);
  return out;
}

}  // namespace

std::string html(std::string_view text) {
  std::string out;
  std::string_view rest = text;
  // Line breaks stay; printable() would escape them.
  while (true) {
    const size_t end = rest.find('\n');
    for (char c : printable(rest.substr(0, end))) {
      switch (c) {
        case '&':
          out += "&amp;";
          break;
        case '<':
          out += "&lt;";
          break;
        case '>':
          out += "&gt;";
          break;
        case '"':
          out += "&quot;";
          break;
        case '\'':
          out += "&#39;";
          break;
        default:
          out += c;
      }
    }
    if (end == std::string_view::npos) return out;
    out += '\n';
    rest.remove_prefix(end + 1);
  }
}

std::string kind_class(std::string_view kind) {
  for (std::string_view known : {"contract", "attention", "row", "pointwise", "reduce"})
    if (kind == known) return std::string(known);
  return "other";
}

std::string step_id(const Manifest& manifest, const Program& program, size_t step) {
  const auto number = &program - manifest.programs.data();
  return number == 0 ? fmt::format("step-{}", step) : fmt::format("program-{}-step-{}", number, step);
}

std::string report_html(const ReportInput& input) {
  const Manifest& manifest = input.package.manifest;
  std::string out = concat(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n<meta name=\"viewport\" "
      "content=\"width=device-width, initial-scale=1\"/>\n<title>",
      html(input.title), "</title>\n<style>", style, "</style>\n</head>\n<body>\n");
  out += concat("<h1>", html(input.title), "</h1>\n<p class=\"muted\">", html(manifest.producer), " at ",
                html(binding_text(manifest, input.symbols)), "</p>\n");
  if (!manifest.tuning_table.empty())
    out += concat("<p class=\"muted\">plans chosen by tuning table ", html(manifest.tuning_table), "</p>\n");
  for (const Program& program : manifest.programs) {
    if (manifest.programs.size() > 1) out += concat("<h1>program ", html(program.name), "</h1>\n");
    out += program_section(input, program);
  }
  return out + "</body>\n</html>\n";
}

}  // namespace rtx::cli
