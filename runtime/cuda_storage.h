// Memory of a CUDA device, and page-locked host memory.
#pragma once

#include <memory>

#include "runtime/cuda_context.h"
#include "runtime/device.h"

namespace rtx::runtime {

Result<std::unique_ptr<TensorStorage>> allocate_cuda_storage(const CudaContext& context, int64_t bytes);
Result<std::unique_ptr<TensorStorage>> allocate_pinned_storage(const CudaContext& context, int64_t bytes);

}  // namespace rtx::runtime
