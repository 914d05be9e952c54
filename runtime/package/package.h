// Package: a folder with manifest.yaml, weights.safetensors and (for GPUs) kernels.fatbin.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/safetensors.h"
#include "runtime/package/manifest.h"

namespace rtx::package {

inline constexpr std::string_view manifest_name = "manifest.yaml";
inline constexpr std::string_view weights_name = "weights.safetensors";
inline constexpr std::string_view fatbin_name = "kernels.fatbin";

struct Package {
  std::string path;
  Manifest manifest;
  std::string manifest_sha256;               // identifies the package
  std::vector<std::byte> fatbin;             // verified; empty for CPU packages
  SafetensorsIndex weights_index;            // where each tensor lies
  std::shared_ptr<const File> weights_file;  // null for a package without weights
};

struct OpenOptions {
  // Hash weights.safetensors too (reads it once, streamed). Size and header are always checked.
  bool verify_weights = true;
};

// Opens and checks a package before anything of it is used: format version (E602), file sizes and hashes (E611),
// missing (E612) and unlisted files (E613), symbolic links and the like (E616), the weights header (E621..E629) and
// that it lists the manifest's weights in the sizes used (E618), the fatbin containers (E615).
Result<Package> open_package(const std::string& path, const OpenOptions& options = {});

// True for a folder that holds nothing but the files of a package (so that a writer may replace it).
bool is_package_folder(const std::string& path);

}  // namespace rtx::package
