// The part of the CUDA driver API that rtx calls, as a table of function pointers.
//
// The declarations are our own (from the CUDA Driver API reference, "CUDA 13.0"), so building needs no toolkit and the
// program starts without a driver. Every CUDA object of the runtime takes the table as an argument; tests pass one
// whose functions are their own and can fail.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "base/result.h"
#include "runtime/dynamic_library.h"

namespace rtx::runtime {

namespace cuda {

using Result = int;  // CUresult
using Device = int;
using DevicePtr = unsigned long long;
using Context = struct ContextHandle*;
using Module = struct ModuleHandle*;
using Function = struct FunctionHandle*;
using Stream = struct StreamHandle*;
using Event = struct EventHandle*;

enum : Result {
  success = 0,
  error_out_of_memory = 2,
  error_stub_library = 34,
  error_no_device = 100,
  error_invalid_device = 101,
  error_invalid_image = 200,
  error_no_binary_for_gpu = 209,
  error_ecc_uncorrectable = 214,
  error_nvlink_uncorrectable = 220,
  error_illegal_address = 700,
  error_launch_timeout = 702,
  error_assert = 710,
  error_hardware_stack = 714,
  error_launch_failed = 719,
  error_system_driver_mismatch = 803,
};

inline constexpr int attribute_max_grid_x = 5;
inline constexpr int attribute_max_grid_y = 6;
inline constexpr int attribute_max_grid_z = 7;
inline constexpr int attribute_compute_capability_major = 75;
inline constexpr int attribute_compute_capability_minor = 76;
inline constexpr int attribute_max_shared_per_block_optin = 97;
inline constexpr int function_attribute_max_dynamic_shared = 8;
inline constexpr unsigned stream_non_blocking = 1;

}  // namespace cuda

// Name in the table, exported symbol, parameters. The symbols are the versions that today's headers map the plain
// names to. clang-format off keeps one function a line.
// clang-format off
#define RTX_CUDA_DRIVER_FUNCTIONS(X)                                                                                   \
  X(get_error_name, "cuGetErrorName", (cuda::Result, const char**))                                                    \
  X(get_error_string, "cuGetErrorString", (cuda::Result, const char**))                                                \
  X(init, "cuInit", (unsigned flags))                                                                                  \
  X(driver_get_version, "cuDriverGetVersion", (int*))                                                                  \
  X(device_get_count, "cuDeviceGetCount", (int*))                                                                      \
  X(device_get, "cuDeviceGet", (cuda::Device*, int ordinal))                                                           \
  X(device_get_name, "cuDeviceGetName", (char*, int bytes, cuda::Device))                                              \
  X(device_get_attribute, "cuDeviceGetAttribute", (int*, int attribute, cuda::Device))                                 \
  X(device_total_mem, "cuDeviceTotalMem_v2", (size_t*, cuda::Device))                                                  \
  X(primary_context_retain, "cuDevicePrimaryCtxRetain", (cuda::Context*, cuda::Device))                                \
  X(primary_context_release, "cuDevicePrimaryCtxRelease_v2", (cuda::Device))                                           \
  X(context_set_current, "cuCtxSetCurrent", (cuda::Context))                                                           \
  X(mem_get_info, "cuMemGetInfo_v2", (size_t* free, size_t* total))                                                    \
  X(mem_alloc, "cuMemAlloc_v2", (cuda::DevicePtr*, size_t))                                                            \
  X(mem_free, "cuMemFree_v2", (cuda::DevicePtr))                                                                       \
  X(mem_host_alloc, "cuMemHostAlloc", (void**, size_t, unsigned flags))                                                \
  X(mem_free_host, "cuMemFreeHost", (void*))                                                                           \
  X(memcpy_to_device_async, "cuMemcpyHtoDAsync_v2", (cuda::DevicePtr, const void*, size_t, cuda::Stream))              \
  X(memcpy_to_host_async, "cuMemcpyDtoHAsync_v2", (void*, cuda::DevicePtr, size_t, cuda::Stream))                      \
  X(memset_async, "cuMemsetD8Async", (cuda::DevicePtr, unsigned char, size_t, cuda::Stream))                           \
  X(stream_create, "cuStreamCreate", (cuda::Stream*, unsigned flags))                                                  \
  X(stream_destroy, "cuStreamDestroy_v2", (cuda::Stream))                                                              \
  X(stream_synchronize, "cuStreamSynchronize", (cuda::Stream))                                                         \
  X(event_create, "cuEventCreate", (cuda::Event*, unsigned flags))                                                     \
  X(event_destroy, "cuEventDestroy_v2", (cuda::Event))                                                                 \
  X(event_record, "cuEventRecord", (cuda::Event, cuda::Stream))                                                        \
  X(event_synchronize, "cuEventSynchronize", (cuda::Event))                                                            \
  X(event_elapsed_time, "cuEventElapsedTime", (float* milliseconds, cuda::Event start, cuda::Event end))               \
  X(module_load_data, "cuModuleLoadData", (cuda::Module*, const void* image))                                          \
  X(module_unload, "cuModuleUnload", (cuda::Module))                                                                   \
  X(module_get_function, "cuModuleGetFunction", (cuda::Function*, cuda::Module, const char*))                          \
  X(function_set_attribute, "cuFuncSetAttribute", (cuda::Function, int attribute, int value))                          \
  X(launch_kernel, "cuLaunchKernel", (cuda::Function, unsigned grid_x, unsigned grid_y, unsigned grid_z,               \
                                      unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,     \
                                      cuda::Stream, void** parameters, void** extra))
// clang-format on

struct CudaDriver {
#define RTX_DECLARE(name, symbol, parameters) cuda::Result(*name) parameters = nullptr;
  RTX_CUDA_DRIVER_FUNCTIONS(RTX_DECLARE)
#undef RTX_DECLARE
  DynamicLibrary library;  // keeps the functions valid; empty in tests
};

// Opens libcuda.so.1, resolves the table and initialises the driver. Errors (kind device): E702 no driver or no GPU
// that it can use, E704 a driver that lacks a function.
Result<std::shared_ptr<const CudaDriver>> load_cuda_driver();

// Calls cuInit and checks that there is a device. Separate so that tests can run it on their own table.
Result<void> initialise(const CudaDriver& driver);

// The error of a driver call. E801 (out_of_memory), E705 for errors that leave the process without a usable context,
// otherwise E703; all name the call and the driver's name for the result.
Error cuda_error(const CudaDriver& driver, cuda::Result result, std::string_view call);

// Ok, or cuda_error().
Result<void> check(const CudaDriver& driver, cuda::Result result, std::string_view call);

}  // namespace rtx::runtime
