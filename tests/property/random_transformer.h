// Random modules of the kind that matters: pieces of transformers as exporters write them, taken apart, and pieces that
// only look like them.
#pragma once

#include <memory>

#include "tests/equivalence.h"

namespace rtx::testing {

// A module in stage imported with one function: one or two layers of attention (masks of every kind, rope, caches,
// grouped heads, softcap, scale anywhere), feed-forward parts (gelu in its forms, gates), norms and residual sums, with
// moves, shared values and further outputs around them; in f32, f16 or bf16, over symbolic dims. About one piece in
// eight is a near miss of its pattern. Weights have no data (fill_weights).
std::unique_ptr<Module> random_transformer(Random& random);

// Makes padding masks among its inputs 0 and 1, and lets every row see the first key: a finite fill gives rows without
// keys results that are the rounding of their scores.
void make_valid_input(std::string_view name, Tensor& input);

}  // namespace rtx::testing
