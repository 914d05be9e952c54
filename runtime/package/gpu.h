// The GPUs that estimates are made for: one for each architecture, with its published peaks. Estimates rank plans and
// show what bounds a kernel; they are not measurements.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "base/result.h"

namespace rtx::package {

// What a kernel mostly computes with: tensor cores (f16, bf16, sums in f32), or multiply-adds in f32 or f64.
enum class MathUnit : uint8_t { tensor, f32, f64 };
std::string_view to_string(MathUnit unit);
std::optional<MathUnit> parse_math_unit(std::string_view text);

struct Gpu {
  std::string_view arch;  // "sm_90a"
  std::string_view name;  // "H200"
  int multiprocessors = 0;
  double clock_hz = 0;                                    // boost
  double bytes_per_second = 0;                            // DRAM, as published
  double tensor_flops = 0, f32_flops = 0, f64_flops = 0;  // dense, a second

  double peak(MathUnit unit) const;
  // What a large copy reaches.
  double reached_bytes_per_second() const;
};

std::span<const Gpu> list_gpus();
// The GPU for an architecture, or for another one of its capability ("sm_90" has the numbers of "sm_90a"). E411
// (unsupported) lists the known ones.
Result<Gpu> find_gpu(std::string_view arch);
// The one that plans are chosen for: they serve all architectures of a package.
const Gpu& reference_gpu();

// One launch: kernel boundary, then the longer of arithmetic at `percent` of the unit's peak and memory traffic.
struct LaunchWork {
  MathUnit unit = MathUnit::f32;
  int percent = 50;
  double flops = 0, bytes = 0;
};
double estimate_ns(const LaunchWork& work, const Gpu& gpu);
// What a launch costs beside its own time, in a CUDA graph.
inline constexpr double launch_ns = 1000;

}  // namespace rtx::package
