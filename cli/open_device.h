// --device, as rtx-run and rtx-conformance take it.
#pragma once

#include <CLI/CLI.hpp>
#include <charconv>
#include <memory>
#include <string>
#include <vector>

#include "base/text.h"
#include "runtime/arch.h"
#include "runtime/cpu/cpu_device.h"
#include "runtime/cuda_device.h"

namespace rtx::cli {

struct DeviceOptions {
  std::string device = "auto";  // auto, cpu, cuda, cuda:N
  int threads = 0;              // of the CPU device; 0: one a core
  std::string cublaslt_path;
};

inline void add_device_options(CLI::App& app, DeviceOptions& options) {
  app.add_option("--device", options.device,
                 "cpu, cuda:N, or auto: the first GPU that the package has code for, else cpu")
      ->capture_default_str();
  app.add_option("--threads", options.threads,
                 "Threads of the CPU device; 0: one a core. The results do not depend on it")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  app.add_option("--cublaslt", options.cublaslt_path, "Path of libcublasLt.so.13 (default: found by the loader)");
}

// Opens the device. `archs` are those of the package, which decide what auto means.
inline Result<std::unique_ptr<runtime::Device>> open_device(const DeviceOptions& options,
                                                            const std::vector<std::string>& archs) {
  using runtime::CudaDevice;
  using runtime::CudaDriver;
  using runtime::Device;
  const auto cpu = [&] { return Result<std::unique_ptr<Device>>(runtime::make_cpu_device(options.threads)); };
  const auto cuda = [&](std::shared_ptr<const CudaDriver> driver, int ordinal) -> Result<std::unique_ptr<Device>> {
    RTX_ASSIGN(auto device, CudaDevice::open(std::move(driver), ordinal, {.cublaslt_path = options.cublaslt_path}));
    return std::unique_ptr<Device>(std::move(device));
  };

  const std::string& name = options.device;
  if (name == "cpu") return cpu();
  if (name == "auto") {
    if (archs.empty()) return cpu();
    auto driver = runtime::load_cuda_driver();
    if (!driver) return cpu();
    RTX_ASSIGN(const auto devices, runtime::list_cuda_devices(**driver));
    for (size_t ordinal = 0; ordinal < devices.size(); ++ordinal) {
      RTX_ASSIGN(const runtime::CudaProperties properties,
                 runtime::query_properties(**driver, static_cast<int>(ordinal)));
      for (const std::string& arch : archs)
        if (runtime::arch_runs_on(arch, properties.capability)) return cuda(*driver, static_cast<int>(ordinal));
    }
    return cpu();
  }
  int ordinal = -1;
  if (name == "cuda") ordinal = 0;
  if (name.starts_with("cuda:")) {
    const char* end = name.data() + name.size();
    const auto [after, error] = std::from_chars(name.data() + 5, end, ordinal);
    if (error != std::errc() || after != end) ordinal = -1;
  }
  if (ordinal < 0)
    return make_error(ErrorKind::usage, "E008", concat("there is no kind of device '", escape_text(name), "'"))
        .with_expected("cpu, cuda:0, cuda:1, ... or auto");
  RTX_ASSIGN(auto driver, runtime::load_cuda_driver());
  return cuda(std::move(driver), ordinal);
}

}  // namespace rtx::cli
