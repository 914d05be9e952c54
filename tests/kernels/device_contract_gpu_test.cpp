// The device contract on the first GPU of this machine.
#include "tests/kernels/device_contract.h"

#include "runtime/cuda_device.h"

namespace rtx::runtime {
namespace {

TEST_CASE("the CUDA device keeps the contract on a GPU") {
  auto driver = load_cuda_driver();
  if (!driver) {
    MESSAGE("skipped: ", driver.error().first().message);
    return;
  }
  const auto device = CudaDevice::open(*driver, 0).value();
  check_contract(*device);
  package::Package package;
  package.manifest.archs = {"sm_70"};
  const auto module = device->load(package);
  REQUIRE(!module.ok());
  CHECK(module.error().first().id == "E701");
}

}  // namespace
}  // namespace rtx::runtime
