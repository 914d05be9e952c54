#include "runtime/package/manifest.h"

#include <algorithm>

namespace rtx::package {

std::string_view to_string(Determinism level) {
  switch (level) {
    case Determinism::run_to_run:
      return "run_to_run";
    case Determinism::batch_invariant:
      return "batch_invariant";
    case Determinism::gpu_to_gpu:
      return "gpu_to_gpu";
  }
  return "run_to_run";
}

std::optional<Determinism> parse_determinism(std::string_view text) {
  for (const Determinism level : {Determinism::run_to_run, Determinism::batch_invariant, Determinism::gpu_to_gpu}) {
    if (to_string(level) == text) return level;
  }
  return std::nullopt;
}

std::string_view to_string(BufferKind kind) {
  switch (kind) {
    case BufferKind::input:
      return "input";
    case BufferKind::output:
      return "output";
    case BufferKind::weight:
      return "weight";
    case BufferKind::arena:
      return "arena";
    case BufferKind::counters:
      return "counters";
  }
  return "arena";
}

std::optional<BufferKind> parse_buffer_kind(std::string_view text) {
  for (const BufferKind kind :
       {BufferKind::input, BufferKind::output, BufferKind::weight, BufferKind::arena, BufferKind::counters}) {
    if (to_string(kind) == text) return kind;
  }
  return std::nullopt;
}

const Program* Manifest::find_program(std::string_view name) const {
  const auto found = std::find_if(programs.begin(), programs.end(), [&](const Program& p) { return p.name == name; });
  return found == programs.end() ? nullptr : &*found;
}

std::vector<std::string> Manifest::symbol_names() const {
  std::vector<std::string> names;
  for (const Symbol& symbol : symbols) names.push_back(symbol.name);
  return names;
}

}  // namespace rtx::package
