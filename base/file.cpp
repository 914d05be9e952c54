#include "base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "base/text.h"

namespace rtx {
namespace {

// Linux transfers at most 0x7ffff000 bytes in one call.
constexpr size_t largest_transfer = size_t{1} << 30;

Diagnostic system_error(const std::string& path, std::string_view doing, int code) {
  return make_error(ErrorKind::io, "E901", concat("cannot ", doing, ": ", std::generic_category().message(code)))
      .with_where(escape_text(path));
}

// "a/b/" -> "a/b", so that the last component can be replaced.
std::string without_trailing_slashes(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

// A name beside `path` for attempt number `attempt`; the process id keeps concurrent writers apart.
std::string temporary_name(const std::string& path, int attempt) {
  const size_t slash = path.rfind('/');
  const size_t name = slash == std::string::npos ? 0 : slash + 1;
  return concat(path.substr(0, name), ".", path.substr(name), ".partial-", getpid(), "-", attempt);
}

// So that the new directory entry survives a crash; some file systems do not support it, which is no error.
void sync_folder(const std::string& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;
  fsync(descriptor);
  close(descriptor);
}

}  // namespace

File::File(int descriptor, std::string path, int64_t size)
    : descriptor_(descriptor), path_(std::move(path)), size_(size) {}

File::~File() { close(descriptor_); }

Result<std::shared_ptr<const File>> File::open(const std::string& path) {
  int descriptor;
  do {
    // O_NONBLOCK: opening a FIFO without a writer must not hang. It has no effect on regular files.
    descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  } while (descriptor < 0 && errno == EINTR);
  if (descriptor < 0) return system_error(path, "open the file", errno);
  return adopt(descriptor, path);
}

Result<std::shared_ptr<const File>> File::adopt(int descriptor, std::string path) {
  struct stat status;
  if (fstat(descriptor, &status) != 0) {
    const int code = errno;
    close(descriptor);
    return system_error(path, "examine the file", code);
  }
  if (!S_ISREG(status.st_mode)) {
    close(descriptor);
    return make_error(ErrorKind::invalid, "E314", S_ISDIR(status.st_mode) ? "is a folder" : "is not a regular file")
        .with_where(escape_text(path))
        .with_expected("a regular file");
  }
  return std::shared_ptr<const File>(new File(descriptor, std::move(path), status.st_size));
}

Result<void> File::read(int64_t offset, std::span<std::byte> buffer) const {
  if (offset < 0 || offset > size_ || buffer.size() > static_cast<uint64_t>(size_ - offset)) {
    return make_error(ErrorKind::io, "E902", "read past the end of the file")
        .with_where(escape_text(path_))
        .with_expected(concat(buffer.size(), " bytes at offset ", offset))
        .with_got(concat("a file of ", size_, " bytes"));
  }
  while (!buffer.empty()) {
    const ssize_t count = pread(descriptor_, buffer.data(), std::min(buffer.size(), largest_transfer), offset);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return system_error(path_, "read the file", errno);
    if (count == 0) {
      return make_error(ErrorKind::io, "E902", "the file became shorter while it was read")
          .with_where(escape_text(path_))
          .with_expected(concat(size_, " bytes, its size when it was opened"))
          .with_got(concat("its end at offset ", offset));
    }
    offset += count;
    buffer = buffer.subspan(static_cast<size_t>(count));
  }
  return Ok{};
}

Result<std::string> read_text_file(const std::string& path, int64_t max_bytes) {
  RTX_ASSIGN(const auto file, File::open(path));
  if (file->size() > max_bytes) {
    return make_error(ErrorKind::limit, "E501", "the file is too large")
        .with_where(escape_text(path))
        .with_expected(concat("at most ", max_bytes, " bytes"))
        .with_got(concat(file->size(), " bytes"));
  }
  std::string text(static_cast<size_t>(file->size()), '\0');
  RTX_TRY(file->read(0, std::as_writable_bytes(std::span(text))));
  return text;
}

Result<std::unique_ptr<FileWriter>> FileWriter::create(const std::string& path) {
  std::unique_ptr<FileWriter> writer(new FileWriter);
  writer->path_ = path;
  for (int attempt = 0; attempt < 1000; ++attempt) {
    std::string name = temporary_name(path, attempt);
    writer->descriptor_ = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (writer->descriptor_ >= 0) {
      writer->temporary_ = std::move(name);
      return writer;
    }
    if (errno != EEXIST && errno != EINTR) break;
  }
  return system_error(path, "create the file", errno);
}

FileWriter::~FileWriter() {
  if (descriptor_ >= 0) close(descriptor_);
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

Result<void> FileWriter::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(descriptor_, bytes.data(), std::min(bytes.size(), largest_transfer));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return system_error(path_, "write the file", errno);
    bytes = bytes.subspan(static_cast<size_t>(count));
    start_writing_back(count);
  }
  return Ok{};
}

// Large files go to the disk while they are being written, so that the fsync at the end waits for little. A hint.
void FileWriter::start_writing_back(int64_t written) {
  constexpr int64_t piece = int64_t{32} << 20;
  unstarted_ += written;
  if (unstarted_ < piece) return;
  sync_file_range(descriptor_, started_, unstarted_, SYNC_FILE_RANGE_WRITE);
  started_ += unstarted_;
  unstarted_ = 0;
}

Result<void> FileWriter::write(std::string_view text) { return write(std::as_bytes(std::span(text))); }

Result<void> FileWriter::commit(bool durable) {
  if (durable && fsync(descriptor_) != 0 && errno != EINVAL && errno != EROFS) {
    return system_error(path_, "write the file", errno);
  }
  const int descriptor = descriptor_;
  descriptor_ = -1;
  // A network file system may report a failed write only here.
  if (close(descriptor) != 0 && errno != EINTR) return system_error(path_, "write the file", errno);
  if (rename(temporary_.c_str(), path_.c_str()) != 0) return system_error(path_, "replace the file", errno);
  temporary_.clear();
  if (durable) sync_folder(folder_of(path_));
  return Ok{};
}

Result<void> write_file(const std::string& path, std::string_view contents) {
  RTX_ASSIGN(const auto writer, FileWriter::create(path));
  RTX_TRY(writer->write(contents));
  return writer->commit();
}

Result<std::unique_ptr<FolderWriter>> FolderWriter::create(const std::string& path,
                                                           std::function<bool(const std::string&)> may_replace) {
  std::unique_ptr<FolderWriter> writer(new FolderWriter);
  writer->path_ = without_trailing_slashes(path);
  writer->may_replace_ = std::move(may_replace);
  RTX_TRY(writer->check_replaceable());  // before the work of filling it, and again on commit
  for (int attempt = 0; attempt < 1000; ++attempt) {
    std::string name = temporary_name(writer->path_, attempt);
    if (mkdir(name.c_str(), 0777) == 0) {
      writer->temporary_ = std::move(name);
      return writer;
    }
    if (errno != EEXIST) break;
  }
  return system_error(path, "create the folder", errno);
}

FolderWriter::~FolderWriter() {
  std::error_code ignored;
  if (!temporary_.empty()) std::filesystem::remove_all(temporary_, ignored);
}

Result<void> FolderWriter::check_replaceable() const {
  struct stat status;
  if (lstat(path_.c_str(), &status) != 0) {
    if (errno == ENOENT) return Ok{};
    return system_error(path_, "examine the folder", errno);
  }
  if (S_ISDIR(status.st_mode) && may_replace_(path_)) return Ok{};
  return make_error(ErrorKind::io, "E903",
                    S_ISDIR(status.st_mode) ? "the folder exists and holds other files" : "exists and is not a folder")
      .with_where(escape_text(path_))
      .with_help("name another output, or remove this one first");
}

Result<void> FolderWriter::commit() {
  RTX_TRY(check_replaceable());
  const char* const from = temporary_.c_str();
  if (rename(from, path_.c_str()) != 0) {
    // A folder with files is in the way. Swap the two in one step; the older one is then removed by the destructor.
    if (errno != ENOTEMPTY && errno != EEXIST) return system_error(path_, "create the folder", errno);
    if (renameat2(AT_FDCWD, from, AT_FDCWD, path_.c_str(), RENAME_EXCHANGE) != 0) {
      // Not every file system can swap.
      const std::string older = temporary_ + ".older";
      if (rename(path_.c_str(), older.c_str()) != 0) return system_error(path_, "replace the folder", errno);
      if (rename(from, path_.c_str()) != 0) {
        const int code = errno;
        rename(older.c_str(), path_.c_str());
        return system_error(path_, "replace the folder", code);
      }
      temporary_ = older;
    }
  } else {
    temporary_.clear();
  }
  sync_folder(folder_of(path_));
  return Ok{};
}

}  // namespace rtx
