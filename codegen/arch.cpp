#include "codegen/arch.h"

#include <algorithm>

#include "base/text.h"

namespace rtx::codegen {
namespace {

constexpr int kib = 1024;

constexpr Arch archs[] = {
    {"sm_80", 2048, 32, 164 * kib, 163 * kib},   {"sm_86", 1536, 16, 100 * kib, 99 * kib},
    {"sm_87", 1536, 16, 164 * kib, 163 * kib},   {"sm_89", 1536, 24, 100 * kib, 99 * kib},
    {"sm_90", 2048, 32, 228 * kib, 227 * kib},   {"sm_90a", 2048, 32, 228 * kib, 227 * kib},
    {"sm_100", 2048, 32, 228 * kib, 227 * kib},  {"sm_100a", 2048, 32, 228 * kib, 227 * kib},
    {"sm_100f", 2048, 32, 228 * kib, 227 * kib}, {"sm_103", 2048, 32, 228 * kib, 227 * kib},
    {"sm_103a", 2048, 32, 228 * kib, 227 * kib}, {"sm_110", 1536, 24, 228 * kib, 227 * kib},
    {"sm_110a", 1536, 24, 228 * kib, 227 * kib}, {"sm_120", 1536, 24, 100 * kib, 99 * kib},
    {"sm_120a", 1536, 24, 100 * kib, 99 * kib},  {"sm_120f", 1536, 24, 100 * kib, 99 * kib},
    {"sm_121", 1536, 24, 100 * kib, 99 * kib},   {"sm_121a", 1536, 24, 100 * kib, 99 * kib},
};

}  // namespace

std::span<const Arch> list_archs() { return archs; }

Result<Arch> find_arch(std::string_view name) {
  const auto found =
      std::find_if(std::begin(archs), std::end(archs), [&](const Arch& arch) { return arch.name == name; });
  if (found != std::end(archs)) return *found;
  return make_error(ErrorKind::unsupported, "E411", concat("unknown architecture ", quote_text(name, 40)))
      .with_expected(join(archs, ", ", [](const Arch& arch) { return arch.name; }));
}

}  // namespace rtx::codegen
