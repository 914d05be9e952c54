// Why a kernel is what it is: what was considered for it, what was taken, and the reason. Written where the choice is
// made, read by people (rtx-inspect --why, rtx-compile --report); nothing depends on it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ir/module.h"

namespace rtx::codegen {

// Whether something may be done; if not, why. A reason is a fragment without a full stop: "it is read twice".
struct Verdict {
  std::string reason;  // empty: it may

  explicit operator bool() const { return reason.empty(); }
};
inline Verdict may() { return {}; }
inline Verdict may_not(std::string reason) { return {std::move(reason)}; }

struct Decision {
  std::string subject;  // a plan ("cublaslt", "vectors of 4"), or what could have been done ("merge")
  int operand = -1;     // of the fusion, which the subject is about; -1: about the whole
  bool chosen = false;
  std::string reason;

  bool operator==(const Decision&) const = default;
  // "no vectors of 4: a row is not a whole number of them"
  std::string str() const;
};

// Decisions about fusions of a module that is not changed any more.
using DecisionLog = std::map<const Operation*, std::vector<Decision>>;

}  // namespace rtx::codegen
