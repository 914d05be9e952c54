// A tensor in host memory, as the runtime takes and returns it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/npy.h"
#include "base/text.h"

namespace rtx::runtime {

// dtype, shape and tightly packed bytes in C order.
using HostTensor = NpyArray;

// "f32[2, 3]"
inline std::string type_text(DType dtype, std::span<const int64_t> shape) {
  return concat(to_string(dtype), "[", join(shape, ", ", [](int64_t size) { return std::to_string(size); }), "]");
}

// Bytes of a tensor; E506 for a negative size or more bytes than int64 counts.
Result<int64_t> tensor_bytes(DType dtype, std::span<const int64_t> shape);

}  // namespace rtx::runtime
