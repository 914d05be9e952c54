// Arrays in numpy's files, alone and in an archive: accepted arrays have the bytes of their shape.

#include "base/npy.h"
#include "tests/fuzz/fuzz_target.h"

namespace {

using namespace rtx;

void check(const Result<NpyArray>& array) {
  if (!array) return fuzz::require_clean(array.error());
  int64_t elements = 1;
  for (const int64_t dim : array->shape)
    fuzz::require(dim >= 0 && !__builtin_mul_overflow(elements, dim, &elements), "the shape has a size");
  fuzz::require(packed_bytes(array->dtype, elements) == static_cast<int64_t>(array->bytes.size()),
                "the bytes are those of type and shape");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const NpyLimits limits = {.array_bytes = 16 << 20, .entries = 1000};
  const std::shared_ptr<const File> file = fuzz::as_file(data, size);
  check(read_npy(*file, {}, limits));
  check(read_npy(*file, DType::bf16, limits));
  const Result<std::unique_ptr<NpzFile>> archive = NpzFile::open(file, limits);
  if (!archive) {
    fuzz::require_clean(archive.error());
    return 0;
  }
  for (const std::string& name : (*archive)->names()) check((*archive)->read(name));
  return 0;
}
