#include <fmt/core.h>

#include <algorithm>

#include "base/text.h"
#include "cli/inspect.h"
#include "runtime/bind_symbols.h"
#include "runtime/host_tensor.h"
#include "runtime/memory_report.h"

namespace rtx::cli {

namespace {

using package::Buffer;
using package::BufferKind;
using package::Formula;
using package::Kernel;
using package::Launch;
using package::Manifest;
using package::MatmulCall;
using package::Package;
using package::Program;
using package::Resources;
using package::Step;
using package::Symbol;
using package::TensorSpec;

std::string spec_text(const TensorSpec& spec) {
  return concat(to_string(spec.dtype), "[", join(spec.shape, ", ", [](const Formula& f) { return f.text(); }), "]");
}

// The value of a formula, for reports.
std::string value_text(const Formula& formula, std::span<const int64_t> symbols) {
  const Result<int64_t> value = formula.evaluate(symbols);
  return value ? concat(*value) : "out of range";
}

std::string binding_text(const Manifest& manifest, std::span<const int64_t> symbols) {
  std::string text;
  for (size_t i = 0; i < symbols.size(); ++i) text += concat(i ? " " : "", manifest.symbols[i].name, "=", symbols[i]);
  return text.empty() ? "always" : text;
}

std::string package_section(const Package& package) {
  const Manifest& m = package.manifest;
  std::string out = fmt::format("package {}\n", package.path);
  out += fmt::format("  made by      {}\n", escape_text(m.producer));
  out += fmt::format("  sha256       {}\n", package.manifest_sha256);
  out += fmt::format("  determinism  {}\n", to_string(m.determinism));
  out +=
      fmt::format("  archs        {}\n", m.archs.empty() ? "cpu device alone" : join(m.archs, ", ") + ", cpu device");
  const auto products =
      std::count_if(m.kernels.begin(), m.kernels.end(), [](const Kernel& k) { return k.matmul.has_value(); });
  out += fmt::format("  kernels      {} ({} by cuBLASLt), {} of code\n", m.kernels.size(), products,
                     size_text(static_cast<int64_t>(package.fatbin.size())));
  int64_t bytes = 0, largest_bytes = -1;
  std::string largest;
  for (const std::string& name : m.weights) {
    const auto entry = package.weights_index.find(name);
    if (entry == package.weights_index.end()) continue;
    bytes += entry->second.bytes;
    if (entry->second.bytes <= largest_bytes) continue;
    largest_bytes = entry->second.bytes;
    largest = fmt::format(", largest '{}' {} ({})", escape_text(name),
                          runtime::type_text(entry->second.dtype, entry->second.shape), size_text(largest_bytes));
  }
  out += fmt::format("  weights      {} tensors, {}{}\n", m.weights.size(), size_text(bytes), largest);
  if (m.symbols.empty()) return out;
  out += "dims\n";
  for (const Symbol& symbol : m.symbols)
    out += fmt::format("  {:<24} {} to {}{}\n", symbol.name, symbol.min, symbol.max,
                       symbol.opt ? fmt::format(", planned for {}", symbol.opt) : "");
  return out;
}

// One line of the memory table.
std::string memory_row(const Manifest& manifest, const Program& program, std::string_view label,
                       std::span<const int64_t> symbols) {
  const auto report = runtime::report_memory(program, symbols);
  const std::string binding = binding_text(manifest, symbols);
  if (!report) return fmt::format("    {:<6} {}: {}\n", label, binding, report.error().first().message);
  const double ratio =
      report->lower_bound > 0 ? static_cast<double>(report->arena_bytes) / static_cast<double>(report->lower_bound) : 1;
  const std::string counters = report->counter_bytes ? ", counters " + size_text(report->counter_bytes) : "";
  return fmt::format("    {:<6} arena {} (lower bound {}, {:.3f}x), inputs {}, outputs {}{}  [{}]\n", label,
                     size_text(report->arena_bytes), size_text(report->lower_bound), ratio,
                     size_text(report->input_bytes), size_text(report->output_bytes), counters, binding);
}

std::string memory_summary(const Manifest& manifest, const Program& program, std::span<const int64_t> symbols) {
  if (manifest.symbols.empty()) return memory_row(manifest, program, "all", symbols);
  std::vector<int64_t> low, high;
  for (const Symbol& symbol : manifest.symbols) {
    low.push_back(symbol.min);
    high.push_back(symbol.max);
  }
  return memory_row(manifest, program, "min", low) + memory_row(manifest, program, "chosen", symbols) +
         memory_row(manifest, program, "max", high);
}

std::string steps_section(const Manifest& manifest, const Program& program) {
  std::string out;
  for (size_t i = 0; i < program.steps.size(); ++i) {
    const Step& step = program.steps[i];
    const auto buffers = [&](const std::vector<uint32_t>& list) {
      return join(list, ", ", [&](uint32_t buffer) { return buffer_text(manifest, program, buffer); });
    };
    out += fmt::format("    {:>4}  {}: {} <- {}{}\n", i, manifest.kernels[step.kernel].name, buffers(step.results),
                       buffers(step.operands), step.scratch.empty() ? "" : "; scratch " + buffers(step.scratch));
    if (!step.origins.empty())
      out += fmt::format("          from {}\n",
                         join(step.origins, ", ", [](const std::string& s) { return escape_text(s); }));
  }
  return out;
}

std::string program_section(const Manifest& manifest, const Program& program, std::span<const int64_t> symbols,
                            const Sections& sections) {
  std::string out = fmt::format("program {} ({} steps)\n", program.name, program.steps.size());
  if (program.when)
    out += fmt::format("  when input {} is {}\n", escape_text(program.inputs[program.when->input].name),
                       program.when->value);
  if (program.variant) out += fmt::format("  variant of {}\n", variant_text(manifest, *program.variant));
  const auto tensors = [&](std::string_view title, const std::vector<TensorSpec>& specs) {
    out += fmt::format("  {}\n", title);
    for (const TensorSpec& spec : specs) out += fmt::format("    {:<32} {}\n", escape_text(spec.name), spec_text(spec));
  };
  tensors("inputs", program.inputs);
  tensors("outputs", program.outputs);
  out += "  memory\n" + memory_summary(manifest, program, symbols);
  if (sections.memory) out += arena_text(program, symbols);
  if (sections.plan) out += "  steps\n" + steps_section(manifest, program);
  return out;
}

std::string kernels_section(const Manifest& manifest, std::span<const int64_t> symbols) {
  const std::vector<int64_t> launches = count_launches(manifest);
  std::string out = "kernels\n";
  for (size_t i = 0; i < manifest.kernels.size(); ++i) {
    const Kernel& kernel = manifest.kernels[i];
    out += fmt::format("  {} ({}, {}), {} launches, {} flops, {} bytes each\n", kernel.name, kernel.kind,
                       to_string(kernel.determinism), launches[i], value_text(kernel.flops, symbols),
                       value_text(kernel.bytes, symbols));
    if (kernel.launch) {
      const Launch& launch = *kernel.launch;
      out += fmt::format("    grid [{}], block [{}], dynamic shared {} bytes\n",
                         join(launch.grid, ", ", [](const Formula& f) { return f.text(); }),
                         join(launch.block, ", ", [](int size) { return std::to_string(size); }),
                         launch.shared_bytes.text());
      if (launch.has_workspace() || launch.has_counters())
        out += fmt::format("    workspace {} bytes, {} counters\n", value_text(launch.workspace_bytes, symbols),
                           value_text(launch.counters, symbols));
      for (const Resources& r : launch.resources)
        out += fmt::format(
            "    {:<8} {:>3} registers, {:>6} B shared, {:>4} B spilled, {:>4} B stack, {} blocks a "
            "multiprocessor, occupancy {:.0f}%\n",
            r.arch, r.registers, r.shared_bytes, r.spill_bytes, r.stack_bytes, r.blocks_per_sm, r.occupancy * 100);
    }
    if (kernel.matmul) {
      const MatmulCall& call = *kernel.matmul;
      out += fmt::format("    cuBLASLt {} batch {}, [{}, {}] = {} * {}{}{} over k = {}\n", to_string(call.dtype),
                         call.batch.text(), call.m.text(), call.n.text(), call.transpose_lhs ? "lhs^T" : "lhs",
                         call.transpose_rhs ? "rhs^T" : "rhs", call.bias ? " + bias" : "",
                         call.residual ? " + residual" : "", call.k.text());
    }
  }
  return out;
}

std::string weights_section(const Package& package) {
  std::string out = "weights\n";
  for (const std::string& name : package.manifest.weights) {
    const auto entry = package.weights_index.find(name);
    if (entry == package.weights_index.end()) continue;
    out += fmt::format("  {:<48} {:<24} {}\n", escape_text(name),
                       runtime::type_text(entry->second.dtype, entry->second.shape), size_text(entry->second.bytes));
  }
  return out;
}

}  // namespace

std::string variant_text(const Manifest& manifest, const package::Variant& variant) {
  return concat(escape_text(manifest.programs[variant.of].name), " for ",
                join(variant.dims, ", ",
                     [&](const auto& dim) { return concat(manifest.symbols[dim.symbol].name, "=", dim.size); }));
}

std::string size_text(int64_t bytes) {
  constexpr const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes);
  int unit = 0;
  while (value >= 1024 && unit < 6) value /= 1024, ++unit;
  return unit ? fmt::format("{:.1f} {}", value, units[unit]) : fmt::format("{} B", bytes);
}

