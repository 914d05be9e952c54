// What a pass is: a function from a module to the same module, changed, that knows nothing of its neighbours, of
// timing, printing or verifying.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_set>
#include <vector>

#include "base/result.h"
#include "ir/module.h"

namespace rtx {

// Operations that are nearly a composite operation, and what is in the way.
struct NearMatch {
  std::string composite;             // "attention"
  std::string reason;                // a fragment: "the scores are read elsewhere too"
  std::vector<std::string> origins;  // of the root
};

struct PrecisionReport;

struct PassContext {
  // Budgets of fold_constants: a value or operand, all values together. Results up to small_bytes may be larger than
  // what they are computed from.
  int64_t max_folded_value_bytes = int64_t{256} << 20;
  int64_t max_folded_total_bytes = int64_t{1} << 30;
  int64_t max_folded_multiplies = int64_t{1} << 26;  // of one matmul or conv
  int64_t small_bytes = int64_t{64} << 10;
  // Of fold_constants: weights and constants to leave as they are, with all that depends on them.
  std::unordered_set<const Value*> kept;

  // Of convert_precision: f16 or bf16, and globs of names and operations that stay in f32 (convert_precision.h).
  DType half = DType::f16;
  std::vector<std::string> keep_f32;
  PrecisionReport* precision_report = nullptr;  // the caller's; null: none is kept

  // What a pass has to say that is not an error.
  std::vector<Diagnostic> remarks;
  // Of recover_composites.
  std::vector<NearMatch> near_matches;
};

// Returns whether anything was changed.
using PassFunction = Result<bool> (*)(Module&, PassContext&);

}  // namespace rtx
