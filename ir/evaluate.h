// The reference evaluator: defines what a module computes. Slow and obvious: f64 (int64 for integers) arithmetic,
// rounded to the dtype of each value.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ir/module.h"

namespace rtx {

// Inputs in the order of the function's arguments. Symbols are bound from the input shapes; a shape that does not fit
// its type, or a symbol outside its range, is an error.
Result<std::vector<Tensor>> evaluate(const Function& function, std::vector<Tensor> inputs, const WeightStore& weights,
                                     const SymbolRanges& ranges = {});

// One operation on concrete operands.
Result<std::vector<Tensor>> evaluate(const Operation& operation, std::span<const Tensor* const> operands,
                                     const SymbolValues& symbols, const WeightStore* weights);

// A block with concrete arguments and symbols.
Result<std::vector<Tensor>> evaluate(const Block& block, std::vector<Tensor> arguments, const SymbolValues& symbols,
                                     const WeightStore* weights);

// Binds every symbol that occurs alone as an axis, checks all other axes and ranges. Errors name the input and axis.
Result<SymbolValues> bind_symbols(std::span<const Type> types, std::span<const std::string> names,
                                  std::span<const std::vector<int64_t>> shapes, const SymbolRanges& ranges);

}  // namespace rtx
