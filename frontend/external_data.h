// External data: the one place that opens a file because a model says so.
//
// The location in the model is an attacker's word. It is resolved by the kernel below the model's own folder
// (openat2 with RESOLVE_BENEATH, no symbolic links, no magic links); what was opened must be a regular file with one
// name. Only that descriptor is read afterwards. Where the kernel has no openat2 the path is walked component by
// component with O_NOFOLLOW, which refuses the same things.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "base/file.h"
#include "base/result.h"

namespace rtx::onnx {

class ExternalFiles {
 public:
  // `model_path` as the user gave it: locations are relative to the folder it names. `follow_symlinks_within`: a folder
  // inside which links may lead anywhere, as in the cache of a model hub; empty: links are refused.
  ExternalFiles(const std::string& model_path, std::string follow_symlinks_within)
      : model_path_(model_path), follow_within_(std::move(follow_symlinks_within)) {}

  // Opens a location once and hands out the same file later. Errors: E311 (leaves the folder), E312 (symbolic link),
  // E313 (several names), E314 (not a regular file), E901 (the system's reason).
  Result<std::shared_ptr<const File>> open(const std::string& location);

  // Sizes of all files opened so far.
  int64_t total_bytes() const { return total_bytes_; }

  // For tests: walk components even where openat2 exists.
  bool without_openat2 = false;

 private:
  Result<std::shared_ptr<const File>> open_new(const std::string& location) const;

  std::string model_path_;
  std::string follow_within_;
  std::map<std::string, std::shared_ptr<const File>, std::less<>> files_;
  int64_t total_bytes_ = 0;
};

}  // namespace rtx::onnx
