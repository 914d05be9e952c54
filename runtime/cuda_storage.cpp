#include "runtime/cuda_storage.h"

#include "base/text.h"

namespace rtx::runtime {

namespace {

class CudaStorage : public TensorStorage {
 public:
  CudaStorage(const CudaContext& context, cuda::DevicePtr address, int64_t bytes)
      : context_(context), address_(address), bytes_(bytes) {}
  ~CudaStorage() override {
    context_.enter_for_cleanup();
    if (address_) context_.driver().mem_free(address_);
  }
  DevicePointer address() const override { return address_; }
  int64_t bytes() const override { return bytes_; }

 private:
  const CudaContext& context_;
  cuda::DevicePtr address_;  // 0 for no bytes
  int64_t bytes_;
};

class PinnedStorage : public TensorStorage {
 public:
  PinnedStorage(const CudaContext& context, void* memory, int64_t bytes)
      : context_(context), memory_(memory), bytes_(bytes) {}
  ~PinnedStorage() override {
    context_.enter_for_cleanup();
    context_.driver().mem_free_host(memory_);
  }
  DevicePointer address() const override { return reinterpret_cast<DevicePointer>(memory_); }
  int64_t bytes() const override { return bytes_; }

 private:
  const CudaContext& context_;
  void* memory_;
  int64_t bytes_;
};

}  // namespace

Result<std::unique_ptr<TensorStorage>> allocate_cuda_storage(const CudaContext& context, int64_t bytes) {
  const CudaDriver& driver = context.driver();
  RTX_TRY(context.enter());
  cuda::DevicePtr address = 0;
  if (bytes > 0) {
    const cuda::Result result = driver.mem_alloc(&address, static_cast<size_t>(bytes));
    if (result == cuda::error_out_of_memory) {
      size_t free = 0, total = 0;
      std::string got = "less is free";
      if (driver.mem_get_info(&free, &total) == cuda::success) got = concat(free, " of ", total, " bytes are free");
      return make_error(ErrorKind::out_of_memory, "E801", "the GPU has too little free memory")
          .with_expected(concat(bytes, " bytes in one piece"))
          .with_got(std::move(got))
          .with_help("use smaller dims, or end other programs on this GPU");
    }
    RTX_TRY(check(driver, result, "cuMemAlloc"));
  }
  return std::unique_ptr<TensorStorage>(std::make_unique<CudaStorage>(context, address, bytes));
}

Result<std::unique_ptr<TensorStorage>> allocate_pinned_storage(const CudaContext& context, int64_t bytes) {
  const CudaDriver& driver = context.driver();
  RTX_TRY(context.enter());
  void* memory = nullptr;
  const size_t size = static_cast<size_t>(bytes > 0 ? bytes : 1);
  RTX_TRY(check(driver, driver.mem_host_alloc(&memory, size, 0), "cuMemHostAlloc"));
  return std::unique_ptr<TensorStorage>(std::make_unique<PinnedStorage>(context, memory, bytes));
}

}  // namespace rtx::runtime
