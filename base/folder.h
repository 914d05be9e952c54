// An open folder whose files are opened relative to it, so that nobody can exchange the folder meanwhile.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/result.h"

namespace rtx {

class Folder {
 public:
  // Errors: E901 (io); E904 (invalid) if the path is no folder.
  static Result<Folder> open(const std::string& path);
  Folder(Folder&& other) noexcept;
  Folder& operator=(Folder&&) = delete;
  ~Folder();

  // A regular file directly in the folder. Errors: E905 (invalid) if there is none of that name, E906 (invalid) if it
  // is a symbolic link, folder, FIFO or the like, which is neither followed nor waited for; E901.
  Result<std::shared_ptr<const File>> open_file(std::string_view name) const;

  // Everything in the folder but "." and "..", sorted.
  Result<std::vector<std::string>> names() const;

 private:
  Folder(int descriptor, std::string path) : descriptor_(descriptor), path_(std::move(path)) {}
  int descriptor_;
  std::string path_;
};

}  // namespace rtx
