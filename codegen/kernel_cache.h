// A folder of compiled kernels, shared by all compiles of a user. An entry's name is the hash of everything its machine
// code depends on, so entries never change; what is in it is checked when it is read. Processes may use one folder at a
// time: an entry appears whole, by a rename.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "codegen/nvrtc.h"

namespace rtx::codegen {

class KernelCache {
 public:
  // Creates the folder (for this user alone). E901 if that cannot be done.
  static Result<KernelCache> open(const std::string& folder);

  // `parts` are the text, architecture, options and compiler build, in a fixed order.
  static std::string key(std::span<const std::string_view> parts);

  // Nothing for an entry that is missing, cut or damaged.
  std::optional<CompiledKernel> load(const std::string& key) const;
  // False if it cannot be written, which costs time later and nothing else.
  bool store(const std::string& key, const CompiledKernel& kernel) const;

 private:
  explicit KernelCache(std::string folder) : folder_(std::move(folder)) {}
  std::string entry_path(const std::string& key) const;
  std::string folder_;
};

// $XDG_CACHE_HOME/rtx or ~/.cache/rtx; empty where neither variable is set.
std::string default_kernel_cache();

}  // namespace rtx::codegen
