// safetensors: https://github.com/huggingface/safetensors, format section of the README. u64 little-endian header
// length, a JSON object name -> {dtype, shape, data_offsets}, then the data without holes or overlaps.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/file.h"
#include "base/result.h"

namespace rtx {

struct SafetensorsEntry {
  DType dtype = DType::f32;
  std::vector<int64_t> shape;
  int64_t offset = 0;  // from the start of the file
  int64_t bytes = 0;
};

using SafetensorsIndex = std::map<std::string, SafetensorsEntry, std::less<>>;

// Reads and checks the header: at most 100 MB, starts with '{', no duplicate keys, numbers are unsigned integers,
// shape x dtype == range, ranges cover the data exactly once. Errors E621 to E629 (kind integrity).
// The types u4 and i4 are stored under the names "U4" and "I4", as rtx's own extension.
Result<SafetensorsIndex> read_safetensors_index(const File& file);

struct SafetensorsTensor {
  std::string name;
  DType dtype = DType::f32;
  std::vector<int64_t> shape;
  int64_t bytes = 0;
};

struct WrittenSafetensors {
  int64_t bytes = 0;   // of the file
  std::string sha256;  // of the file, 64 lower-case hex digits; empty if not asked for
};

struct WriteSafetensorsOptions {
  bool hash = true;
  // Called now and then, and at the end, with the bytes of data written and to write; may be empty.
  std::function<void(int64_t done, int64_t all)> on_progress;
};

// Writes the file through FileWriter in the given order. `produce(i, offset, buffer)` fills the bytes of tensor i from
// `offset`; it is called with consecutive pieces of at most 4 MiB. Equal inputs give equal bytes. A piece is hashed
// while it is written and the next one is produced.
Result<WrittenSafetensors> write_safetensors(
    const std::string& path, std::span<const SafetensorsTensor> tensors,
    const std::function<Result<void>(size_t, int64_t, std::span<std::byte>)>& produce,
    const WriteSafetensorsOptions& options = {});

}  // namespace rtx
