// Files: bounded reads from an open descriptor, and writes that appear whole or not at all.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace rtx {

// Bytes that are read by their place, by any thread: a file, or what is decoded from one.
class RangeSource {
 public:
  virtual ~RangeSource() = default;
  // Exactly buffer.size() bytes at `offset`, or an error.
  virtual Result<void> read(int64_t offset, std::span<std::byte> buffer) const = 0;
};

// An open regular file that is only read. Reads go through pread: any thread, no shared position. Never mapped.
class File : public RangeSource {
 public:
  // Errors: E901 (io) with the system's reason; E314 (invalid) if it is not a regular file.
  static Result<std::shared_ptr<const File>> open(const std::string& path);
  // Takes over an open descriptor (the confined opener of external data uses this).
  static Result<std::shared_ptr<const File>> adopt(int descriptor, std::string path);
  ~File() override;
  File(const File&) = delete;

  const std::string& path() const { return path_; }
  int64_t size() const { return size_; }
  // Exactly buffer.size() bytes at `offset`, or an error (a file that shrank is one: E902).
  Result<void> read(int64_t offset, std::span<std::byte> buffer) const override;
  int descriptor() const { return descriptor_; }

 private:
  File(int descriptor, std::string path, int64_t size);
  int descriptor_;
  std::string path_;
  int64_t size_;
};

// The whole of a file, refused above `max_bytes` (E501 limit).
Result<std::string> read_text_file(const std::string& path, int64_t max_bytes);

// A file that is being written beside its final place (same folder, temporary name) and appears there on commit().
// Destroyed without commit, it leaves nothing.
class FileWriter {
 public:
  static Result<std::unique_ptr<FileWriter>> create(const std::string& path);
  ~FileWriter();
  Result<void> write(std::span<const std::byte> bytes);
  Result<void> write(std::string_view text);
  // Renames the file to its final name. `durable`: fsyncs it first, so that a crash leaves the old or the new contents.
  Result<void> commit(bool durable = true);

 private:
  FileWriter() = default;
  void start_writing_back(int64_t written);
  int descriptor_ = -1;
  std::string path_, temporary_;
  int64_t started_ = 0, unstarted_ = 0;  // bytes that the system was told to write to the disk, and those after them
};

Result<void> write_file(const std::string& path, std::string_view contents);

// A folder that is filled beside its final place and appears there, replacing an older one, on commit(). Destroyed
// without commit, it leaves nothing. Refuses (E903) to replace a folder for which `may_replace(path)` is false.
class FolderWriter {
 public:
  static Result<std::unique_ptr<FolderWriter>> create(const std::string& path,
                                                      std::function<bool(const std::string&)> may_replace);
  ~FolderWriter();
  // The folder to fill.
  const std::string& path() const { return temporary_; }
  Result<void> commit();

 private:
  FolderWriter() = default;
  Result<void> check_replaceable() const;
  std::string path_, temporary_;
  std::function<bool(const std::string&)> may_replace_;
};

}  // namespace rtx
