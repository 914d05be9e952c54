#include "tests/kernels/device_contract.h"

#include "runtime/cpu/cpu_device.h"
#include "runtime/cuda_device.h"
#include "tests/unit/fake_cuda.h"

namespace rtx::runtime {
namespace {

TEST_CASE("the CPU device keeps the contract") {
  const auto device = make_cpu_device(2);
  check_contract(*device);
}

TEST_CASE("the CUDA device keeps the contract on a fake driver and frees all it took") {
  FakeCuda cuda;
  {
    const auto device = CudaDevice::open(cuda.driver(), 0).value();
    check_contract(*device);
  }
  CHECK(cuda.live == 0);
}

}  // namespace
}  // namespace rtx::runtime
