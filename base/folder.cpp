#include "base/folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "base/text.h"

namespace rtx {
namespace {

Diagnostic system_error(std::string_view doing, int code) {
  return make_error(ErrorKind::io, "E901", concat("cannot ", doing, ": ", std::generic_category().message(code)));
}

}  // namespace

Result<Folder> Folder::open(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor >= 0) return Folder(descriptor, path);
  if (errno == ENOTDIR) return make_error(ErrorKind::invalid, "E904", "is not a folder").with_where(escape_text(path));
  return system_error("open the folder", errno).with_where(escape_text(path));
}

Folder::Folder(Folder&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), path_(std::move(other.path_)) {}

Folder::~Folder() {
  if (descriptor_ >= 0) close(descriptor_);
}

Result<std::shared_ptr<const File>> Folder::open_file(std::string_view name) const {
  if (name.empty() || name.find('/') != std::string_view::npos) {
    return make_error(ErrorKind::invalid, "E905", concat("there is no file ", quote_text(name)));
  }
  const int descriptor =
      openat(descriptor_, std::string(name).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY);
  if (descriptor < 0) {
    if (errno == ENOENT) return make_error(ErrorKind::invalid, "E905", concat("there is no file ", quote_text(name)));
    if (errno == ELOOP) return make_error(ErrorKind::invalid, "E906", concat(quote_text(name), " is a symbolic link"));
    return system_error(concat("open ", quote_text(name)), errno);
  }
  auto file = File::adopt(descriptor, concat(path_, "/", name));
  if (!file && file.error().first().id == "E314") {
    return make_error(ErrorKind::invalid, "E906", concat(quote_text(name), " is not a regular file"));
  }
  return file;
}

Result<std::vector<std::string>> Folder::names() const {
  // A description of its own: the position in the folder would be shared with a duplicate of the descriptor.
  const int copy = openat(descriptor_, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR* const stream = copy < 0 ? nullptr : fdopendir(copy);
  if (stream == nullptr) {
    const int code = errno;
    if (copy >= 0) close(copy);
    return system_error("list the folder", code);
  }
  std::vector<std::string> names;
  while (const dirent* const entry = readdir(stream)) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
  }
  closedir(stream);
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace rtx
