#include "runtime/cuda_driver.h"

#include "base/text.h"

namespace rtx::runtime {

namespace {

// "CUDA_ERROR_ILLEGAL_ADDRESS (700): an illegal memory access was encountered"
std::string describe(const CudaDriver& driver, cuda::Result result) {
  const char* name = nullptr;
  const char* text = nullptr;
  if (driver.get_error_name(result, &name) != cuda::success || !name) name = "unknown error";
  if (driver.get_error_string(result, &text) != cuda::success) text = nullptr;
  return text ? concat(name, " (", result, "): ", text) : concat(name, " (", result, ")");
}

// Errors after which every later call in the process fails with the same code (CUDA Driver API, CUresult: "This leaves
// the process in an inconsistent state").
bool is_fatal(cuda::Result result) {
  switch (result) {
    case cuda::error_ecc_uncorrectable:
    case cuda::error_nvlink_uncorrectable:
    case cuda::error_illegal_address:
    case cuda::error_launch_timeout:
    case cuda::error_assert:
      return true;
    default:
      return result >= cuda::error_hardware_stack && result <= cuda::error_launch_failed;
  }
}

}  // namespace

Error cuda_error(const CudaDriver& driver, cuda::Result result, std::string_view call) {
  std::string got = describe(driver, result);
  if (result == cuda::error_out_of_memory)
    return make_error(ErrorKind::out_of_memory, "E801", concat("the device ran out of memory in ", call)).with_got(got);
  if (is_fatal(result)) {
    std::string message = concat("the GPU stopped with an error that ends this process's work, reported by ", call);
    return make_error(ErrorKind::device, "E705", std::move(message))
        .with_got(got)
        .with_help("start a new process; with rtx-run, --sync-steps names the step");
  }
  return make_error(ErrorKind::device, "E703", concat("the CUDA driver call ", call, " failed")).with_got(got);
}

Result<void> check(const CudaDriver& driver, cuda::Result result, std::string_view call) {
  if (result != cuda::success) return cuda_error(driver, result, call);
  return Ok{};
}

Result<void> initialise(const CudaDriver& driver) {
  const cuda::Result result = driver.init(0);
  int count = 0;
  const cuda::Result counted = result == cuda::success ? driver.device_get_count(&count) : result;
  if (counted == cuda::success && count > 0) return Ok{};
  Diagnostic error = make_error(ErrorKind::device, "E702", "no usable NVIDIA GPU");
  if (counted == cuda::success) {
    error.with_got("the driver reports no device");
  } else {
    error.with_got(describe(driver, counted));
  }
  if (counted == cuda::error_system_driver_mismatch)
    error.with_help("the kernel module and libcuda.so.1 are of different versions; reboot or reinstall the driver");
  else if (counted == cuda::error_stub_library)
    error.with_help("the libcuda.so.1 found first is the toolkit's stub; remove its folder from LD_LIBRARY_PATH");
  else
    error.with_help("check nvidia-smi and CUDA_VISIBLE_DEVICES; --device cpu needs no GPU");
  return error;
}

Result<std::shared_ptr<const CudaDriver>> load_cuda_driver() {
  auto driver = std::make_shared<CudaDriver>();
  const std::string names[] = {"libcuda.so.1"};
  std::string reasons;
  driver->library = DynamicLibrary::open(names, reasons);
  if (!driver->library)
    return make_error(ErrorKind::device, "E702", "no NVIDIA driver on this machine")
        .with_got(reasons)
        .with_help("install the NVIDIA driver, or run on the CPU with --device cpu");
  const char* missing = nullptr;
#define RTX_RESOLVE(name, exported, parameters)                                              \
  driver->name = reinterpret_cast<decltype(driver->name)>(driver->library.symbol(exported)); \
  if (!driver->name && !missing) missing = exported;
  RTX_CUDA_DRIVER_FUNCTIONS(RTX_RESOLVE)
#undef RTX_RESOLVE
  if (missing)
    return make_error(ErrorKind::device, "E704", "the NVIDIA driver is too old for rtx")
        .with_expected("a driver for CUDA 12 or later")
        .with_got(concat(driver->library.name(), " without ", missing))
        .with_help("update the NVIDIA driver");
  RTX_TRY(initialise(*driver));
  return std::shared_ptr<const CudaDriver>(std::move(driver));
}

}  // namespace rtx::runtime
