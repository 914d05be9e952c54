// Mixed precision: products, convolutions and attention, and what stands between them, in f16 or bf16; norms, softmax,
// long sums, residual sums and outputs in f32. Sums inside products are f32 in any case.
//
// Options in PassContext: `half`, the type; `keep_f32`, globs that name what stays in f32. Inputs and outputs keep
// their types. Weights of what is converted are stored in half, once; tied weights stay tied. Nothing else is changed:
// a model that is in half already stays as it is. choose_precision.h has the rules.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "passes/pass.h"

namespace rtx {

// What the pass did, in program order.
struct PrecisionReport {
  struct Cast {
    std::string value;  // its name, or what it comes from
    DType from = DType::f32, to = DType::f32;
    std::string why;
  };
  struct Count {
    size_t half = 0, f32 = 0, before = 0;  // `before`: was f16 or bf16 already
  };
  struct Kept {
    std::string operation, why;
  };

  DType half = DType::f16;
  std::vector<Cast> casts;
  std::vector<std::string> weights;                  // now stored in half
  std::map<std::string, Count, std::less<>> counts;  // by operation, of those with float results
  std::vector<Kept> kept;                            // what stays in f32 for a reason of its own

  bool changed() const { return !casts.empty() || !weights.empty(); }
  // One line.
  std::string summary() const;
  // The summary and tables of counts, of what is kept, of weights and of casts.
  std::string str() const;
};

// Errors: E014, a glob of `keep_f32` fits nothing; those of reading weights.
Result<bool> convert_precision(Module& module, PassContext& context);

}  // namespace rtx
