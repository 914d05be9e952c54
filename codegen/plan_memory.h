// Where every value of a function and the scratch of its kernels lie: in an input, an output, a weight, a piece of the
// arena or among the counters.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "ir/module.h"
#include "runtime/package/arena_layout.h"

namespace rtx::codegen {

struct BufferPlan {
  package::BufferKind kind = package::BufferKind::arena;
  uint32_t index = 0;
  Dim bytes;
  bool operator==(const BufferPlan&) const = default;
};

// What the kernel of a step needs beside its operands and results; 0: none.
struct StepScratch {
  Dim workspace_bytes;
  Dim counters;  // u32
};

struct MemoryPlan {
  std::vector<BufferPlan> buffers;
  // Of the pieces of the arena, from the lowest address up; see runtime/package/arena_layout.h.
  std::vector<Dim> arena;
  std::vector<package::Life> lives;
  std::map<const Value*, uint32_t> buffer_of;  // every argument and result, reshapes included
  std::vector<std::vector<uint32_t>> scratch;  // buffers of each step: the workspace, the counters, where it has them

  // One line a buffer and piece.
  std::string str() const;
};

// `function` is in stage `fused`; its fusions in block order are the steps, for each of which there is an entry in
// `scratch`. `weights` is the package's list of weight names, extended by those the function is the first to use.
Result<MemoryPlan> plan_memory(const Function& function, const SymbolRanges& symbols,
                               std::span<const StepScratch> scratch, std::vector<std::string>& weights);

}  // namespace rtx::codegen
