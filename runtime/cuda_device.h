// The CUDA device: runs packages on an NVIDIA GPU through the driver API.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/cublaslt.h"
#include "runtime/cuda_context.h"
#include "runtime/device.h"

namespace rtx::runtime {

struct CudaOptions {
  // Path of libcublasLt.so.13 for packages that use it; empty: found as runtime/cublaslt.h says.
  std::string cublaslt_path;
  // A table to use instead of loading the library; for tests.
  std::shared_ptr<const Cublaslt> cublaslt;
};

class CudaDevice : public Device {
 public:
  static Result<std::unique_ptr<CudaDevice>> open(std::shared_ptr<const CudaDriver> driver, int ordinal,
                                                  const CudaOptions& options = {});

  const DeviceInfo& info() const override { return info_; }
  Result<std::unique_ptr<Module>> load(const package::Package& package) override;
  Result<std::unique_ptr<TensorStorage>> allocate(int64_t bytes) override;
  Result<std::unique_ptr<TensorStorage>> allocate_host(int64_t bytes) override;
  Result<std::unique_ptr<Stream>> create_stream() override;
  Result<std::unique_ptr<Event>> create_event() override;
  Result<void> copy_to_device(Stream& stream, DevicePointer to, std::span<const std::byte> from) override;
  Result<void> fill(Stream& stream, DevicePointer to, int64_t bytes, std::byte value) override;
  Result<void> copy_to_host(Stream& stream, std::span<std::byte> to, DevicePointer from) override;

 private:
  CudaDevice() = default;
  std::unique_ptr<CudaContext> context_;
  CudaOptions options_;
  DeviceInfo info_;
};

// The GPUs that the driver shows, in its order ("cuda:0" first).
Result<std::vector<DeviceInfo>> list_cuda_devices(const CudaDriver& driver);

}  // namespace rtx::runtime
