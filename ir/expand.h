// Composite operations written as the core operations that they stand for (OpSpec::expand).
#pragma once

#include "ir/module.h"

namespace rtx {

// Puts the expansion before `operation`, gives it the uses and the name of the result, and erases `operation`, which
// must have one (spec().expand) and stand in a block.
Result<void> expand(Operation& operation);

// How many core operations a block does, composites counted as what they stand for. Constants, weights, reshapes and
// the terminator do not count.
size_t count_core_operations(const Block& block);

}  // namespace rtx
