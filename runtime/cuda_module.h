// The kernels of one package on a CUDA device: containers of kernels.fatbin are loaded when a kernel of theirs is first
// prepared, launches are worked out per binding of the symbols.
#pragma once

#include <map>
#include <memory>
#include <utility>

#include "runtime/cuda_context.h"
#include "runtime/cuda_matmul.h"
#include "runtime/device.h"

namespace rtx::runtime {

class CudaModule : public Module {
 public:
  // `cublaslt` may be null if no kernel of the package is a MatmulCall.
  CudaModule(const CudaContext& context, const package::Package& package, std::shared_ptr<const Cublaslt> cublaslt);
  ~CudaModule() override;
  Result<std::unique_ptr<PreparedKernel>> prepare(uint32_t kernel, std::span<const int64_t> symbols) override;

 private:
  Result<std::unique_ptr<PreparedKernel>> prepare_launch(const package::Launch& launch,
                                                         std::span<const int64_t> symbols);
  Result<cuda::Function> load_function(const package::Launch& launch);

  const CudaContext& context_;
  const package::Package& package_;
  std::map<std::pair<int64_t, int64_t>, cuda::Module> loaded_;  // by offset and size of the container
  CudaMatmul matmul_;
};

}  // namespace rtx::runtime
