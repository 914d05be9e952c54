// The primary context of one GPU, retained; everything of a CUDA device refers to it.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "runtime/arch.h"
#include "runtime/cuda_driver.h"

namespace rtx::runtime {

// What the runtime needs to know of a GPU before it makes a context there.
struct CudaProperties {
  std::string name;
  ComputeCapability capability;
  int64_t memory_bytes = 0;
  int64_t max_shared_bytes = 0;  // a block, static and dynamic
  std::array<int64_t, 3> max_grid{};
  int driver_version = 0;  // 13000: the newest CUDA version that the driver supports
};

Result<CudaProperties> query_properties(const CudaDriver& driver, int ordinal);

class CudaContext {
 public:
  static Result<std::unique_ptr<CudaContext>> retain(std::shared_ptr<const CudaDriver> driver, int ordinal);
  ~CudaContext();
  CudaContext(const CudaContext&) = delete;

  const CudaDriver& driver() const { return *driver_; }
  const CudaProperties& properties() const { return properties_; }
  // Makes the context current on the calling thread (a few tens of ns); every call of the device begins with it, so
  // that a host program may use other devices in between.
  Result<void> enter() const;
  // For destructors, which free what they can even if this fails.
  void enter_for_cleanup() const { driver_->context_set_current(context_); }

 private:
  CudaContext() = default;
  std::shared_ptr<const CudaDriver> driver_;
  cuda::Device device_ = 0;
  cuda::Context context_ = nullptr;
  CudaProperties properties_;
};

}  // namespace rtx::runtime
