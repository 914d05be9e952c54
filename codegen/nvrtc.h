// Compiles CUDA text to machine code: NVRTC in worker processes, with an on-disk cache. Equal inputs give equal bytes,
// whatever the number of workers and the state of the cache.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "runtime/package/manifest.h"

namespace rtx::codegen {

struct KernelSource {
  std::string name;  // for messages
  std::string text;  // one extern "C" kernel, without includes
};

struct CompiledKernel {
  std::vector<std::byte> cubin;
  package::Resources resources;  // but for the occupancy, which depends on the launch (add_occupancy)
};

struct CompileOptions {
  int jobs = 1;            // worker processes, at least 1
  std::string cache_dir;   // empty: no cache
  std::string nvrtc_path;  // empty: searched, see find_nvrtc()
  // Started as a worker; it calls nvrtc_worker_main() when its first argument is nvrtc_worker_argument.
  std::string worker_program = "/proc/self/exe";
  // After each kernel and architecture; may be empty.
  std::function<void(size_t done, size_t all)> on_progress;
  // Trouble that costs time only, such as a cache that cannot be written; may be empty.
  std::function<void(const Diagnostic&)> on_warning;
};

struct CompileStatistics {
  size_t compiled = 0, cached = 0;
};

// The options of every compile, in order.
std::vector<std::string> nvrtc_options(std::string_view arch);

// Result [kernel][arch]. Errors: E411 (unknown arch), E721 (no NVRTC), and for each kernel that fails, in order, E722
// (it does not compile; a bug in rtx, with the compiler's log) or E723 (the compiler process died).
Result<std::vector<std::vector<CompiledKernel>>> compile_kernels(std::span<const KernelSource> kernels,
                                                                 std::span<const std::string> archs,
                                                                 const CompileOptions& options,
                                                                 CompileStatistics* statistics = nullptr);

}  // namespace rtx::codegen
