// Step: one piece of a kernel body, prepared for concrete shapes. A body is a list of steps run in order.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/dtype.h"
#include "base/result.h"
#include "runtime/cpu/thread_pool.h"
#include "runtime/cpu/workspace.h"

namespace rtx::runtime::cpu {

// A value's type under one binding of the symbols.
struct ConcreteType {
  DType dtype = DType::f32;
  std::vector<int64_t> shape;

  int64_t elements() const {
    int64_t count = 1;
    for (int64_t dim : shape) count *= dim;
    return count;
  }
};

// Contiguous memory: `offset_bytes` into a buffer of the body, by number.
struct Place {
  int buffer = 0;
  int64_t offset_bytes = 0;
};

// Where the elements of a value lie: element (i, j ...) at offset + i * strides[0] + j * strides[1] ..., in elements.
// Movement operations make views where they can, and copy nothing.
struct View {
  int buffer = 0;
  int64_t offset = 0;
  std::vector<int64_t> strides;
};

struct StepContext {
  ThreadPool& pool;
  Workspace& workspace;
  std::span<std::byte* const> buffers;

  std::byte* at(Place place) const { return buffers[static_cast<size_t>(place.buffer)] + place.offset_bytes; }
};

class Step {
 public:
  virtual ~Step() = default;
  virtual Result<void> run(const StepContext& context) = 0;
};

}  // namespace rtx::runtime::cpu
