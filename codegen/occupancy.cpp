#include "codegen/occupancy.h"

#include <algorithm>
#include <limits>

namespace rtx::codegen {
namespace {

// The same for compute capabilities 8.0 to 12.1 (cuda_occupancy.h of CUDA 13.0).
constexpr int warp_threads = 32;
constexpr int largest_block_threads = 1024;
constexpr int registers_per_sm = 64 * 1024;
constexpr int largest_registers = 255;
constexpr int partitions = 4;              // each with a quarter of the registers
constexpr int register_unit = 256;         // registers are given to a warp in such steps
constexpr int64_t shared_unit = 128;       // bytes
constexpr int64_t reserved_shared = 1024;  // bytes of each block that the system keeps

int64_t round_up(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

}  // namespace

Occupancy compute_occupancy(const Arch& arch, int threads, int registers, int64_t shared_bytes) {
  if (threads < 1 || threads > largest_block_threads || registers < 0 || registers > largest_registers ||
      shared_bytes < 0 || shared_bytes > arch.shared_bytes_per_block) {
    return {};
  }
  const int64_t warps = round_up(threads, warp_threads) / warp_threads;
  const int64_t warps_per_sm = arch.threads_per_sm / warp_threads;
  int64_t blocks = std::min<int64_t>(arch.blocks_per_sm, warps_per_sm / warps);
  if (const int64_t warp_registers = round_up(int64_t{registers} * warp_threads, register_unit); warp_registers > 0) {
    // A launch is checked as if its warps were spread over all partitions.
    if (warp_registers * round_up(warps, partitions) > registers_per_sm) return {};
    blocks = std::min(blocks, registers_per_sm / partitions / warp_registers * partitions / warps);
  }
  blocks = std::min(blocks, arch.shared_bytes_per_sm / round_up(shared_bytes + reserved_shared, shared_unit));
  return {static_cast<int>(blocks), static_cast<double>(blocks * warps) / static_cast<double>(warps_per_sm)};
}

Result<void> add_occupancy(package::Resources& resources, int threads, int64_t dynamic_shared_bytes) {
  RTX_ASSIGN(const Arch arch, find_arch(resources.arch));
  const int64_t dynamic = std::clamp<int64_t>(dynamic_shared_bytes, 0, std::numeric_limits<int32_t>::max());
  const Occupancy occupancy = compute_occupancy(arch, threads, resources.registers, resources.shared_bytes + dynamic);
  resources.blocks_per_sm = occupancy.blocks_per_sm;
  resources.occupancy = occupancy.fraction;
  return Ok{};
}

}  // namespace rtx::codegen
