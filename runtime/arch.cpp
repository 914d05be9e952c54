#include "runtime/arch.h"

#include <charconv>

namespace rtx::runtime {

bool arch_runs_on(std::string_view arch, ComputeCapability capability) {
  constexpr std::string_view prefix = "sm_";
  if (!arch.starts_with(prefix)) return false;
  const char* const begin = arch.data() + prefix.size();
  const char* const end = arch.data() + arch.size();
  int number = 0;
  const auto [after, error] = std::from_chars(begin, end, number);
  if (error != std::errc() || number < 10) return false;
  const std::string_view suffix(after, static_cast<size_t>(end - after));
  const int major = number / 10, minor = number % 10;
  if (suffix == "a") return major == capability.major && minor == capability.minor;
  if (!suffix.empty() && suffix != "f") return false;
  return major == capability.major && minor <= capability.minor;
}

}  // namespace rtx::runtime
