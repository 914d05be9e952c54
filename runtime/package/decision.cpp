#include "runtime/package/decision.h"

#include "base/result.h"

namespace rtx::package {

Result<double> estimate_ns(std::span<const PlannedWork> launches, std::span<const int64_t> symbols, const Gpu& gpu) {
  double sum = 0;
  for (const PlannedWork& work : launches) {
    RTX_ASSIGN(const int64_t flops, work.flops.evaluate(symbols));
    RTX_ASSIGN(const int64_t bytes, work.bytes.evaluate(symbols));
    sum += estimate_ns({work.unit, work.percent, static_cast<double>(flops), static_cast<double>(bytes)}, gpu);
  }
  return sum;
}

}  // namespace rtx::package
