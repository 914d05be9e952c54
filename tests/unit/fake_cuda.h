// A CUDA driver and a cuBLASLt in host memory, as tables for runtime/cuda_driver.h and runtime/cublaslt.h. They count
// what is alive, run C++ functions in place of kernels, and can fail any one call.
#pragma once

#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/cublaslt.h"
#include "runtime/cuda_driver.h"

namespace rtx::runtime {

struct FakeCuda {
  struct Launch {
    std::string function;
    std::array<unsigned, 3> grid, block;
    unsigned shared_bytes = 0;
    std::vector<uint64_t> parameters;
  };

  // Behaviour.
  int devices = 1, major = 9, minor = 0;
  size_t memory = size_t{1} << 40;  // one allocation above it fails
  std::map<std::string, std::function<void(const Launch&)>> kernels;
  int fail_at = -1;  // number of the call that fails; -1: none
  cuda::Result fail_with = 999;
  int splits = 1;                 // what the only algorithm of the fake cuBLASLt says of its split-K
  size_t workspace_needed = 512;  // of that algorithm

  // Record.
  int calls = 0, live = 0;
  std::vector<std::string> log;
  std::vector<Launch> launches;
  std::vector<size_t> images;  // sizes of the loaded modules, by their first 8 bytes

  FakeCuda() { current = this; }
  ~FakeCuda() { current = nullptr; }
  FakeCuda(const FakeCuda&) = delete;

  std::shared_ptr<const CudaDriver> driver() const;
  std::shared_ptr<const Cublaslt> cublaslt() const;

