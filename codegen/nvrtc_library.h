// NVRTC, NVIDIA's CUDA compiler library: where it is, which build it is, and its functions once loaded. It is never
// linked, so that everything but making machine code works without it.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace rtx::codegen {

struct NvrtcLocation {
  std::string path;
  std::string identity;  // of the build: equal exactly if the files are; part of the key of cached kernels
};

// Looks in this order: `requested` (a file or its folder; nothing else is then tried), the variable RTX_NVRTC in the
// same way, CUDA_HOME and CUDA_PATH, beside the running program and in its ../lib, .deps/cuda of a folder above the
// program, /usr/local/cuda, the loader's own path. E721 (device) names all places and how to get it. Does not load it
// but for the last.
Result<NvrtcLocation> find_nvrtc(const std::string& requested);

struct NvrtcOutput {
  enum class Status { ok, failed, unloadable };  // unloadable: the library itself; `log` says why
  Status status = Status::failed;
  std::string log;
  std::vector<std::byte> cubin;
};

// The loaded library; for one thread.
class Nvrtc {
 public:
  static Result<std::unique_ptr<Nvrtc>> load(const std::string& path);
  // Compiles one program. A failed compile is an output with status failed.
  NvrtcOutput compile(const std::string& text, const std::vector<std::string>& options) const;

 private:
  struct Functions;
  Nvrtc() = default;
  std::shared_ptr<const Functions> functions_;
};

}  // namespace rtx::codegen
