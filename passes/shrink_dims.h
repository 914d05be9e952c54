// Smaller forms of a module's dims, for the reducer.
#pragma once

#include <memory>
#include <vector>

#include "ir/module.h"

namespace rtx {

// The static sizes above 1 of arguments, weights, constants and attributes, rising, each once.
std::vector<int64_t> static_sizes(const Module& module);

// A copy in which every such size `from` is `to`: in types, in attributes that hold dims, and in the data of constants
// and weights, of which the first elements are kept. Null if the operations do not allow it.
std::unique_ptr<Module> with_static_size(const Module& module, int64_t from, int64_t to);

}  // namespace rtx
