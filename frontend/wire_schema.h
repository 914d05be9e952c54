// The ONNX schema as the scan of the wire format sees it (wire_scan.h): what each field of each message may be.
//
// Worked out of the descriptors of the generated classes, so that the schema is written down nowhere else.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "rtx_onnx.pb.h"

namespace rtx::onnx {

enum class WireType : uint8_t { varint = 0, fixed64 = 1, bytes = 2, group_start = 3, group_end = 4, fixed32 = 5 };

enum class FieldKind : uint8_t {
  unknown,
  message,
  name,       // a string that must be clean text
  free_text,  // documentation, metadata, external data: looked at where it is used
  bytes,
  raw_data,
  varint,
  enumeration,
  fixed32,
  fixed64
};

// The wire type of one value that is not packed.
WireType wire_type_of(FieldKind kind);

struct MessageTable;

struct FieldInfo {
  FieldKind kind = FieldKind::unknown;
  bool repeated = false;
  bool dropped = false;         // checked, but rtx does not look at it
  bool is_dims = false;         // one entry an axis
  bool is_tensor_data = false;  // the numbers of a tensor; raw_data is not one of them
  bool is_int32 = false;
  int oneof = -1;  // number of the oneof it belongs to, within its message
  const MessageTable* message = nullptr;
  const google::protobuf::EnumDescriptor* enumeration = nullptr;
  std::string name;
};

constexpr int max_field_number = 31;  // ONNX uses none above

struct MessageTable {
  std::string name;
  std::array<FieldInfo, max_field_number + 1> fields;
  bool is_node = false, is_graph = false, is_tensor = false;
  int64_t memory_bytes = 0;  // one object of it and what the reader makes of it, roughly
};

// One table for each message type that a model can hold.
class WireSchema {
 public:
  WireSchema();
  const MessageTable& root() const { return *root_; }  // ModelProto
  const MessageTable& tensor() const { return *tables_.at(onnx_schema::TensorProto::descriptor()->full_name()); }

 private:
  const MessageTable* table(const google::protobuf::Descriptor* descriptor);

  std::map<std::string, std::unique_ptr<MessageTable>> tables_;
  const MessageTable* root_;
};

}  // namespace rtx::onnx
