#include "frontend/typed_data.h"

#include <algorithm>
#include <cstring>

#include "base/text.h"

namespace rtx::onnx {
namespace {

constexpr int64_t elements_per_place = 1 << 14;
constexpr int64_t piece_bytes = 64 << 10;

}  // namespace

// Walks the fields of the tensor's message. The scan found them well-formed, but the file may have changed since.
class TypedData::Cursor {
 public:
  Cursor(const TypedData& source, Place place) : source_(source), place_(place) {}

  Place place() const { return place_; }
  // Why a call returned false.
  Error error() && { return *std::move(error_); }

  // The next element as the number that is stored.
  bool next(uint64_t& value) {
    if (place_.list_end == 0 && !find_entry()) return false;
    const FieldKind kind = source_.element_.kind;
    if (kind == FieldKind::varint) {
      if (!varint(value)) return false;
      if (source_.element_.is_int32) value = static_cast<uint64_t>(int64_t{static_cast<int32_t>(value)});
    } else {
      value = 0;
      for (int shift = 0; shift < (kind == FieldKind::fixed32 ? 32 : 64); shift += 8) {
        uint8_t part = 0;
        if (!byte(part)) return false;
        value |= uint64_t{part} << shift;
      }
    }
    if (place_.position >= place_.list_end) place_.list_end = 0;
    return true;
  }

  // Moves to the next number or nonempty list of the field.
  bool find_entry() {
    while (true) {
      uint64_t tag, length = 0;
      if (!varint(tag)) return false;
      const auto wire = static_cast<WireType>(tag & 7);
      const bool is_entry = tag >> 3 == static_cast<uint64_t>(source_.data_.field);
      if (is_entry && wire == wire_type_of(source_.element_.kind)) {
        place_.list_end = place_.position + 1;  // a list of one number
        return true;
      }
      if (wire == WireType::varint && !varint(length)) return false;
      if (wire == WireType::varint) length = 0;
      if (wire == WireType::fixed32) length = 4;
      if (wire == WireType::fixed64) length = 8;
      if (wire == WireType::bytes && !varint(length)) return false;
      if (length > static_cast<uint64_t>(end() - place_.position)) return changed();
      if (is_entry && length > 0) {
        place_.list_end = place_.position + static_cast<int64_t>(length);
        return true;
      }
      place_.position += static_cast<int64_t>(length);
    }
  }

 private:
  int64_t end() const { return source_.data_.range.offset + source_.data_.range.bytes; }

  bool changed() {
    error_ = make_error(ErrorKind::io, "E902", "the file was changed while it was read")
                 .with_where(escape_text(source_.file_->path()));
    return false;
  }

  bool byte(uint8_t& value) {
    if (place_.position < piece_start_ || place_.position >= piece_end_) {
      if (place_.position >= end()) return changed();
      const int64_t size = std::min(piece_bytes, end() - place_.position);
      piece_.resize(static_cast<size_t>(size));
      if (Result<void> read = source_.file_->read(place_.position, piece_); !read) {
        error_ = std::move(read).error();
        return false;
      }
      piece_start_ = place_.position;
      piece_end_ = piece_start_ + size;
    }
    value = static_cast<uint8_t>(piece_[static_cast<size_t>(place_.position++ - piece_start_)]);
    return true;
  }

  bool varint(uint64_t& value) {
    value = 0;
    for (int shift = 0; shift < 70; shift += 7) {
      uint8_t part = 0;
      if (!byte(part)) return false;
      value |= uint64_t{part & 0x7fu} << shift;
      if (part < 0x80) return true;
    }
    return changed();
  }

  const TypedData& source_;
  Place place_;
  std::vector<std::byte> piece_;
  int64_t piece_start_ = 0, piece_end_ = 0;
  std::optional<Error> error_;
};

Result<std::shared_ptr<const TypedData>> TypedData::open(std::shared_ptr<const File> file, const ScannedData& data,
                                                         const TypedElement& element) {
  std::shared_ptr<TypedData> result(new TypedData);
  result->file_ = std::move(file);
  result->data_ = data;
  result->element_ = element;
  Cursor cursor(*result, {data.range.offset, 0});
  if (!cursor.find_entry()) return std::move(cursor).error();
  result->places_.push_back(cursor.place());
  if (result->file_offset()) return std::shared_ptr<const TypedData>(std::move(result));
  for (int64_t i = 0; i < data.elements; ++i) {
    if (i > 0 && i % elements_per_place == 0) result->places_.push_back(cursor.place());
    uint64_t bits;
    if (!cursor.next(bits)) return std::move(cursor).error();
    const int64_t value = static_cast<int64_t>(bits);
    if (value < element.lowest || value > element.highest)
      return make_error(ErrorKind::invalid, "E305", concat("[", i, "] is out of range"))
          .with_expected(concat(element.lowest, " to ", element.highest))
          .with_got(element.is_int32 ? std::to_string(value) : std::to_string(bits));
  }
  return std::shared_ptr<const TypedData>(std::move(result));
}

std::optional<int64_t> TypedData::file_offset() const {
  if (element_.kind == FieldKind::varint) return std::nullopt;
  const Place& first = places_.front();
  if (first.list_end - first.position != data_.elements * element_.width) return std::nullopt;
  return first.position;
}

Result<void> TypedData::read(int64_t offset, std::span<std::byte> buffer) const {
  const int64_t width = element_.width;
  const int64_t end = offset + static_cast<int64_t>(buffer.size());
  if (offset < 0 || end > data_.elements * width)
    return make_error(ErrorKind::io, "E902", "read past the end of a tensor").with_where(escape_text(file_->path()));
  if (buffer.empty()) return Ok{};
  if (const std::optional<int64_t> start = file_offset()) return file_->read(*start + offset, buffer);
  const int64_t place = offset / width / elements_per_place;
  Cursor cursor(*this, places_[static_cast<size_t>(place)]);
  for (int64_t i = place * elements_per_place; i * width < end; ++i) {
    uint64_t value;
    if (!cursor.next(value)) return std::move(cursor).error();
    // The part of the element that lies in [offset, end).
    const int64_t from = std::max(i * width, offset), to = std::min((i + 1) * width, end);
    if (from < to)
      std::memcpy(buffer.data() + (from - offset), reinterpret_cast<const std::byte*>(&value) + (from - i * width),
                  static_cast<size_t>(to - from));
  }
  return Ok{};
}

}  // namespace rtx::onnx
