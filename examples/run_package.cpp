// Runs the first program of a package on zeros and prints what comes out.
#include <cstdio>
#include <memory>

#include "runtime/cpu/cpu_device.h"
#include "runtime/cuda_device.h"
#include "runtime/session.h"
#include "runtime/tensor_text.h"

using namespace rtx;
using namespace rtx::runtime;

// A GPU if there is one, else the CPU.
Result<std::unique_ptr<Device>> open_device() {
  Result<std::shared_ptr<const CudaDriver>> driver = load_cuda_driver();
  if (!driver) return make_cpu_device(/*threads=*/0);
  RTX_ASSIGN(std::unique_ptr<Device> device, CudaDevice::open(*driver, /*ordinal=*/0));
  return device;
}

Result<void> run(const std::string& path) {
  RTX_ASSIGN(std::unique_ptr<Device> device, open_device());
  RTX_ASSIGN(std::unique_ptr<Model> model, Model::load(path, *device));
  RTX_ASSIGN(std::unique_ptr<Session> session, Session::create(*model));

  // Inputs have the order, types and axes of the program; a named dim may have any size in its range.
  RTX_ASSIGN(const std::vector<int64_t> dims, choose_symbols(model->manifest(), {}));
  std::vector<HostTensor> inputs;
  for (const package::TensorSpec& spec : session->program().inputs) {
    RTX_ASSIGN(std::vector<int64_t> shape, evaluate_shape(spec, dims));
    RTX_ASSIGN(const int64_t bytes, tensor_bytes(spec.dtype, shape));
    inputs.push_back({spec.dtype, std::move(shape), std::vector<std::byte>(static_cast<size_t>(bytes))});
  }

  RTX_ASSIGN(const std::vector<HostTensor> outputs, session->run(inputs));
  for (size_t i = 0; i < outputs.size(); ++i)
    std::printf("%s %s\n", session->program().outputs[i].name.c_str(), summary(outputs[i]).c_str());
  return Ok{};
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const Result<void> result = run(argv[1]);
  if (result) return 0;
  for (const Diagnostic& diagnostic : result.error().diagnostics) std::fputs(to_string(diagnostic).c_str(), stderr);
  return static_cast<int>(result.error().first().kind);
}
