// Matrix products of a package by cuBLASLt.
//
// Numerics: f32 operands are multiplied as f32 (no TF32), f16 and bf16 accumulate in f32, f64 in f64. No split-K: the
// heuristic is restricted to algorithms without a reduction over several blocks, so that the order of summation of one
// element depends on the algorithm alone. Another cuBLASLt version or GPU model may choose another algorithm.
#pragma once

#include <memory>

#include "runtime/cublaslt.h"
#include "runtime/cuda_context.h"
#include "runtime/device.h"

namespace rtx::runtime {

class CudaMatmul {
 public:
  CudaMatmul(const CudaContext& context, std::shared_ptr<const Cublaslt> cublaslt)
      : context_(context), cublaslt_(std::move(cublaslt)) {}
  ~CudaMatmul();

  // What is prepared shares one workspace: it must run on one stream at a time.
  Result<std::unique_ptr<PreparedKernel>> prepare(const package::MatmulCall& call, std::span<const int64_t> symbols);

 private:
  int64_t workspace_limit() const;

  const CudaContext& context_;
  std::shared_ptr<const Cublaslt> cublaslt_;
  cublas::Handle handle_ = nullptr;           // created at the first product
  std::unique_ptr<TensorStorage> workspace_;  // allocated at the first product that needs one
};

}  // namespace rtx::runtime
