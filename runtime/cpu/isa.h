// Isa: the instruction sets that the CPU device's loops are compiled for. All variants of a loop give the same bits:
// they do the same IEEE operations per element in the same order, without contraction.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace rtx::runtime::cpu {

enum class Isa : uint8_t {
  baseline,  // what the compiler targets: SSE2 on x86-64
  v3,        // x86-64-v3: AVX2
  v4,        // x86-64-v4: AVX-512
};

std::string_view to_string(Isa isa);

// The variants this processor can run, from slowest to fastest; never empty.
std::span<const Isa> supported_isas();

inline Isa best_isa() { return supported_isas().back(); }

}  // namespace rtx::runtime::cpu
