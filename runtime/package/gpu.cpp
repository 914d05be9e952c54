#include "runtime/package/gpu.h"

#include <algorithm>

#include "base/text.h"

namespace rtx::package {
namespace {

// Dense peaks with f32 sums, boost clock and DRAM bandwidth, from NVIDIA's architecture whitepapers (Ampere GA100 and
// GA102, Ada, Blackwell RTX) and data sheets (A100 80GB SXM, H200 SXM, HGX B200, a GPU of it).
constexpr Gpu gpus[] = {
    {"sm_80", "A100 80GB", 108, 1.41e9, 2.039e12, 312e12, 19.5e12, 9.7e12},
    {"sm_86", "RTX 3090", 82, 1.695e9, 0.936e12, 71e12, 35.6e12, 0.556e12},
    {"sm_89", "RTX 4090", 128, 2.52e9, 1.008e12, 165.2e12, 82.6e12, 1.29e12},
    {"sm_90a", "H200", 132, 1.98e9, 4.8e12, 989e12, 67e12, 34e12},
    {"sm_100a", "B200", 148, 1.965e9, 8e12, 2250e12, 75e12, 37e12},
    {"sm_120", "RTX 5090", 170, 2.407e9, 1.792e12, 209.5e12, 104.8e12, 1.64e12},
};

// Copies reach 1.53 of 1.79 TB/s on an RTX 5090 and 4.26 of 4.8 on an H200.
constexpr double reached_share = 0.855;

constexpr std::string_view unit_names[] = {"tensor", "f32", "f64"};

// "sm_90a" -> "sm_90"
std::string_view capability(std::string_view arch) {
  if (arch.ends_with('a') || arch.ends_with('f')) arch.remove_suffix(1);
  return arch;
}

}  // namespace

std::string_view to_string(MathUnit unit) { return unit_names[static_cast<size_t>(unit)]; }

std::optional<MathUnit> parse_math_unit(std::string_view text) {
  for (MathUnit unit : {MathUnit::tensor, MathUnit::f32, MathUnit::f64}) {
    if (text == to_string(unit)) return unit;
  }
  return std::nullopt;
}

double Gpu::peak(MathUnit unit) const {
  return unit == MathUnit::tensor ? tensor_flops : unit == MathUnit::f32 ? f32_flops : f64_flops;
}

double Gpu::reached_bytes_per_second() const { return reached_share * bytes_per_second; }

std::span<const Gpu> list_gpus() { return gpus; }

Result<Gpu> find_gpu(std::string_view arch) {
  for (const Gpu& gpu : gpus) {
    if (capability(gpu.arch) == capability(arch)) return gpu;
  }
  return make_error(ErrorKind::unsupported, "E411", concat("no estimates for architecture ", quote_text(arch, 40)))
      .with_expected(join(gpus, ", ", [](const Gpu& gpu) { return gpu.arch; }));
}

const Gpu& reference_gpu() { return gpus[std::size(gpus) - 1]; }

double estimate_ns(const LaunchWork& work, const Gpu& gpu) {
  const double arithmetic = work.flops / (gpu.peak(work.unit) * work.percent / 100);
  const double traffic = work.bytes / gpu.reached_bytes_per_second();
  return launch_ns + std::max(arithmetic, traffic) * 1e9;
}

}  // namespace rtx::package
