// In which order the pieces of an arena lie, from the lowest address up. The order alone decides where they lie
// (runtime/package/arena_layout.h), under every binding of the dims; it is chosen so that the arena is small under all
// of a few typical ones.
#pragma once

#include <span>
#include <vector>

#include "ir/dim.h"
#include "runtime/package/arena_layout.h"

namespace rtx::codegen {

// `bytes` of each piece at its life. Returns positions in these lists. Placements are tried greedily (largest first,
// most bytes times steps first, fullest step first, in order of time; lowest gap or tightest gap) at several bindings,
// then changed piece by piece; the one whose worst ratio of arena to lower bound over all bindings tried is least wins.
// The work is bounded and does not depend on anything but the arguments.
std::vector<uint32_t> order_arena(std::span<const Dim> bytes, std::span<const package::Life> lives,
                                  const SymbolRanges& symbols);

}  // namespace rtx::codegen
