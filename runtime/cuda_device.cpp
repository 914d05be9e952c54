#include "runtime/cuda_device.h"

#include <algorithm>

#include "base/text.h"
#include "runtime/cuda_module.h"
#include "runtime/cuda_storage.h"
#include "runtime/cuda_stream.h"

namespace rtx::runtime {

namespace {

DeviceInfo make_info(const CudaProperties& properties, int ordinal) {
  const int version = properties.driver_version;
  return {.id = concat("cuda:", ordinal),
          .name = properties.name,
          .arch = properties.capability.arch(),
          .memory_bytes = properties.memory_bytes,
          .driver = concat("CUDA ", version / 1000, ".", version % 1000 / 10)};
}

Result<void> check_archs(const package::Manifest& manifest, const CudaProperties& properties) {
  const auto runs = [&](const std::string& arch) { return arch_runs_on(arch, properties.capability); };
  if (std::any_of(manifest.archs.begin(), manifest.archs.end(), runs)) return Ok{};
  const std::string arch = properties.capability.arch();
  return make_error(ErrorKind::device, "E701", "the package has no machine code for this GPU")
      .with_expected(concat("code for ", arch, " (", properties.name, ")"))
      .with_got(manifest.archs.empty() ? "a package for the CPU device alone"
                                       : concat("code for ", join(manifest.archs, ", ")))
      .with_help(concat("compile the model again with --arch ", arch, ", or run it with --device cpu"));
}

}  // namespace

Result<std::unique_ptr<CudaDevice>> CudaDevice::open(std::shared_ptr<const CudaDriver> driver, int ordinal,
                                                     const CudaOptions& options) {
  std::unique_ptr<CudaDevice> device(new CudaDevice);
  RTX_ASSIGN(device->context_, CudaContext::retain(std::move(driver), ordinal));
  device->options_ = options;
  device->info_ = make_info(device->context_->properties(), ordinal);
  return device;
}

Result<std::unique_ptr<Module>> CudaDevice::load(const package::Package& package) {
  RTX_TRY(check_archs(package.manifest, context_->properties()));
  const auto& kernels = package.manifest.kernels;
  const bool needs_cublaslt =
      std::any_of(kernels.begin(), kernels.end(), [](const package::Kernel& k) { return k.matmul.has_value(); });
  if (needs_cublaslt && !options_.cublaslt) {
    RTX_ASSIGN(options_.cublaslt, load_cublaslt(options_.cublaslt_path));
    const size_t version = options_.cublaslt->get_version();
    info_.driver += concat(", cuBLASLt ", version / 10000, ".", version % 10000 / 100, ".", version % 100);
  }
  return std::unique_ptr<Module>(std::make_unique<CudaModule>(*context_, package, options_.cublaslt));
}

Result<std::unique_ptr<TensorStorage>> CudaDevice::allocate(int64_t bytes) {
  return allocate_cuda_storage(*context_, bytes);
}

Result<std::unique_ptr<TensorStorage>> CudaDevice::allocate_host(int64_t bytes) {
  return allocate_pinned_storage(*context_, bytes);
}

Result<std::unique_ptr<Stream>> CudaDevice::create_stream() {
  RTX_ASSIGN(auto stream, CudaStream::create(*context_));
  return std::unique_ptr<Stream>(std::move(stream));
}

Result<std::unique_ptr<Event>> CudaDevice::create_event() {
  RTX_ASSIGN(auto event, CudaEvent::create(*context_));
  return std::unique_ptr<Event>(std::move(event));
}

Result<void> CudaDevice::copy_to_device(Stream& stream, DevicePointer to, std::span<const std::byte> from) {
  if (from.empty()) return Ok{};
  RTX_TRY(context_->enter());
  const CudaDriver& driver = context_->driver();
  return check(driver, driver.memcpy_to_device_async(to, from.data(), from.size(), handle_of(stream)),
               "cuMemcpyHtoDAsync");
}

Result<void> CudaDevice::copy_to_host(Stream& stream, std::span<std::byte> to, DevicePointer from) {
  if (to.empty()) return Ok{};
  RTX_TRY(context_->enter());
  const CudaDriver& driver = context_->driver();
  return check(driver, driver.memcpy_to_host_async(to.data(), from, to.size(), handle_of(stream)), "cuMemcpyDtoHAsync");
}

Result<void> CudaDevice::fill(Stream& stream, DevicePointer to, int64_t bytes, std::byte value) {
  if (bytes <= 0) return Ok{};
  RTX_TRY(context_->enter());
  const CudaDriver& driver = context_->driver();
  return check(driver,
               driver.memset_async(to, static_cast<unsigned char>(value), static_cast<size_t>(bytes), handle_of(stream)),
               "cuMemsetD8Async");
}

Result<std::vector<DeviceInfo>> list_cuda_devices(const CudaDriver& driver) {
  int count = 0;
  RTX_TRY(check(driver, driver.device_get_count(&count), "cuDeviceGetCount"));
  std::vector<DeviceInfo> devices;
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    RTX_ASSIGN(const CudaProperties properties, query_properties(driver, ordinal));
    devices.push_back(make_info(properties, ordinal));
  }
  return devices;
}

}  // namespace rtx::runtime
