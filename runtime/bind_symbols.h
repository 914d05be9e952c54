// Which values the named dims of a package take in one call.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "runtime/package/manifest.h"

namespace rtx::runtime {

// Type of one input of a call.
struct TensorType {
  DType dtype = DType::f32;
  std::vector<int64_t> shape;
};

// Symbols chosen by name, besides what the inputs say.
using SymbolValues = std::map<std::string, int64_t, std::less<>>;

// Checks the inputs (in the program's order) against the program and returns the value of every symbol of the package,
// in manifest order.
//
// An axis whose formula is one symbol binds it. A symbol that stands only in longer expressions ("past + 1") is solved
// for where the expression has no other unknown and grows evenly with it. Every axis is then checked by evaluation.
// Symbols that the program does not use get their minimum.
//
// Errors (invalid), all that were found: E371 number of inputs, E373 dtype, E374 rank, E375 size of an axis, E376 two
// values for one symbol, E377 outside the symbol's range, E378 a symbol that the inputs do not determine.
Result<std::vector<int64_t>> bind_symbols(const package::Manifest& manifest, const package::Program& program,
                                          std::span<const TensorType> inputs, const SymbolValues& given = {});

// Values without inputs: every symbol from `given`, else its `opt`, else the least value of its range that is not 0.
Result<std::vector<int64_t>> choose_symbols(const package::Manifest& manifest, const SymbolValues& given);

// The shape of an input or output for a binding. E604 if a formula overflows, E506 if a size is negative.
Result<std::vector<int64_t>> evaluate_shape(const package::TensorSpec& spec, std::span<const int64_t> symbols);

}  // namespace rtx::runtime
