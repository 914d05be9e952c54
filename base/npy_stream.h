// The stream form of .npy, shared by plain files and the members of a .npz. Only for npy.cpp and npz.cpp.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/npy.h"
#include "base/result.h"

namespace rtx {

// Bytes that are read once, in order.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Exactly buffer.size() bytes, or an error.
  virtual Result<void> read(std::span<std::byte> buffer) = 0;
};

// Reads an array that takes exactly `total_bytes` of the source.
Result<NpyArray> read_npy_stream(ByteSource& source, int64_t total_bytes, std::optional<DType> as,
                                 const NpyLimits& limits);

// What stands in a file before the elements.
Result<std::string> npy_header(const NpyArray& array);

// The elements as a file holds them: `array.bytes`, or in `storage` the unpacked form of the 4-bit types.
std::span<const std::byte> npy_elements(const NpyArray& array, std::vector<std::byte>& storage);

}  // namespace rtx
