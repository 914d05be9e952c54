// The sizes that a package is planned for.
#pragma once

#include "ir/dim.h"

namespace rtx::codegen {

// Of each symbol: opt, or 128 brought into its range.
SymbolValues representative_values(const SymbolRanges& symbols);

}  // namespace rtx::codegen
