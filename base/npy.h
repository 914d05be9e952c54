// Arrays in numpy's files: .npy (format versions 1.0 to 3.0) and .npz (a zip of them, stored or deflated).
// https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html and PKWARE's APPNOTE 6.3.10.
//
// Little-endian only. f64 f32 f16 i64 i32 i16 i8 u8 and bool are numpy's own. bf16 and f8 have no numpy type and stand
// as raw bytes ("<V2", "|V1", what ml_dtypes writes); u4 and i4 stand one to a byte ("|u1", "|i1"). Such types are read
// only when the caller names them. u16, u32, u64 and everything else numpy has are refused by name.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/dtype.h"
#include "base/file.h"
#include "base/result.h"

namespace rtx {

struct NpyArray {
  DType dtype = DType::f32;
  std::vector<int64_t> shape;
  std::vector<std::byte> bytes;  // C order, tightly packed as base/dtype.h says
};

// What files may ask for before they are refused (E506).
struct NpyLimits {
  int64_t array_bytes = int64_t{16} << 30;  // of one array
  int64_t entries = 100'000;                // of one .npz
};

// `as` reads the elements as that type, which must be the file's own or one that numpy lacks and that has the file's
// element size. Errors: E641 (not .npy or not well formed), E642 (a type or byte order that rtx does not read),
// E643 (size), with `file.path()`.
Result<NpyArray> read_npy(const File& file, std::optional<DType> as = {}, const NpyLimits& limits = {});

// Writes format version 1.0, through FileWriter.
Result<void> write_npy(const std::string& path, const NpyArray& array);

// An open .npz. Names are those of the arrays, without ".npy". Errors: E644 (structure), E645 (checksum), E646
// (encryption, a compression method other than deflate), and those of read_npy.
class NpzFile {
 public:
  static Result<std::unique_ptr<NpzFile>> open(std::shared_ptr<const File> file, const NpyLimits& limits = {});
  // In the order of the file.
  std::vector<std::string> names() const;
  bool contains(std::string_view name) const;
  // A name that is not there is E644.
  Result<NpyArray> read(std::string_view name, std::optional<DType> as = {}) const;

 private:
  struct Entry {
    std::string name;
    bool deflated = false;
    uint32_t crc = 0;
    int64_t header_offset = 0, stored_bytes = 0, bytes = 0;
  };
  NpzFile(std::shared_ptr<const File> file, const NpyLimits& limits) : file_(std::move(file)), limits_(limits) {}
  Result<void> read_directory();
  Result<Entry> parse_directory_entry(std::string_view directory, size_t& position, int64_t directory_offset) const;
  std::shared_ptr<const File> file_;
  NpyLimits limits_;
  std::vector<Entry> entries_;
};

// Writes the arrays stored, in the given order, with a fixed time stamp: equal arrays give equal bytes.
Result<void> write_npz(const std::string& path, std::span<const std::pair<std::string, const NpyArray*>> arrays);

}  // namespace rtx
