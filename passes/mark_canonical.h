// Moves a module from stage `imported` to `canonical`. Both allow the same ops; what `canonical` adds is the promise
// that folding, merging and cleaning have run, so later passes may expect the forms of docs/ir.md.
#pragma once

#include "passes/pass.h"

namespace rtx {

Result<bool> mark_canonical(Module& module, PassContext& context);

}  // namespace rtx
