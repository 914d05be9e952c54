// .npz: a zip archive of .npy members. PKWARE APPNOTE 6.3.10, sections 4.3 to 4.5; zip64 is read and written.
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <set>

#include "base/npy.h"
#include "base/npy_stream.h"
#include "base/text.h"
#include "base/utf8.h"

namespace rtx {
namespace {

constexpr uint32_t local_signature = 0x04034b50, central_signature = 0x02014b50, end_signature = 0x06054b50,
                   zip64_end_signature = 0x06064b50, zip64_locator_signature = 0x07064b50;
constexpr int64_t local_bytes = 30, central_bytes = 46, end_bytes = 22, zip64_end_bytes = 56, zip64_locator_bytes = 20;
constexpr uint32_t saturated32 = 0xFFFFFFFF;
constexpr uint16_t saturated16 = 0xFFFF;
constexpr int64_t largest_directory = int64_t{256} << 20;
// A deflate block spends at least one bit on a match of at most 258 bytes and another on its distance.
constexpr int64_t largest_inflation = 1040;
constexpr std::string_view suffix = ".npy";
constexpr uint16_t dos_date_1980 = 0x21;  // 1980-01-01, the least there is

Diagnostic bad_zip(std::string message) { return make_error(ErrorKind::invalid, "E644", std::move(message)); }

uint64_t get(std::string_view bytes, size_t offset, int width) {
  uint64_t value = 0;
  for (int i = width; i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[offset + static_cast<size_t>(i)]);
  return value;
}

void put(std::string& out, uint64_t value, int width) {
  for (int i = 0; i < width; ++i) out += static_cast<char>(value >> (8 * i) & 0xFF);
}

Result<std::string> read_string(const File& file, int64_t offset, int64_t bytes) {
  if (offset < 0 || bytes < 0 || offset > file.size() || bytes > file.size() - offset) {
    return bad_zip("the archive points past its end");
  }
  std::string text(static_cast<size_t>(bytes), '\0');
  RTX_TRY(file.read(offset, std::as_writable_bytes(std::span(text))));
  return text;
}

uint32_t checksum(uint32_t crc, std::span<const std::byte> bytes) {
  if (bytes.empty()) return crc;  // zlib takes a null pointer as "start again"
  return static_cast<uint32_t>(crc32_z(crc, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

// The bytes of a stored or deflated member, with their CRC.
class MemberSource final : public ByteSource {
 public:
  MemberSource(const File& file, int64_t offset, int64_t stored_bytes, bool deflated)
      : file_(file), offset_(offset), left_(stored_bytes), deflated_(deflated) {
    if (deflated_) {
      input_.resize(static_cast<size_t>(std::min<int64_t>(left_, 64 << 10)));
      ready_ = inflateInit2(&stream_, -MAX_WBITS) == Z_OK;
    }
  }
  ~MemberSource() override {
    if (deflated_ && ready_) inflateEnd(&stream_);
  }
  MemberSource(const MemberSource&) = delete;

  Result<void> read(std::span<std::byte> buffer) override {
    if (deflated_) {
      RTX_TRY(inflate_into(buffer));
    } else {
      RTX_TRY(read_stored(buffer));
    }
    crc_ = checksum(crc_, buffer);
    return Ok{};
  }

  uint32_t crc() const { return crc_; }
  // True when the data ends exactly here.
  bool at_end() {
    if (!deflated_) return left_ == 0;
    std::byte extra;
    while (!ended_) {
      if (!inflate_some(std::span(&extra, 1)) || stream_.avail_out == 0) return false;
    }
    return left_ == 0 && stream_.avail_in == 0;
  }

 private:
  Result<void> read_stored(std::span<std::byte> buffer) {
    if (static_cast<int64_t>(buffer.size()) > left_) return bad_zip("a member is shorter than the archive says");
    RTX_TRY(file_.read(offset_, buffer));
    offset_ += static_cast<int64_t>(buffer.size());
    left_ -= static_cast<int64_t>(buffer.size());
    return Ok{};
  }

  // One call of zlib; false if it cannot go on.
  bool inflate_some(std::span<std::byte> out) {
    if (!ready_) return false;
    if (stream_.avail_in == 0 && left_ > 0) {
      const auto piece =
          std::span(input_).first(static_cast<size_t>(std::min<int64_t>(left_, static_cast<int64_t>(input_.size()))));
      if (!file_.read(offset_, piece)) return false;
      offset_ += static_cast<int64_t>(piece.size());
      left_ -= static_cast<int64_t>(piece.size());
      stream_.next_in = reinterpret_cast<Bytef*>(piece.data());
      stream_.avail_in = static_cast<uInt>(piece.size());
    }
    stream_.next_out = reinterpret_cast<Bytef*>(out.data());
    stream_.avail_out = static_cast<uInt>(out.size());
    const int code = inflate(&stream_, Z_NO_FLUSH);
    ended_ = code == Z_STREAM_END;
    return code == Z_OK || ended_;
  }

  Result<void> inflate_into(std::span<std::byte> buffer) {
    while (!buffer.empty()) {
      const auto piece = buffer.first(std::min(buffer.size(), size_t{1} << 30));
      if (ended_ || !inflate_some(piece)) return bad_zip("the compressed data of a member is damaged or too short");
      buffer = buffer.subspan(piece.size() - stream_.avail_out);
    }
    return Ok{};
  }

  const File& file_;
  int64_t offset_;
  int64_t left_;
  bool deflated_;
  bool ready_ = true;
  bool ended_ = false;
  uint32_t crc_ = 0;
  std::vector<std::byte> input_;
  z_stream stream_{};
};

struct Directory {
  uint64_t entries = 0, bytes = 0, offset = 0;
  int64_t end = 0;  // where it must end
};

// Finds the end record, which a comment of up to 64 KiB may follow, and the zip64 one before it.
Result<Directory> find_directory(const File& file) {
  const int64_t tail_bytes = std::min<int64_t>(file.size(), end_bytes + 0xFFFF);
  const int64_t tail_start = file.size() - tail_bytes;
  RTX_ASSIGN(const std::string tail, read_string(file, tail_start, tail_bytes));
  int64_t found = -1;
  for (int64_t i = tail_bytes - end_bytes; i >= 0 && found < 0; --i) {
    const auto at = static_cast<size_t>(i);
    if (get(tail, at, 4) == end_signature && static_cast<int64_t>(get(tail, at + 20, 2)) == tail_bytes - i - end_bytes)
      found = i;
  }
  if (found < 0) return bad_zip("not a .npz file (no end of a zip directory in it)");
  const auto at = static_cast<size_t>(found);
  Directory directory = {get(tail, at + 10, 2), get(tail, at + 12, 4), get(tail, at + 16, 4), tail_start + found};
  const bool split = get(tail, at + 4, 2) != 0 || get(tail, at + 6, 2) != 0;
  if (directory.entries == saturated16 || directory.bytes == saturated32 || directory.offset == saturated32) {
    RTX_ASSIGN(const std::string locator, read_string(file, directory.end - zip64_locator_bytes, zip64_locator_bytes));
    if (get(locator, 0, 4) == zip64_locator_signature) {
      directory.end = static_cast<int64_t>(get(locator, 8, 8));
      RTX_ASSIGN(const std::string end, read_string(file, directory.end, zip64_end_bytes));
      if (get(end, 0, 4) != zip64_end_signature) return bad_zip("the zip64 directory is missing");
      directory.entries = get(end, 32, 8);
      directory.bytes = get(end, 40, 8);
      directory.offset = get(end, 48, 8);
    }
  }
  if (split) return make_error(ErrorKind::unsupported, "E646", "the archive is split over several files");
  if (directory.bytes > static_cast<uint64_t>(directory.end) ||
      directory.offset != static_cast<uint64_t>(directory.end) - directory.bytes) {
    return bad_zip("the zip directory is not where the archive says");
  }
  return directory;
}

// The zip64 sizes of an entry stand in this order, each only if its 32-bit field is saturated.
Result<void> read_zip64_extra(std::string_view extra, std::array<uint64_t*, 3> fields) {
  for (size_t i = 0; i + 4 <= extra.size();) {
    const uint64_t id = get(extra, i, 2), size = get(extra, i + 2, 2);
    if (size > extra.size() - i - 4) return bad_zip("an extra field is longer than its entry");
    if (id == 1) {
      size_t position = i + 4;
      for (uint64_t* field : fields) {
        if (*field != saturated32) continue;
        if (position + 8 > i + 4 + size) return bad_zip("a zip64 field is too short");
        *field = get(extra, position, 8);
        position += 8;
      }
      return Ok{};
    }
    i += 4 + size;
  }
  return Ok{};
}

}  // namespace

Result<std::unique_ptr<NpzFile>> NpzFile::open(std::shared_ptr<const File> file, const NpyLimits& limits) {
  std::unique_ptr<NpzFile> npz(new NpzFile(std::move(file), limits));
  if (auto read = npz->read_directory(); !read) return std::move(read).error().within(escape_text(npz->file_->path()));
  return npz;
}

Result<NpzFile::Entry> NpzFile::parse_directory_entry(std::string_view directory, size_t& position,
                                                      int64_t directory_offset) const {
  if (directory.size() - position < central_bytes || get(directory, position, 4) != central_signature) {
    return bad_zip("an entry of the zip directory is damaged");
  }
  const uint64_t flags = get(directory, position + 8, 2), method = get(directory, position + 10, 2);
  const size_t name_bytes = get(directory, position + 28, 2), extra_bytes = get(directory, position + 30, 2),
               comment_bytes = get(directory, position + 32, 2);
  uint64_t stored = get(directory, position + 20, 4), bytes = get(directory, position + 24, 4),
           offset = get(directory, position + 42, 4);
  Entry entry;
  entry.crc = static_cast<uint32_t>(get(directory, position + 16, 4));
  position += central_bytes;
  if (directory.size() - position < name_bytes + extra_bytes + comment_bytes)
    return bad_zip("an entry of the zip directory is damaged");
  std::string_view name = directory.substr(position, name_bytes);
  RTX_TRY(read_zip64_extra(directory.substr(position + name_bytes, extra_bytes), {&bytes, &stored, &offset}));
  position += name_bytes + extra_bytes + comment_bytes;

  if (!is_utf8(name) || !name.ends_with(suffix))
    return bad_zip(concat("the member ", quote_text(name), " is not a .npy file"));
  if ((flags & 1) != 0 || (method != 0 && method != 8)) {
    return make_error(ErrorKind::unsupported, "E646",
                      (flags & 1) != 0 ? concat("the member ", quote_text(name), " is encrypted")
                                       : concat("the member ", quote_text(name), " is compressed by method ", method))
        .with_expected("stored (0) or deflated (8), not encrypted");
  }
  entry.name = name.substr(0, name.size() - suffix.size());
  entry.deflated = method == 8;
  const auto limit = static_cast<uint64_t>(directory_offset);
  if (offset > limit || stored > limit - offset || (!entry.deflated && bytes != stored) ||
      (entry.deflated && bytes / largest_inflation > stored + 1)) {
    return bad_zip(concat("the sizes of the member ", quote_text(name), " are impossible"));
  }
  entry.header_offset = static_cast<int64_t>(offset);
  entry.stored_bytes = static_cast<int64_t>(stored);
  entry.bytes = static_cast<int64_t>(bytes);
  return entry;
}

Result<void> NpzFile::read_directory() {
  RTX_ASSIGN(const Directory directory, find_directory(*file_));
  if (directory.entries > static_cast<uint64_t>(limits_.entries) || directory.bytes > largest_directory) {
    return make_error(ErrorKind::limit, "E506", "the archive has too many members")
        .with_expected(concat("at most ", limits_.entries))
        .with_got(concat(directory.entries, " members in a directory of ", directory.bytes, " bytes"));
  }
  RTX_ASSIGN(const std::string text,
             read_string(*file_, static_cast<int64_t>(directory.offset), static_cast<int64_t>(directory.bytes)));
  size_t position = 0;
  for (uint64_t i = 0; i < directory.entries; ++i) {
    RTX_ASSIGN(Entry entry, parse_directory_entry(text, position, static_cast<int64_t>(directory.offset)));
    entries_.push_back(std::move(entry));
  }
  if (position != text.size()) return bad_zip("the zip directory has bytes after its last entry");
  std::set<std::string_view> names;
  for (const Entry& entry : entries_) {
    if (!names.insert(entry.name).second) return bad_zip(concat("the array ", quote_text(entry.name), " stands twice"));
  }
  return Ok{};
}

std::vector<std::string> NpzFile::names() const {
  std::vector<std::string> names;
  for (const Entry& entry : entries_) names.push_back(entry.name);
  return names;
}

bool NpzFile::contains(std::string_view name) const {
  return std::any_of(entries_.begin(), entries_.end(), [&](const Entry& entry) { return entry.name == name; });
}

Result<NpyArray> NpzFile::read(std::string_view name, std::optional<DType> as) const {
  const std::string where = concat(escape_text(file_->path()), ": array ", quote_text(name));
  const auto entry = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& e) { return e.name == name; });
  if (entry == entries_.end()) {
    return bad_zip("the file has no such array").with_where(where).with_got(join(entries_, ", ", [](const Entry& e) {
      return escape_text(e.name, 60);
    }));
  }
  auto read_member = [&]() -> Result<NpyArray> {
    RTX_ASSIGN(const std::string local, read_string(*file_, entry->header_offset, local_bytes));
    const auto name_bytes = static_cast<int64_t>(get(local, 26, 2)),
               extra_bytes = static_cast<int64_t>(get(local, 28, 2));
    RTX_ASSIGN(const std::string local_name, read_string(*file_, entry->header_offset + local_bytes, name_bytes));
    const int64_t data = entry->header_offset + local_bytes + name_bytes + extra_bytes;
    if (get(local, 0, 4) != local_signature || local_name != entry->name + std::string(suffix) ||
        data > file_->size() || entry->stored_bytes > file_->size() - data) {
      return bad_zip("the member does not match the zip directory");
    }
    MemberSource source(*file_, data, entry->stored_bytes, entry->deflated);
    RTX_ASSIGN(NpyArray array, read_npy_stream(source, entry->bytes, as, limits_));
    if (!source.at_end()) return bad_zip("the member is longer than the archive says");
    if (source.crc() != entry->crc) {
      return make_error(ErrorKind::invalid, "E645", "the checksum of the array's data is wrong; the file is damaged");
    }
    return array;
  };
  auto array = read_member();
  if (!array) return std::move(array).error().within(where);
  return array;
}

Result<void> write_npz(const std::string& path, std::span<const std::pair<std::string, const NpyArray*>> arrays) {
  RTX_ASSIGN(const auto writer, FileWriter::create(path));
  std::string directory;
  std::set<std::string_view> names;
  uint64_t offset = 0;
  for (const auto& [array_name, array] : arrays) {
    const std::string name = array_name + std::string(suffix);
    if (!is_utf8(name) || name.size() > saturated16 || !names.insert(array_name).second) {
      return bad_zip(concat("the array name ", quote_text(array_name), " is not UTF-8, too long or used twice"));
    }
    RTX_ASSIGN(const std::string header, npy_header(*array));
    std::vector<std::byte> storage;
    const auto elements = npy_elements(*array, storage);
    const uint64_t bytes = header.size() + elements.size();
    const uint32_t crc = checksum(checksum(0, std::as_bytes(std::span(header))), elements);
    const bool big = bytes >= saturated32, far = offset >= saturated32;

    // What the local header and the directory have in common, from "version needed" to the sizes.
    std::string common;
    put(common, big || far ? 45 : 20, 2);
    put(common, 1 << 11, 2);  // the name is UTF-8
    put(common, 0, 2);        // stored
    put(common, 0, 2);
    put(common, dos_date_1980, 2);
    put(common, crc, 4);
    put(common, big ? saturated32 : bytes, 4);
    put(common, big ? saturated32 : bytes, 4);
    put(common, name.size(), 2);

    std::string local;
    put(local, local_signature, 4);
    local += common;
    put(local, big ? 20 : 0, 2);
    local += name;
    if (big) {
      put(local, 1, 2);
      put(local, 16, 2);
      put(local, bytes, 8);
      put(local, bytes, 8);
    }
    put(directory, central_signature, 4);
    put(directory, 45, 2);
    directory += common;
    put(directory, big || far ? 4 + (big ? 16 : 0) + (far ? 8 : 0) : 0, 2);
    put(directory, 0, 2 + 2 + 2);  // comment, disk, internal attributes
    put(directory, 0, 4);          // external attributes
    put(directory, far ? saturated32 : offset, 4);
    directory += name;
    if (big || far) {
      put(directory, 1, 2);
      put(directory, (big ? 16 : 0) + (far ? 8 : 0), 2);
      if (big) {
        put(directory, bytes, 8);
        put(directory, bytes, 8);
      }
      if (far) put(directory, offset, 8);
    }
    RTX_TRY(writer->write(local));
    RTX_TRY(writer->write(header));
    RTX_TRY(writer->write(elements));
    offset += local.size() + bytes;
  }
  std::string end;
  if (arrays.size() >= saturated16 || offset >= saturated32 || directory.size() >= saturated32) {
    put(end, zip64_end_signature, 4);
    put(end, zip64_end_bytes - 12, 8);
    put(end, 45, 2);
    put(end, 45, 2);
    put(end, 0, 4);
    put(end, 0, 4);
    put(end, arrays.size(), 8);
    put(end, arrays.size(), 8);
    put(end, directory.size(), 8);
    put(end, offset, 8);
    put(end, zip64_locator_signature, 4);
    put(end, 0, 4);
    put(end, offset + directory.size(), 8);
    put(end, 1, 4);
  }
  put(end, end_signature, 4);
  put(end, 0, 4);
  put(end, std::min<uint64_t>(arrays.size(), saturated16), 2);
  put(end, std::min<uint64_t>(arrays.size(), saturated16), 2);
  put(end, std::min<uint64_t>(directory.size(), saturated32), 4);
  put(end, std::min<uint64_t>(offset, saturated32), 4);
  put(end, 0, 2);
  RTX_TRY(writer->write(directory));
  RTX_TRY(writer->write(end));
  return writer->commit();
}

}  // namespace rtx
