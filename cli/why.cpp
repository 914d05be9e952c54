#include "cli/why.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <map>

#include "base/text.h"

namespace rtx::cli {
namespace {

using package::BufferKind;
using package::Decision;
using package::Gpu;
using package::Kernel;
using package::Manifest;
using package::Program;
using package::Step;

// Fills in which step makes each operand, and the decisions about what a step makes.
void link_steps(const Manifest& manifest, const Program& program, std::vector<StepCost>& costs) {
  std::map<std::pair<BufferKind, uint32_t>, size_t> last_writer;  // by place
  const auto place = [&](uint32_t buffer) {
    return std::pair(program.buffers[buffer].kind, program.buffers[buffer].index);
  };
  for (StepCost& cost : costs) {
    for (uint32_t operand : cost.step->operands) {
      const auto writer = last_writer.find(place(operand));
      cost.producers.push_back(writer == last_writer.end() ? std::nullopt : std::optional(writer->second));
    }
    for (uint32_t position : cost.step->decisions) {
      const Decision& decision = manifest.decisions[position];
      const std::optional<size_t> producer = decision.operand ? cost.producer(*decision.operand) : std::nullopt;
      if (!producer) continue;
      std::vector<ReaderDecision>& readers = costs[*producer].readers;
      // Two operands of one reader mostly have one reason; the decisions of a reader are neighbours.
      bool known = false;
      for (size_t i = readers.size(); i-- > 0 && readers[i].reader == cost.number && !known;)
        known = readers[i].decision->reason == decision.reason;
      if (!known) readers.push_back({cost.number, &decision});
    }
    for (uint32_t result : cost.step->results) last_writer[place(result)] = cost.number;
  }
}

bool fits(const StepCost& cost, const std::string& wanted) {
  if (wanted.empty() || cost.kernel->name == wanted) return true;
  size_t number = 0;
  const auto [end, code] = std::from_chars(wanted.data(), wanted.data() + wanted.size(), number);
  if (code == std::errc() && end == wanted.data() + wanted.size()) return number == cost.number;
  return std::any_of(cost.step->origins.begin(), cost.step->origins.end(),
                     [&](const std::string& origin) { return origin.find(wanted) != std::string::npos; });
}

// "no   merge operand 1, of step 4: it is read 2 times"
std::string decision_line(const Manifest& manifest, const Program& program, const StepCost& cost,
                          const Decision& decision, std::span<const int64_t> symbols, const Gpu& gpu) {
  std::string subject = printable(decision.subject);
  if (decision.operand) {
    const std::optional<size_t> producer = cost.producer(*decision.operand);
    subject += concat(" with operand ", *decision.operand,
                      producer ? concat(", of step ", *producer, " (",
                                        printable(manifest.kernels[program.steps[*producer].kernel].kind), ")")
                               : "");
  }
  if (!decision.launches.empty()) {
    const Result<double> ns = package::estimate_ns(decision.launches, symbols, gpu);
    subject += concat(", ", ns ? time_text(*ns) : "size out of range");
  }
  return fmt::format("      {:<3}  {}{}\n", decision.chosen ? "yes" : "no", subject,
                     decision.reason.empty() ? "" : concat(": ", printable(decision.reason)));
}

std::string step_section(const Manifest& manifest, const Program& program, const StepCost& cost, double total,
                         std::span<const int64_t> symbols, const Gpu& gpu) {
  const Kernel& kernel = *cost.kernel;
  std::string out =
      fmt::format("step {:<4} {}  {}  {} ({:.1f}%), bound by {}\n", cost.number, printable(kernel.name),
                  printable(kernel.plan), time_text(cost.ns), total > 0 ? 100 * cost.ns / total : 0, cost.bound());
  for (const std::string& origin : cost.step->origins) out += concat("    from ", printable(origin), "\n");
  const auto list = [&](std::string_view title, const std::vector<uint32_t>& positions) {
    if (positions.empty()) return;
    out += concat("    ", title, "\n");
    for (uint32_t position : positions)
      out += decision_line(manifest, program, cost, manifest.decisions[position], symbols, gpu);
  };
  list("kernel", kernel.decisions);
  list("step of its own", cost.step->decisions);
  if (kernel.kind != "pointwise") return out;
  // Mostly movement: what keeps it out of the kernels that read it.
  if (!cost.readers.empty()) out += "    not done inside its readers\n";
  for (const ReaderDecision& reader : cost.readers)
    out += fmt::format("      no   step {} ({}): {}\n", reader.reader,
                       printable(manifest.kernels[program.steps[reader.reader].kernel].kind),
                       printable(reader.decision->reason));
  return out;
}

}  // namespace

std::string_view StepCost::bound() const {
  if (package::launch_ns >= std::max(arithmetic_ns, memory_ns)) return "launch";
  return arithmetic_ns > memory_ns ? "arithmetic" : "memory";
}

std::vector<StepCost> cost_steps(const Manifest& manifest, const Program& program, std::span<const int64_t> symbols,
                                 const Gpu& gpu) {
  std::vector<StepCost> costs;
  for (size_t i = 0; i < program.steps.size(); ++i) {
    StepCost cost;
    cost.step = &program.steps[i];
    cost.kernel = &manifest.kernels[program.steps[i].kernel];
    cost.number = i;
    const Result<int64_t> flops = cost.kernel->flops.evaluate(symbols), bytes = cost.kernel->bytes.evaluate(symbols);
    if (flops && bytes) {
      cost.flops = static_cast<double>(*flops);
      cost.bytes = static_cast<double>(*bytes);
      const auto ns = [&](double some_flops, double some_bytes) {
        return package::estimate_ns({cost.kernel->unit, cost.kernel->percent, some_flops, some_bytes}, gpu);
      };
      cost.ns = ns(cost.flops, cost.bytes);
      cost.arithmetic_ns = ns(cost.flops, 0) - package::launch_ns;
      cost.memory_ns = ns(0, cost.bytes) - package::launch_ns;
    }
    costs.push_back(std::move(cost));
  }
  link_steps(manifest, program, costs);
  return costs;
}

std::string printable(std::string_view text) {
  const std::string escaped = escape_text(text, 1 << 20);
  std::string out;
  for (size_t i = 0; i < escaped.size(); ++i) {
    if (escaped[i] == '\\' && i + 1 < escaped.size()) {
      ++i;
      if (escaped[i] != '\'' && escaped[i] != '"') out += '\\';
    }
    out += escaped[i];
  }
  return out;
}

Result<std::vector<int64_t>> planned_symbols(const Manifest& manifest, runtime::SymbolValues given) {
  constexpr int64_t usual_size = 128;  // as plans assume
  for (const package::Symbol& symbol : manifest.symbols) {
    if (symbol.opt == 0) given.try_emplace(symbol.name, std::clamp(usual_size, symbol.min, symbol.max));
  }
  return runtime::choose_symbols(manifest, given);
}

std::string choice_text() {
  const Gpu& gpu = package::reference_gpu();
  return concat("choices by estimate were made for ", gpu.name, " (", gpu.arch, ") at the sizes planned for");
}

std::string time_text(double ns) {
  if (ns < 1e5) return fmt::format("{:.2f} us", ns / 1e3);
  return ns < 1e9 ? fmt::format("{:.2f} ms", ns / 1e6) : fmt::format("{:.2f} s", ns / 1e9);
}

Result<Gpu> choose_gpu(const Manifest& manifest, const std::string& target) {
  if (!target.empty()) return package::find_gpu(target);
  for (const std::string& arch : manifest.archs) {
    if (Result<Gpu> gpu = package::find_gpu(arch)) return gpu;
  }
  return package::reference_gpu();
}

Result<std::string> why_text(const Manifest& manifest, std::span<const int64_t> symbols, const Gpu& gpu,
                             const std::string& wanted) {
  std::string binding;
  for (size_t i = 0; i < symbols.size(); ++i) binding += concat(" ", manifest.symbols[i].name, "=", symbols[i]);
  std::string out;
  bool found = false;
  if (!manifest.tuning_table.empty()) out += concat("plans chosen by tuning table ", manifest.tuning_table, "\n");
  out += concat(choice_text(), "\n");
  for (const Program& program : manifest.programs) {
    const std::vector<StepCost> costs = cost_steps(manifest, program, symbols, gpu);
    double total = 0;
    for (const StepCost& cost : costs) total += cost.ns;
    out += fmt::format("program {}: {} steps, {} estimated on {} ({}){}{}\n", printable(program.name), costs.size(),
                       time_text(total), gpu.name, gpu.arch, binding.empty() ? "" : " at", binding);
    for (const StepCost& cost : costs) {
      if (!fits(cost, wanted)) continue;
      found = true;
      out += step_section(manifest, program, cost, total, symbols, gpu);
    }
  }
  if (!found && !wanted.empty()) {
    return make_error(ErrorKind::usage, "E001",
                      concat("no step, kernel or ONNX node of the package is called ", quote_text(wanted, 80)))
        .with_help("--plan lists the steps; a part of a node's name is enough");
  }
  return out;
}

}  // namespace rtx::cli
