// A folder for the files of one test, removed with the object.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <system_error>

namespace rtx {

class TempFolder {
 public:
  TempFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "rtx-test-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) std::abort();
    path_ = pattern;
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(std::string_view name) const { return path_ + "/" + std::string(name); }
  // Writes a file into the folder and gives its path.
  std::string file(std::string_view name, std::string_view contents) const {
    const std::string path = *this / name;
    write(path, contents);
    return path;
  }
  static void write(const std::string& path, std::string_view contents) {
    std::ofstream(path, std::ios::binary) << contents;
  }

 private:
  std::string path_;
};

}  // namespace rtx
