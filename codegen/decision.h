// Why a kernel is what it is: what was considered for it, what was taken, and the reason. Written where the choice is
// made, read by people (rtx-inspect --why, rtx-compile --report); nothing depends on it.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ir/module.h"
#include "runtime/package/gpu.h"

namespace rtx::codegen {

// What one launch does, for estimates (runtime/package/gpu.h).
struct Work {
  package::MathUnit unit = package::MathUnit::f32;
  int percent = 50;  // of the unit's peak, that large problems reach
  Dim flops, bytes;

  bool operator==(const Work&) const = default;
};

// Of the launches together, at the sizes that are planned for (representative_values), on the reference GPU. Nothing
// where sizes cannot be evaluated.
std::optional<int64_t> estimate_ns(std::span<const Work> launches, const SymbolRanges& symbols);

// Whether something may be done; if not, why. A reason is a fragment without a full stop: "it is read 2 times".
struct Verdict {
  std::string reason;          // empty: it may
  std::vector<Work> launches;  // what it would run, where it was weighed by time

  explicit operator bool() const { return reason.empty(); }
};
inline Verdict may() { return {}; }
inline Verdict may_not(std::string reason) { return {std::move(reason), {}}; }

struct Decision {
  std::string subject;  // a plan ("cublaslt", "vectors of 4"), or what could have been done ("merge")
  int operand = -1;     // of the fusion, which the subject is about; -1: about the whole
  bool chosen = false;
  std::string reason;
  std::vector<Work> launches;  // what a plan that lost would run, where it was weighed by time

  bool operator==(const Decision&) const = default;
  // "no vectors of 4: a row is not a whole number of them"
  std::string str() const;
};

// Decisions about operations that rewrites since have replaced: what is made of them is known by where it comes from.
class OriginLog {
 public:
  // Nothing where there are no origins: the module was stripped of its names.
  void add(const std::vector<std::string>& origins, const Decision& decision) {
    for (const std::string& origin : origins) decisions_[origin].push_back(decision);
  }
  // Those of any of the origins, each once, in the order of the origins.
  std::vector<Decision> find(const std::vector<std::string>& origins) const;

 private:
  std::map<std::string, std::vector<Decision>> decisions_;
};

// Decisions about fusions of a module that is not changed any more.
using DecisionLog = std::map<const Operation*, std::vector<Decision>>;

}  // namespace rtx::codegen
