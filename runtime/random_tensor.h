// Made-up inputs: the same seed gives the same tensor on every machine.
#pragma once

#include <cstdint>

#include "runtime/host_tensor.h"

namespace rtx::runtime {

// Half-open ranges [low, high).
struct RandomRange {
  double float_low = 0, float_high = 1;
  int64_t int_low = 0, int_high = 2;
};

// Uniform; bool is 0 or 1. Integers are drawn from the part of the range that the type holds. Errors: E006 for an empty
// range, E506 for a shape without a size. `stream` separates the tensors of one seed.
Result<HostTensor> random_tensor(DType dtype, std::vector<int64_t> shape, uint64_t seed, uint64_t stream,
                                 const RandomRange& range = {});

}  // namespace rtx::runtime
