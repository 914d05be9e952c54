// Forms of a module for giving it away: without the names of its source, or as one text that holds its weights.
#pragma once

#include "ir/module.h"

namespace rtx {

// Removes everything that is not needed to compile and run: the origins of all operations and the names of all values
// but inputs and outputs. Weights are called w0, w1, ... in the order of their first use. Names of inputs and outputs,
// dims, and functions stay: they are what a caller uses.
void strip_metadata(Module& module);

// Replaces every `weight` by a `constant` that holds its elements, so that the text is whole without a weights file.
// E507 (limit) if all of them have more than `max_bytes`; it names the largest.
Result<void> inline_weights(Module& module, int64_t max_bytes);

}  // namespace rtx
