#include "runtime/device.h"

#include <cstdlib>

#include "base/text.h"

namespace rtx::runtime {

namespace {

constexpr size_t host_alignment = 4096;

class HostStorage : public TensorStorage {
 public:
  HostStorage(void* memory, int64_t bytes) : memory_(memory), bytes_(bytes) {}
  ~HostStorage() override { std::free(memory_); }
  DevicePointer address() const override { return reinterpret_cast<DevicePointer>(memory_); }
  int64_t bytes() const override { return bytes_; }

 private:
  void* memory_;
  int64_t bytes_;
};

}  // namespace

Result<std::unique_ptr<TensorStorage>> Device::allocate_host(int64_t bytes) {
  const size_t size = static_cast<size_t>(bytes > 0 ? bytes : 1);
  const size_t rounded = (size + host_alignment - 1) / host_alignment * host_alignment;
  void* memory = std::aligned_alloc(host_alignment, rounded);
  if (!memory)
    return make_error(ErrorKind::out_of_memory, "E802", concat("cannot allocate ", bytes, " bytes of host memory"));
  return std::unique_ptr<TensorStorage>(std::make_unique<HostStorage>(memory, bytes));
}

}  // namespace rtx::runtime
