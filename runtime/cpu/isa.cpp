#include "runtime/cpu/isa.h"

namespace rtx::runtime::cpu {

std::string_view to_string(Isa isa) {
  switch (isa) {
    case Isa::baseline:
      return "baseline";
    case Isa::v3:
      return "x86-64-v3";
    case Isa::v4:
      return "x86-64-v4";
  }
  return "?";
}

std::span<const Isa> supported_isas() {
  static constexpr Isa all[] = {Isa::baseline, Isa::v3, Isa::v4};
  size_t count = 1;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("x86-64-v3")) count = 2;
  if (count == 2 && __builtin_cpu_supports("x86-64-v4")) count = 3;
#endif
  return {all, count};
}

}  // namespace rtx::runtime::cpu