std::vector<int64_t> count_launches(const Manifest& manifest) {
  std::vector<int64_t> launches(manifest.kernels.size());
  for (const Program& program : manifest.programs)
    for (const Step& step : program.steps) ++launches[step.kernel];
  return launches;
}

std::string buffer_text(const Manifest& manifest, const Program& program, uint32_t index) {
  const Buffer& buffer = program.buffers[index];
  switch (buffer.kind) {
    case BufferKind::input:
      return concat("input ", escape_text(program.inputs[buffer.index].name));
    case BufferKind::output:
      return concat("output ", escape_text(program.outputs[buffer.index].name));
    case BufferKind::weight:
      return concat("weight '", escape_text(manifest.weights[buffer.index]), "'");
    case BufferKind::arena:
      return concat("arena[", buffer.index, "]");
    case BufferKind::counters:
      return concat("counters[", buffer.index, "]");
  }
  return {};
}

std::string inspect_text(const Package& package, std::span<const int64_t> symbols, const Sections& sections) {
  std::string out = package_section(package);
  for (const Program& program : package.manifest.programs)
    out += program_section(package.manifest, program, symbols, sections);
  if (sections.kernels) out += kernels_section(package.manifest, symbols);
  if (sections.weights) out += weights_section(package);
  return out;
}

}  // namespace rtx::cli
