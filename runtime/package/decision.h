// Why kernels and steps are what they are, as the compiler wrote it down. For people: nothing is run by it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/package/formula.h"
#include "runtime/package/gpu.h"

namespace rtx::package {

// One launch of a plan, for estimates.
struct PlannedWork {
  MathUnit unit = MathUnit::f32;
  int percent = 50;  // of the unit's peak
  Formula flops, bytes;
  bool operator==(const PlannedWork&) const = default;
};

// One plan or rewrite that was considered.
struct Decision {
  std::string subject;              // "cublaslt", "merge"
  std::optional<uint32_t> operand;  // of the step, which the subject is about
  bool chosen = false;
  std::string reason;
  std::vector<PlannedWork> launches;  // of a plan that lost by time
  bool operator==(const Decision&) const = default;
};

// What a reader accepts; a writer shortens.
inline constexpr size_t longest_decision_subject = 80, longest_decision_reason = 400, most_decision_launches = 8;

// The launches together for a binding of the symbols. E604 where a formula overflows.
Result<double> estimate_ns(std::span<const PlannedWork> launches, std::span<const int64_t> symbols, const Gpu& gpu);

}  // namespace rtx::package
