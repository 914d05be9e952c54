// Shares memory between values that are never alive at once.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ir/dim.h"

namespace rtx::codegen {

// A value lives from the step that makes it to the last step that reads it, both included: a step may not write where
// it reads.
struct LiveRange {
  Dim bytes;
  int first = 0;
  int last = 0;
};

struct SlotAssignment {
  std::vector<uint32_t> slot_of;  // for each range
  std::vector<Dim> slots;         // bytes of each slot: enough for every range in it, under every binding
  // max over steps of the sum of live bytes: no arena can be smaller. With many distinct sums, over the largest ones.
  Dim lower_bound;
};

// Greedy by size: ranges in falling order of their size at a representative binding of the symbols, each into the
// tightest slot that is free during its life.
SlotAssignment assign_slots(std::span<const LiveRange> ranges, const SymbolRanges& symbols);

// The size each symbol is planned for: opt, or 128 brought into its range.
SymbolValues representative_values(const SymbolRanges& symbols);

}  // namespace rtx::codegen
