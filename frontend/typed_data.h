// Tensor elements that a model stores as protobuf numbers (int64_data and its kin), decoded whenever they are read: a
// varint of one byte may stand for eight, so that a tensor decoded whole could take many times the size of its file.
#pragma once

#include <memory>
#include <vector>

#include "base/file.h"
#include "frontend/wire_scan.h"
#include "frontend/wire_schema.h"

namespace rtx::onnx {

// How the numbers of one field become elements.
struct TypedElement {
  FieldKind kind = FieldKind::varint;  // or fixed32, fixed64
  int width = 8;                       // bytes of an element: the low ones of the number
  bool is_int32 = false;               // only the low 32 bits of a varint count, as a signed number
  // Of the number as a signed one.
  int64_t lowest = INT64_MIN, highest = INT64_MAX;
};

// The elements as bytes, little-endian, tightly packed. Any thread may read.
class TypedData : public RangeSource {
 public:
  // `data` comes from the scan of `file` (wire_scan.h). Errors: E901, E902, and E305 for an element out of its range,
  // whose message starts behind the name of the field: "[3] is out of range".
  static Result<std::shared_ptr<const TypedData>> open(std::shared_ptr<const File> file, const ScannedData& data,
                                                       const TypedElement& element);

  // Error: E902, also when the file was changed since it was scanned.
  Result<void> read(int64_t offset, std::span<std::byte> buffer) const override;

  // Where the bytes lie in the file if they lie there as they are.
  std::optional<int64_t> file_offset() const;

 private:
  // A place between two elements.
  struct Place {
    int64_t position = 0;  // in the file
    int64_t list_end = 0;  // of the packed list around it; 0 outside of one
  };
  class Cursor;

  TypedData() = default;

  std::shared_ptr<const File> file_;
  ScannedData data_;
  TypedElement element_;
  std::vector<Place> places_;  // before every `elements_per_place`-th element
};

}  // namespace rtx::onnx
