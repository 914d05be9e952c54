// The part of cuBLASLt that rtx calls, as a table of function pointers; loaded only for a package that uses it.
//
// The declarations are our own (from the cuBLAS 13 reference and the values of its enumerations).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "runtime/cuda_driver.h"
#include "runtime/dynamic_library.h"

namespace rtx::runtime {

namespace cublas {

using Status = int;
using Handle = struct LtHandle*;
using MatmulDesc = struct LtMatmulDesc*;
using Layout = struct LtLayout*;
using Preference = struct LtPreference*;

inline constexpr Status success = 0;
inline constexpr Status alloc_failed = 3;

// cudaDataType_t
inline constexpr int type_f32 = 0, type_f64 = 1, type_f16 = 2, type_bf16 = 14;
// cublasComputeType_t: plain f32 and f64, without TF32 and without emulation.
inline constexpr int compute_f32 = 68, compute_f64 = 70;
inline constexpr int op_none = 0, op_transpose = 1;

inline constexpr int desc_transpose_a = 3, desc_transpose_b = 4, desc_epilogue = 7, desc_bias_pointer = 8;
inline constexpr int epilogue_bias = 4;
inline constexpr int layout_batch_count = 5, layout_batch_stride = 6;
inline constexpr int preference_max_workspace = 1, preference_reduction_scheme_mask = 3;
inline constexpr int preference_alignment_a = 5, preference_alignment_b = 6, preference_alignment_c = 7,
                     preference_alignment_d = 8;
inline constexpr int algo_splitk = 2;
inline constexpr uint32_t reduction_scheme_none = 0;

struct Algo {
  uint64_t data[8];
};
struct HeuristicResult {
  Algo algo;
  size_t workspace_bytes;
  Status state;
  float waves;
  int reserved[4];
};

}  // namespace cublas

// clang-format off
#define RTX_CUBLASLT_FUNCTIONS(X)                                                                                      \
  X(create, "cublasLtCreate", (cublas::Handle*))                                                                       \
  X(destroy, "cublasLtDestroy", (cublas::Handle))                                                                      \
  X(desc_create, "cublasLtMatmulDescCreate", (cublas::MatmulDesc*, int compute, int scale))                            \
  X(desc_destroy, "cublasLtMatmulDescDestroy", (cublas::MatmulDesc))                                                   \
  X(desc_set, "cublasLtMatmulDescSetAttribute", (cublas::MatmulDesc, int attribute, const void*, size_t))              \
  X(layout_create, "cublasLtMatrixLayoutCreate", (cublas::Layout*, int type, uint64_t rows, uint64_t columns,          \
                                                  int64_t leading))                                                    \
  X(layout_destroy, "cublasLtMatrixLayoutDestroy", (cublas::Layout))                                                   \
  X(layout_set, "cublasLtMatrixLayoutSetAttribute", (cublas::Layout, int attribute, const void*, size_t))              \
  X(preference_create, "cublasLtMatmulPreferenceCreate", (cublas::Preference*))                                        \
  X(preference_destroy, "cublasLtMatmulPreferenceDestroy", (cublas::Preference))                                       \
  X(preference_set, "cublasLtMatmulPreferenceSetAttribute", (cublas::Preference, int attribute, const void*, size_t))  \
  X(heuristic, "cublasLtMatmulAlgoGetHeuristic", (cublas::Handle, cublas::MatmulDesc, cublas::Layout a,                \
                                                  cublas::Layout b, cublas::Layout c, cublas::Layout d,                \
                                                  cublas::Preference, int requested, cublas::HeuristicResult*,         \
                                                  int* returned))                                                      \
  X(algo_config_get, "cublasLtMatmulAlgoConfigGetAttribute", (const cublas::Algo*, int attribute, void*, size_t,       \
                                                              size_t* written))                                        \
  X(matmul, "cublasLtMatmul", (cublas::Handle, cublas::MatmulDesc, const void* alpha, const void* a, cublas::Layout,   \
                               const void* b, cublas::Layout, const void* beta, const void* c, cublas::Layout,         \
                               void* d, cublas::Layout, const cublas::Algo*, void* workspace, size_t workspace_bytes,  \
                               cuda::Stream))
// clang-format on

struct Cublaslt {
#define RTX_DECLARE(name, symbol, parameters) cublas::Status(*name) parameters = nullptr;
  RTX_CUBLASLT_FUNCTIONS(RTX_DECLARE)
#undef RTX_DECLARE
  size_t (*get_version)() = nullptr;
  const char* (*get_status_name)(cublas::Status) = nullptr;
  DynamicLibrary library;  // keeps the functions valid; empty in tests
};

// Opens libcublasLt.so.13: `path` if given, else the environment variable RTX_CUBLASLT, else where the loader looks,
// else CUDA_HOME/lib64 and /usr/local/cuda/lib64. Error E706 (device) lists what was tried.
Result<std::shared_ptr<const Cublaslt>> load_cublaslt(const std::string& path = {});

// Ok, or E707 (E801 for a failed allocation) naming the call.
Result<void> check(const Cublaslt& cublaslt, cublas::Status status, std::string_view call);

}  // namespace rtx::runtime
