#include "frontend/external_data.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <vector>

#include "base/text.h"
#include "frontend/check_name.h"

namespace rtx::onnx {
namespace {

constexpr int open_flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;

// Closes on destruction.
class Descriptor {
 public:
  explicit Descriptor(int value = -1) : value_(value) {}
  Descriptor(Descriptor&& other) noexcept : value_(other.release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(value_, other.value_);
    return *this;
  }
  ~Descriptor() {
    if (value_ >= 0) ::close(value_);
  }
  int get() const { return value_; }
  int release() {
    const int value = value_;
    value_ = -1;
    return value;
  }

 private:
  int value_;
};

Diagnostic refuse(std::string_view id, std::string_view location, std::string why) {
  return make_error(ErrorKind::invalid, id, concat("external data '", escape_text(location), "' ", why));
}

Diagnostic system_error(std::string_view location, int error) {
  return make_error(ErrorKind::io, "E901",
                    concat("cannot open external data '", escape_text(location), "': ", std::strerror(error)));
}

// Splits at '/', leaving out empty and "." components.
std::vector<std::string> components(std::string_view path) {
  std::vector<std::string> parts;
  while (!path.empty()) {
    const size_t slash = path.find('/');
    const std::string_view part = path.substr(0, slash);
    if (!part.empty() && part != ".") parts.emplace_back(part);
    if (slash == std::string_view::npos) break;
    path.remove_prefix(slash + 1);
  }
  return parts;
}

// What can be said without the file system. The kernel would refuse most of it too; this names the reason.
Result<void> check_location(std::string_view location) {
  if (location.empty()) return refuse("E311", location, "has an empty location");
  if (std::string flaw = name_flaw(location); !flaw.empty())
    return refuse("E111", location, concat("has a bad location: ", flaw));
  if (location.substr(0, 2) == "*/")
    return refuse("E317", location, "is another runtime's marker for data in its own memory, which no file may hold");
  if (location.front() == '/') return refuse("E311", location, "has an absolute location");
  // Written on a machine with other rules for paths; here it would be one odd file name.
  if (location.find('\\') != std::string_view::npos || (location.size() > 1 && location[1] == ':'))
    return refuse("E311", location, "has a location that is not a relative path with '/' as separator");
  const std::vector<std::string> parts = components(location);
  if (parts.empty()) return refuse("E311", location, "names the folder of the model, not a file");
  for (const std::string& part : parts)
    if (part == "..") return refuse("E311", location, "leaves the folder of the model by '..'");
  if (location.back() == '/') return refuse("E314", location, "is not a regular file: the location ends in '/'");
  return Ok{};
}

int open_beneath(int folder, const std::string& path, uint64_t resolve) {
  open_how how{};
  how.flags = static_cast<uint64_t>(open_flags);
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | resolve;
  for (int attempt = 0;; ++attempt) {
    const long descriptor = ::syscall(SYS_openat2, folder, path.c_str(), &how, sizeof how);
    // EAGAIN: something was renamed while the kernel looked; worth another try.
    if (descriptor >= 0 || errno != EAGAIN || attempt == 8) return static_cast<int>(descriptor);
  }
}

// The same as open_beneath with RESOLVE_NO_SYMLINKS, for a path without "..".
int open_by_components(int folder, const std::vector<std::string>& parts) {
  Descriptor current;
  for (size_t i = 0; i < parts.size(); ++i) {
    const int from = i == 0 ? folder : current.get();
    const bool last = i + 1 == parts.size();
    const int flags = last ? open_flags | O_NOFOLLOW : O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    Descriptor next(::openat(from, parts[i].c_str(), flags));
    if (next.get() < 0) {
      // A link in the middle gives ENOTDIR; say what it is.
      struct stat info;
      const int error = errno;
      if (::fstatat(from, parts[i].c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(info.st_mode))
        errno = ELOOP;
      else
        errno = error;
      return -1;
    }
    current = std::move(next);
  }
  return current.release();
}

bool is_missing(int error) { return error == ENOSYS || error == EPERM; }

}  // namespace

Result<std::shared_ptr<const File>> ExternalFiles::open(const std::string& location) {
  if (auto known = files_.find(location); known != files_.end()) return known->second;
  RTX_ASSIGN(std::shared_ptr<const File> file, open_new(location));
  files_.emplace(location, file);
  if (__builtin_add_overflow(total_bytes_, file->size(), &total_bytes_)) total_bytes_ = INT64_MAX;
  return file;
}

Result<std::shared_ptr<const File>> ExternalFiles::open_new(const std::string& location) const {
  RTX_TRY(check_location(location));
  std::filesystem::path model_folder = std::filesystem::path(model_path_).parent_path();
  if (model_folder.empty()) model_folder = ".";

  // With links allowed, the confinement is to the folder the user named, and the model must lie in it.
  std::filesystem::path root = model_folder;
  std::string path = join(components(location), "/");
  if (!follow_within_.empty()) {
    std::error_code error;
    root = std::filesystem::canonical(follow_within_, error);
    if (error)
      return make_error(
          ErrorKind::usage, "E001",
          concat("--follow-symlinks-within: cannot open '", escape_text(follow_within_), "': ", error.message()));
    const std::filesystem::path real_folder = std::filesystem::canonical(model_folder, error);
    if (error) return system_error(location, error.value());
    const std::filesystem::path below = real_folder.lexically_relative(root);
    if (below.empty() || *below.begin() == "..")
      return refuse("E311", location, "cannot be used with --follow-symlinks-within: the model is outside that folder")
          .with_help("name a folder that holds both the model and its data");
    if (below != ".") path = (below / path).string();
  }

  const Descriptor folder(::open(root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (folder.get() < 0) return system_error(root.string(), errno);
  Descriptor descriptor;
  if (!without_openat2)
    descriptor = Descriptor(open_beneath(folder.get(), path, follow_within_.empty() ? RESOLVE_NO_SYMLINKS : 0));
  if (without_openat2 || (descriptor.get() < 0 && is_missing(errno))) {
    if (!follow_within_.empty())
      return refuse("E312", location, "cannot be opened: following links safely needs a kernel with openat2 (5.6)");
    descriptor = Descriptor(open_by_components(folder.get(), components(path)));
  }
  if (descriptor.get() < 0) {
    const int error = errno;
    if (error == ELOOP)
      return refuse("E312", location, "is or passes through a symbolic link")
          .with_help(follow_within_.empty()
                         ? "if you trust it, allow links inside a folder with --follow-symlinks-within DIR"
                         : "the links form a loop");
    if (error == EXDEV)
      return refuse("E311", location, concat("leads outside of '", escape_text(root.string()), "'"))
          .with_help(follow_within_.empty() ? ""
                                            : "links must be relative and stay inside --follow-symlinks-within DIR");
    if (error == ENXIO || error == ENODEV || error == EISDIR) return refuse("E314", location, "is not a regular file");
    return system_error(location, error);
  }

  struct stat info;
  if (::fstat(descriptor.get(), &info) != 0) return system_error(location, errno);
  if (!S_ISREG(info.st_mode)) return refuse("E314", location, "is not a regular file");
  if (info.st_nlink != 1)
    return refuse("E313", location, concat("has a hard link count of ", static_cast<int64_t>(info.st_nlink), ", not 1"))
        .with_help("another name of the file may lie outside the model's folder; make a copy");
  return File::adopt(descriptor.release(), (model_folder / location).string());
}

}  // namespace rtx::onnx
