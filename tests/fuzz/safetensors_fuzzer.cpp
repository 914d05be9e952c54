// The header of safetensors files: accepted ranges lie in the file, have the size of their type and do not overlap.

#include <algorithm>

#include "base/safetensors.h"
#include "tests/fuzz/fuzz_target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace rtx;
  const std::shared_ptr<const File> file = fuzz::as_file(data, size);
  const Result<SafetensorsIndex> index = read_safetensors_index(*file);
  if (!index) {
    fuzz::require_clean(index.error());
    return 0;
  }
  std::vector<std::pair<int64_t, int64_t>> ranges;
  for (const auto& [name, entry] : *index) {
    int64_t elements = 1;
    for (const int64_t dim : entry.shape)
      fuzz::require(dim >= 0 && !__builtin_mul_overflow(elements, dim, &elements), "the shape has a size", name);
    fuzz::require(entry.bytes == packed_bytes(entry.dtype, elements), "the bytes are those of type and shape", name);
    if (entry.bytes > 0) ranges.emplace_back(entry.offset, entry.bytes);
  }
  std::sort(ranges.begin(), ranges.end());
  int64_t covered = file->size();
  for (auto range = ranges.rbegin(); range != ranges.rend(); ++range) {
    fuzz::require(range->first + range->second == covered, "the ranges cover the data without holes or overlaps");
    covered = range->first;
  }
  return 0;
}
