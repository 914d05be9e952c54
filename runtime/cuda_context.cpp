#include "runtime/cuda_context.h"

#include "base/text.h"

namespace rtx::runtime {

Result<CudaProperties> query_properties(const CudaDriver& driver, int ordinal) {
  int count = 0;
  RTX_TRY(check(driver, driver.device_get_count(&count), "cuDeviceGetCount"));
  if (ordinal < 0 || ordinal >= count)
    return make_error(ErrorKind::device, "E708", concat("there is no device cuda:", ordinal))
        .with_expected(count == 1 ? std::string("cuda:0") : concat("cuda:0 to cuda:", count - 1))
        .with_help("--list-devices shows the devices of this machine");
  cuda::Device device = 0;
  RTX_TRY(check(driver, driver.device_get(&device, ordinal), "cuDeviceGet"));

  CudaProperties properties;
  char name[256] = {};
  RTX_TRY(check(driver, driver.device_get_name(name, sizeof name - 1, device), "cuDeviceGetName"));
  properties.name = name;
  size_t memory = 0;
  RTX_TRY(check(driver, driver.device_total_mem(&memory, device), "cuDeviceTotalMem"));
  properties.memory_bytes = static_cast<int64_t>(memory);
  RTX_TRY(check(driver, driver.driver_get_version(&properties.driver_version), "cuDriverGetVersion"));

  auto attribute = [&](int which) -> Result<int> {
    int value = 0;
    RTX_TRY(check(driver, driver.device_get_attribute(&value, which, device), "cuDeviceGetAttribute"));
    return value;
  };
  RTX_ASSIGN(properties.capability.major, attribute(cuda::attribute_compute_capability_major));
  RTX_ASSIGN(properties.capability.minor, attribute(cuda::attribute_compute_capability_minor));
  RTX_ASSIGN(properties.max_shared_bytes, attribute(cuda::attribute_max_shared_per_block_optin));
  RTX_ASSIGN(properties.max_grid[0], attribute(cuda::attribute_max_grid_x));
  RTX_ASSIGN(properties.max_grid[1], attribute(cuda::attribute_max_grid_y));
  RTX_ASSIGN(properties.max_grid[2], attribute(cuda::attribute_max_grid_z));
  return properties;
}

Result<std::unique_ptr<CudaContext>> CudaContext::retain(std::shared_ptr<const CudaDriver> driver, int ordinal) {
  RTX_ASSIGN(CudaProperties properties, query_properties(*driver, ordinal));
  cuda::Device device = 0;
  RTX_TRY(check(*driver, driver->device_get(&device, ordinal), "cuDeviceGet"));
  cuda::Context context = nullptr;
  RTX_TRY(check(*driver, driver->primary_context_retain(&context, device), "cuDevicePrimaryCtxRetain"));
  std::unique_ptr<CudaContext> result(new CudaContext);
  result->driver_ = std::move(driver);
  result->device_ = device;
  result->context_ = context;
  result->properties_ = std::move(properties);
  return result;
}

CudaContext::~CudaContext() {
  if (context_) driver_->primary_context_release(device_);
}

Result<void> CudaContext::enter() const {
  return check(*driver_, driver_->context_set_current(context_), "cuCtxSetCurrent");
}

}  // namespace rtx::runtime
