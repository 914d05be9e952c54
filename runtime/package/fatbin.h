// What is inside kernels.fatbin: a sequence of fatbin containers, each of which cuModuleLoadData takes as it is.
// docs/package_format.md has the layout, which is that of CUDA 13's `fatbinary` tool.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace rtx::package {

struct FatbinEntry {
  std::string arch;    // "sm_90a"
  int64_t offset = 0;  // of the cubin (an ELF file), from the start of the container
  int64_t bytes = 0;
};

struct FatbinContainer {
  int64_t offset = 0;  // in the sequence
  int64_t bytes = 0;   // header and entries
  std::vector<FatbinEntry> entries;
};

// Checks and lists a sequence of containers that fills `bytes`. Only uncompressed ELF entries are allowed, as
// rtx-compile writes. Errors: E615 (integrity).
Result<std::vector<FatbinContainer>> read_fatbins(std::span<const std::byte> bytes);

// The fields of the format that both reader and writer need.
namespace fatbin_format {
inline constexpr uint32_t magic = 0xBA55ED50;
inline constexpr uint16_t version = 1;
inline constexpr int64_t header_bytes = 16;
inline constexpr uint16_t entry_is_elf = 2;
inline constexpr uint16_t entry_version = 0x0101;
inline constexpr int64_t entry_header_bytes = 64;
inline constexpr uint64_t flag_64_bit = 0x1;
inline constexpr uint64_t flag_linux = 0x10;
inline constexpr uint64_t flag_arch_specific = 0x100000;    // sm_90a
inline constexpr uint64_t flag_family_specific = 0x200000;  // sm_100f
inline constexpr uint64_t flag_compat = 0x1000000;          // a compatibility record follows the entry's header
}  // namespace fatbin_format

}  // namespace rtx::package
