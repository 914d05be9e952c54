// Where every value of a function lies: in an input, an output, a weight or a slot of the arena.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "ir/module.h"
#include "runtime/package/manifest.h"

namespace rtx::codegen {

struct BufferPlan {
  package::BufferKind kind = package::BufferKind::arena;
  uint32_t index = 0;
  Dim bytes;
  bool operator==(const BufferPlan&) const = default;
};

struct MemoryPlan {
  std::vector<BufferPlan> buffers;
  std::vector<Dim> slots;
  Dim arena_lower_bound;
  std::map<const Value*, uint32_t> buffer_of;  // every argument and result, reshapes included

  // One line a buffer and slot.
  std::string str() const;
};

// `function` is in stage `fused`; its fusions in block order are the steps. `weights` is the package's list of weight
// names, extended by those the function is the first to use.
Result<MemoryPlan> plan_memory(const Function& function, const SymbolRanges& symbols,
                               std::vector<std::string>& weights);

}  // namespace rtx::codegen
