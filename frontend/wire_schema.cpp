#include "frontend/wire_schema.h"

#include <string_view>

namespace rtx::onnx {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

bool is_dropped(const FieldDescriptor& field) {
  // What the importer does not look at; a file may hold megabytes of it.
  for (std::string_view name : {"doc_string", "training_info", "quantization_annotation", "configuration",
                                "device_configurations", "denotation"})
    if (field.name() == name) return true;
  return false;
}

FieldKind kind_of(const FieldDescriptor& field) {
  switch (field.type()) {
    case FieldDescriptor::TYPE_MESSAGE:
      return FieldKind::message;
    case FieldDescriptor::TYPE_STRING:
      // Keys and values of metadata and external data are looked at where they are used.
      return field.containing_type()->name() == "StringStringEntryProto" || field.name() == "doc_string"
                 ? FieldKind::free_text
                 : FieldKind::name;
    case FieldDescriptor::TYPE_BYTES:
      return field.name() == "raw_data" ? FieldKind::raw_data : FieldKind::bytes;
    case FieldDescriptor::TYPE_ENUM:
      return FieldKind::enumeration;
    case FieldDescriptor::TYPE_FLOAT:
    case FieldDescriptor::TYPE_FIXED32:
      return FieldKind::fixed32;
    case FieldDescriptor::TYPE_DOUBLE:
    case FieldDescriptor::TYPE_FIXED64:
      return FieldKind::fixed64;
    default:
      return FieldKind::varint;
  }
}

}  // namespace

WireType wire_type_of(FieldKind kind) {
  switch (kind) {
    case FieldKind::message:
    case FieldKind::name:
    case FieldKind::free_text:
    case FieldKind::bytes:
    case FieldKind::raw_data:
      return WireType::bytes;
    case FieldKind::fixed32:
      return WireType::fixed32;
    case FieldKind::fixed64:
      return WireType::fixed64;
    case FieldKind::varint:
    case FieldKind::enumeration:
    case FieldKind::unknown:
      break;
  }
  return WireType::varint;
}

WireSchema::WireSchema() : root_(table(onnx_schema::ModelProto::descriptor())) {}

const MessageTable* WireSchema::table(const Descriptor* descriptor) {
  auto [place, is_new] = tables_.try_emplace(descriptor->full_name());
  if (!is_new) return place->second.get();
  place->second = std::make_unique<MessageTable>();
  MessageTable& result = *place->second;
  result.name = descriptor->name();
  result.is_graph = result.name == "GraphProto";
  result.is_node = result.name == "NodeProto";
  result.is_tensor = result.name == "TensorProto";
  const bool is_large = result.is_node || result.is_tensor || result.name == "AttributeProto";
  result.memory_bytes = is_large ? 600 : 200;
  for (int i = 0; i < descriptor->field_count(); ++i) {
    const FieldDescriptor& field = *descriptor->field(i);
    if (field.number() > max_field_number) continue;
    FieldInfo& info = result.fields[static_cast<size_t>(field.number())];
    info.kind = kind_of(field);
    info.repeated = field.is_repeated();
    info.dropped = is_dropped(field);
    info.is_int32 = field.type() == FieldDescriptor::TYPE_INT32;
    info.is_dims = field.name() == "dims" || field.name() == "dim";
    info.name = field.name();
    info.is_tensor_data =
        result.is_tensor && info.repeated && wire_type_of(info.kind) != WireType::bytes && !info.is_dims;
    if (field.real_containing_oneof()) info.oneof = field.real_containing_oneof()->index();
    if (info.kind == FieldKind::message) info.message = table(field.message_type());
    if (info.kind == FieldKind::enumeration) info.enumeration = field.enum_type();
  }
  return &result;
}

}  // namespace rtx::onnx
