#include "runtime/host_tensor.h"

#include <algorithm>

namespace rtx::runtime {

Result<int64_t> tensor_bytes(DType dtype, std::span<const int64_t> shape) {
  int64_t elements = 1;
  bool fits = std::all_of(shape.begin(), shape.end(), [](int64_t size) { return size >= 0; });
  // A zero anywhere makes the product zero, whatever the other sizes are.
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) elements = 0;
  if (elements != 0)
    for (int64_t size : shape) fits = fits && !__builtin_mul_overflow(elements, size, &elements);
  const std::optional<int64_t> bytes = fits ? packed_bytes(dtype, elements) : std::nullopt;
  if (!bytes) return make_error(ErrorKind::limit, "E506", concat("a tensor ", type_text(dtype, shape), " has no size"));
  return *bytes;
}

}  // namespace rtx::runtime
