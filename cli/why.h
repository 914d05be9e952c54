// Why each step of a package is what it is, with estimates: for rtx-inspect --why and the report of rtx-compile.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/bind_symbols.h"
#include "runtime/package/manifest.h"

namespace rtx::cli {

// A decision of a later step about what a step makes: why it is not done inside that reader.
struct ReaderDecision {
  size_t reader = 0;
  const package::Decision* decision = nullptr;
};

// One step with its estimate, at a binding of the symbols and on a GPU.
struct StepCost {
  const package::Step* step = nullptr;
  const package::Kernel* kernel = nullptr;
  size_t number = 0;                        // in its program
  double ns = 0;                            // 0 where a formula overflows
  double arithmetic_ns = 0, memory_ns = 0;  // without the launch
  double flops = 0, bytes = 0;
  std::vector<std::optional<size_t>> producers;  // of each operand: the step that makes it, if one does
  std::vector<ReaderDecision> readers;

  // Nothing for an operand that does not exist, too.
  std::optional<size_t> producer(size_t operand) const {
    return operand < producers.size() ? producers[operand] : std::nullopt;
  }
  // "launch", "arithmetic" or "memory": what takes longest.
  std::string_view bound() const;
};
std::vector<StepCost> cost_steps(const package::Manifest& manifest, const package::Program& program,
                                 std::span<const int64_t> symbols, const package::Gpu& gpu);

// Text of a package for a person: control characters escaped, quotes as they are.
std::string printable(std::string_view text);

// The sizes that were planned for: `given`, else opt, else 128 brought into the range.
Result<std::vector<int64_t>> planned_symbols(const package::Manifest& manifest, runtime::SymbolValues given);

// What the verdicts "estimated slower" refer to, whatever GPU and sizes the estimates are shown for.
std::string choice_text();
// "3.7 us"
std::string time_text(double ns);

// The GPU named on the command line, else that of the package's first architecture that has one, else the reference.
Result<package::Gpu> choose_gpu(const package::Manifest& manifest, const std::string& target);

// A tree of text. `wanted` is empty for all steps, or a step's number, a kernel's name or part of the name of an ONNX
// node. E001 (usage) if it fits nothing.
Result<std::string> why_text(const package::Manifest& manifest, std::span<const int64_t> symbols,
                             const package::Gpu& gpu, const std::string& wanted);

}  // namespace rtx::cli