  // The functions of a table have no context argument, so the fake in use is found here. One at a time.
  static inline FakeCuda* current = nullptr;
  static cuda::Result step(const char* name) {
    current->log.emplace_back(name);
    return current->calls++ == current->fail_at ? current->fail_with : cuda::success;
  }
};

// One statement at the start of a fake function: counts the call and may fail it.
#define RTX_FAKE(name) \
  if (cuda::Result failed = FakeCuda::step(name)) return failed

inline std::shared_ptr<const CudaDriver> FakeCuda::driver() const {
  auto d = std::make_shared<CudaDriver>();
  d->get_error_name = [](cuda::Result result, const char** text) {
    *text = result == cuda::error_out_of_memory ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_FAKE";
    return 0;
  };
  d->get_error_string = [](cuda::Result, const char** text) {
    *text = "injected";
    return 0;
  };
  d->init = [](unsigned) -> cuda::Result { return FakeCuda::step("cuInit"); };
  d->driver_get_version = [](int* version) -> cuda::Result {
    RTX_FAKE("cuDriverGetVersion");
    *version = 13000;
    return 0;
  };
  d->device_get_count = [](int* count) -> cuda::Result {
    RTX_FAKE("cuDeviceGetCount");
    *count = current->devices;
    return 0;
  };
  d->device_get = [](cuda::Device* device, int ordinal) -> cuda::Result {
    RTX_FAKE("cuDeviceGet");
    *device = ordinal;
    return 0;
  };
  d->device_get_name = [](char* name, int bytes, cuda::Device) -> cuda::Result {
    RTX_FAKE("cuDeviceGetName");
    std::strncpy(name, "Fake GPU", static_cast<size_t>(bytes));
    return 0;
  };
  d->device_get_attribute = [](int* value, int attribute, cuda::Device) -> cuda::Result {
    RTX_FAKE("cuDeviceGetAttribute");
    switch (attribute) {
      case cuda::attribute_compute_capability_major:
        *value = current->major;
        break;
      case cuda::attribute_compute_capability_minor:
        *value = current->minor;
        break;
      case cuda::attribute_max_shared_per_block_optin:
        *value = 227 * 1024;
        break;
      case cuda::attribute_max_grid_x:
        *value = 0x7fffffff;
        break;
      default:
        *value = 65535;
    }
    return 0;
  };
  d->device_total_mem = [](size_t* bytes, cuda::Device) -> cuda::Result {
    RTX_FAKE("cuDeviceTotalMem");
    *bytes = current->memory;
    return 0;
  };
  d->primary_context_retain = [](cuda::Context* context, cuda::Device) -> cuda::Result {
    RTX_FAKE("cuDevicePrimaryCtxRetain");
    ++current->live;
    *context = reinterpret_cast<cuda::Context>(current);
    return 0;
  };
  d->primary_context_release = [](cuda::Device) -> cuda::Result {
    --current->live;
    return 0;
  };
  d->context_set_current = [](cuda::Context) -> cuda::Result { return FakeCuda::step("cuCtxSetCurrent"); };
  d->mem_get_info = [](size_t* free, size_t* total) -> cuda::Result {
    RTX_FAKE("cuMemGetInfo");
    *free = *total = current->memory;
    return 0;
  };
  d->mem_alloc = [](cuda::DevicePtr* address, size_t bytes) -> cuda::Result {
    RTX_FAKE("cuMemAlloc");
    if (bytes > current->memory) return cuda::error_out_of_memory;
    ++current->live;
    void* memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
    std::memset(memory, 0xee, bytes);
    *address = reinterpret_cast<cuda::DevicePtr>(memory);
    return 0;
  };
  d->mem_free = [](cuda::DevicePtr address) -> cuda::Result {
    --current->live;
    std::free(reinterpret_cast<void*>(address));
    return FakeCuda::step("cuMemFree");
  };
  d->mem_host_alloc = [](void** memory, size_t bytes, unsigned) -> cuda::Result {
    RTX_FAKE("cuMemHostAlloc");
    ++current->live;
    *memory = std::malloc(bytes);
    return 0;
  };
  d->mem_free_host = [](void* memory) -> cuda::Result {
    --current->live;
    std::free(memory);
    return FakeCuda::step("cuMemFreeHost");
  };
  d->memcpy_to_device_async = [](cuda::DevicePtr to, const void* from, size_t bytes, cuda::Stream) -> cuda::Result {
    RTX_FAKE("cuMemcpyHtoDAsync");
    std::memcpy(reinterpret_cast<void*>(to), from, bytes);
    return 0;
  };
  d->memcpy_to_host_async = [](void* to, cuda::DevicePtr from, size_t bytes, cuda::Stream) -> cuda::Result {
    RTX_FAKE("cuMemcpyDtoHAsync");
    std::memcpy(to, reinterpret_cast<const void*>(from), bytes);
    return 0;
  };
  d->memset_async = [](cuda::DevicePtr to, unsigned char value, size_t bytes, cuda::Stream) -> cuda::Result {
    RTX_FAKE("cuMemsetD8Async");
    std::memset(reinterpret_cast<void*>(to), value, bytes);
    return 0;
  };
  d->stream_create = [](cuda::Stream* stream, unsigned) -> cuda::Result {
    RTX_FAKE("cuStreamCreate");
    ++current->live;
    *stream = reinterpret_cast<cuda::Stream>(current);
    return 0;
  };
  d->stream_destroy = [](cuda::Stream) -> cuda::Result {
    --current->live;
    return FakeCuda::step("cuStreamDestroy");
  };
  d->stream_synchronize = [](cuda::Stream) -> cuda::Result { return FakeCuda::step("cuStreamSynchronize"); };
  d->event_create = [](cuda::Event* event, unsigned) -> cuda::Result {
    RTX_FAKE("cuEventCreate");
    ++current->live;
    *event = reinterpret_cast<cuda::Event>(current);
    return 0;
  };
  d->event_destroy = [](cuda::Event) -> cuda::Result {
    --current->live;
    return FakeCuda::step("cuEventDestroy");
  };
  d->event_record = [](cuda::Event, cuda::Stream) -> cuda::Result { return FakeCuda::step("cuEventRecord"); };
  d->event_synchronize = [](cuda::Event) -> cuda::Result { return FakeCuda::step("cuEventSynchronize"); };
  d->event_elapsed_time = [](float* milliseconds, cuda::Event, cuda::Event) -> cuda::Result {
    RTX_FAKE("cuEventElapsedTime");
    *milliseconds = 1.5f;
    return 0;
  };
  d->module_load_data = [](cuda::Module* module, const void* image) -> cuda::Result {
    RTX_FAKE("cuModuleLoadData");
    ++current->live;
    uint64_t first = 0;
    std::memcpy(&first, image, sizeof first);
    current->images.push_back(first);
    *module = reinterpret_cast<cuda::Module>(current);
    return 0;
  };
  d->module_unload = [](cuda::Module) -> cuda::Result {
    --current->live;
    return FakeCuda::step("cuModuleUnload");
  };
  d->module_get_function = [](cuda::Function* function, cuda::Module, const char* name) -> cuda::Result {
    RTX_FAKE("cuModuleGetFunction");
    const auto found = current->kernels.find(name);
    if (found == current->kernels.end()) return 500;  // CUDA_ERROR_NOT_FOUND
    *function = reinterpret_cast<cuda::Function>(const_cast<std::string*>(&found->first));
    return 0;
  };
  d->function_set_attribute = [](cuda::Function, int, int) -> cuda::Result {
    return FakeCuda::step("cuFuncSetAttribute");
  };
  d->launch_kernel = [](cuda::Function function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                        unsigned bz, unsigned shared_bytes, cuda::Stream, void**, void** extra) -> cuda::Result {
    RTX_FAKE("cuLaunchKernel");
    const auto* first = static_cast<const uint64_t*>(extra[1]);
    const size_t bytes = *static_cast<const size_t*>(extra[3]);
    Launch launch{*reinterpret_cast<const std::string*>(function),
                  {gx, gy, gz},
                  {bx, by, bz},
                  shared_bytes,
                  {first, first + bytes / sizeof(uint64_t)}};
    current->kernels[launch.function](launch);
    current->launches.push_back(std::move(launch));
    return 0;
  };
  return d;
}

// What the opaque objects of cuBLASLt hold here.
struct FakeMatrixLayout {
  uint64_t rows, columns;
  int64_t leading, batch_stride;
  int32_t batch;
};
struct FakeMatmulDesc {
  int32_t transpose_a, transpose_b, epilogue;
  const float* bias;
};

inline std::shared_ptr<const Cublaslt> FakeCuda::cublaslt() const {
  auto t = std::make_shared<Cublaslt>();
  // Failures of this table are CUBLAS_STATUS_INTERNAL_ERROR.
  t->get_status_name = [](cublas::Status) -> const char* { return "CUBLAS_STATUS_FAKE"; };
  t->get_version = []() -> size_t { return 130100; };
  t->create = [](cublas::Handle* handle) -> cublas::Status {
    RTX_FAKE("cublasLtCreate");
    ++current->live;
    *handle = reinterpret_cast<cublas::Handle>(current);
    return 0;
  };
  t->destroy = [](cublas::Handle) -> cublas::Status {
    --current->live;
    return FakeCuda::step("cublasLtDestroy");
  };
  t->desc_create = [](cublas::MatmulDesc* desc, int, int) -> cublas::Status {
    RTX_FAKE("cublasLtMatmulDescCreate");
    ++current->live;
    *desc = reinterpret_cast<cublas::MatmulDesc>(new FakeMatmulDesc{});
    return 0;
  };
  t->desc_destroy = [](cublas::MatmulDesc desc) -> cublas::Status {
    --current->live;
    delete reinterpret_cast<FakeMatmulDesc*>(desc);
    return FakeCuda::step("cublasLtMatmulDescDestroy");
  };
  t->desc_set = [](cublas::MatmulDesc desc, int attribute, const void* value, size_t bytes) -> cublas::Status {
    RTX_FAKE("cublasLtMatmulDescSetAttribute");
    auto* fake = reinterpret_cast<FakeMatmulDesc*>(desc);
    if (attribute == cublas::desc_bias_pointer) return std::memcpy(&fake->bias, value, bytes), 0;
    std::memcpy(attribute == cublas::desc_transpose_a   ? &fake->transpose_a
                : attribute == cublas::desc_transpose_b ? &fake->transpose_b
                                                        : &fake->epilogue,
                value, bytes);
    return bytes == sizeof(int32_t) ? 0 : 7;
  };
  t->layout_create = [](cublas::Layout* layout, int, uint64_t rows, uint64_t columns,
                        int64_t leading) -> cublas::Status {
    RTX_FAKE("cublasLtMatrixLayoutCreate");
    if (leading < static_cast<int64_t>(rows)) return 7;  // CUBLAS_STATUS_INVALID_VALUE
    ++current->live;
    *layout = reinterpret_cast<cublas::Layout>(new FakeMatrixLayout{rows, columns, leading, 0, 1});
    return 0;
  };
  t->layout_destroy = [](cublas::Layout layout) -> cublas::Status {
    --current->live;
    delete reinterpret_cast<FakeMatrixLayout*>(layout);
    return FakeCuda::step("cublasLtMatrixLayoutDestroy");
  };
  t->layout_set = [](cublas::Layout layout, int attribute, const void* value, size_t bytes) -> cublas::Status {
    RTX_FAKE("cublasLtMatrixLayoutSetAttribute");
    auto* fake = reinterpret_cast<FakeMatrixLayout*>(layout);
    if (attribute == cublas::layout_batch_count && bytes == 4) return std::memcpy(&fake->batch, value, bytes), 0;
    if (attribute == cublas::layout_batch_stride && bytes == 8)
      return std::memcpy(&fake->batch_stride, value, bytes), 0;
    return 7;
  };
  t->preference_create = [](cublas::Preference* preference) -> cublas::Status {
    RTX_FAKE("cublasLtMatmulPreferenceCreate");
    ++current->live;
    *preference = reinterpret_cast<cublas::Preference>(current);
    return 0;
  };
  t->preference_destroy = [](cublas::Preference) -> cublas::Status {
    --current->live;
    return FakeCuda::step("cublasLtMatmulPreferenceDestroy");
  };
  t->preference_set = [](cublas::Preference, int, const void*, size_t) -> cublas::Status {
    return FakeCuda::step("cublasLtMatmulPreferenceSetAttribute");
  };
  t->heuristic = [](cublas::Handle, cublas::MatmulDesc, cublas::Layout, cublas::Layout, cublas::Layout, cublas::Layout,
                    cublas::Preference, int, cublas::HeuristicResult* results, int* returned) -> cublas::Status {
    RTX_FAKE("cublasLtMatmulAlgoGetHeuristic");
    results[0] = {};
    results[0].workspace_bytes = current->workspace_needed;
    *returned = 1;
    return 0;
  };
  t->algo_config_get = [](const cublas::Algo*, int, void* value, size_t bytes, size_t* written) -> cublas::Status {
    RTX_FAKE("cublasLtMatmulAlgoConfigGetAttribute");
    const int32_t splits = current->splits;
    std::memcpy(value, &splits, bytes);
    *written = bytes;
    return 0;
  };
  // D = op(A) * op(B) + beta * C + bias of the row, column-major, f32, as the cuBLASLt reference defines it.
  t->matmul = [](cublas::Handle, cublas::MatmulDesc desc_handle, const void* alpha, const void* a_data,
                 cublas::Layout a_handle, const void* b_data, cublas::Layout b_handle, const void* beta,
                 const void* c_data, cublas::Layout, void* d_data, cublas::Layout d_handle, const cublas::Algo*, void*,
                 size_t, cuda::Stream) -> cublas::Status {
    RTX_FAKE("cublasLtMatmul");
    const auto* desc = reinterpret_cast<FakeMatmulDesc*>(desc_handle);
    const auto* a = reinterpret_cast<FakeMatrixLayout*>(a_handle);
    const auto* b = reinterpret_cast<FakeMatrixLayout*>(b_handle);
    const auto* d = reinterpret_cast<FakeMatrixLayout*>(d_handle);
    const uint64_t rows = desc->transpose_a ? a->columns : a->rows, inner = desc->transpose_a ? a->rows : a->columns;
    const uint64_t columns = desc->transpose_b ? b->rows : b->columns;
    const uint64_t b_inner = desc->transpose_b ? b->columns : b->rows;
    if (rows != d->rows || columns != d->columns || inner != b_inner) return 7;
    if (*static_cast<const float*>(alpha) != 1) return 7;
    const auto at = [](const void* data, const FakeMatrixLayout* layout, int64_t batch, uint64_t row, uint64_t column) {
      return static_cast<const float*>(data)[batch * layout->batch_stride + static_cast<int64_t>(row) +
                                             static_cast<int64_t>(column) * layout->leading];
    };
    for (int64_t batch = 0; batch < d->batch; ++batch)
      for (uint64_t i = 0; i < rows; ++i)
        for (uint64_t j = 0; j < columns; ++j) {
          float sum = 0;
          for (uint64_t k = 0; k < inner; ++k)
            sum += (desc->transpose_a ? at(a_data, a, batch, k, i) : at(a_data, a, batch, i, k)) *
                   (desc->transpose_b ? at(b_data, b, batch, j, k) : at(b_data, b, batch, k, j));
          const float scale = *static_cast<const float*>(beta);
          if (scale != 0) sum += scale * at(c_data, d, batch, i, j);
          if (desc->epilogue == cublas::epilogue_bias) sum += desc->bias[i];
          static_cast<float*>(
              d_data)[batch * d->batch_stride + static_cast<int64_t>(i) + static_cast<int64_t>(j) * d->leading] = sum;
        }
    return 0;
  };
  return t;
}

#undef RTX_FAKE

}  // namespace rtx::runtime
