// Mutations of the parsed ModelProto, found by protobuf's reflection: a field gets another value, an entry of a list is
// copied, dropped or moved, a message or a name is replaced by another one of the model. The bytes stay well formed, so
// that the fuzzer gets past the wire format. Every fourth mutation is of the raw bytes.

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <google/protobuf/stubs/logging.h>

#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "rtx_onnx.pb.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using rtx::onnx_schema::ModelProto;

constexpr int64_t numbers[] = {0,
                               1,
                               -1,
                               2,
                               3,
                               4,
                               7,
                               8,
                               9,
                               16,
                               -2,
                               127,
                               128,
                               255,
                               32768,
                               65536,
                               1 << 20,
                               std::numeric_limits<int32_t>::max(),
                               std::numeric_limits<int32_t>::min(),
                               int64_t{1} << 32,
                               int64_t{1} << 40,
                               int64_t{1} << 62,
                               std::numeric_limits<int64_t>::max(),
                               std::numeric_limits<int64_t>::min()};

class Mutator {
 public:
  Mutator(ModelProto& model, uint32_t seed) : random_(seed) { collect(model); }

  // Replaces a message of the model by one of the same type of `donor`, or adds that one to a list.
  void take_from(Mutator& donor) {
    for (int attempt = 0; attempt < 50; ++attempt) {
      Message& message = *messages_[below(messages_.size())];
      const Descriptor& type = *message.GetDescriptor();
      if (type.field_count() == 0) continue;
      const FieldDescriptor& field = *type.field(static_cast<int>(below(static_cast<size_t>(type.field_count()))));
      if (field.type() != FieldDescriptor::TYPE_MESSAGE) continue;
      const Message* source = donor.other(field.message_type());
      if (!source) continue;
      const Reflection& reflection = *message.GetReflection();
      const int size = field.is_repeated() ? reflection.FieldSize(message, &field) : 0;
      if (!field.is_repeated())
        reflection.MutableMessage(&message, &field)->CopyFrom(*source);
      else if (size > 0 && below(2) == 0)
        reflection.MutableRepeatedMessage(&message, &field, static_cast<int>(below(static_cast<size_t>(size))))
            ->CopyFrom(*source);
      else
        reflection.AddMessage(&message, &field)->CopyFrom(*source);
      return;
    }
  }

  // One change. False if the field that was picked has nothing to change.
  bool mutate() {
    Message& message = *messages_[below(messages_.size())];
    const Descriptor& type = *message.GetDescriptor();
    if (type.field_count() == 0) return false;
    const FieldDescriptor& field = *type.field(static_cast<int>(below(static_cast<size_t>(type.field_count()))));
    const Reflection& reflection = *message.GetReflection();
    if (!field.is_repeated()) {
      if (reflection.HasField(message, &field) && below(8) == 0) {
        reflection.ClearField(&message, &field);
        return true;
      }
      // Fields that are not there are rarely set: most of them contradict what is there.
      if (!reflection.HasField(message, &field) && below(8) != 0) return false;
      return set(message, field, -1);
    }
    const int size = reflection.FieldSize(message, &field);
    if (size == 0) return below(8) == 0 && append(message, field);
    const int index = static_cast<int>(below(static_cast<size_t>(size)));
    switch (below(8)) {
      case 0:
        reflection.SwapElements(&message, &field, index, size - 1);
        reflection.RemoveLast(&message, &field);
        return true;
      case 1:
        reflection.SwapElements(&message, &field, index, static_cast<int>(below(static_cast<size_t>(size))));
        return true;
      case 2:
        return append(message, field);
      default:
        return set(message, field, index);
    }
  }

 private:
  size_t below(size_t bound) { return static_cast<size_t>(random_() % bound); }

  void collect(Message& message) {
    messages_.push_back(&message);
    const Reflection& reflection = *message.GetReflection();
    std::vector<const FieldDescriptor*> fields;
    reflection.ListFields(message, &fields);
    for (const FieldDescriptor* field : fields) {
      if (field->type() == FieldDescriptor::TYPE_STRING) {
        if (!field->is_repeated())
          strings_.push_back(reflection.GetString(message, field));
        else
          for (int i = 0; i < reflection.FieldSize(message, field); ++i)
            strings_.push_back(reflection.GetRepeatedString(message, field, i));
      }
      if (field->type() != FieldDescriptor::TYPE_MESSAGE) continue;
      if (!field->is_repeated())
        collect(*reflection.MutableMessage(&message, field));
      else
        for (int i = 0; i < reflection.FieldSize(message, field); ++i)
          collect(*reflection.MutableRepeatedMessage(&message, field, i));
    }
  }

  int64_t number(int64_t old) {
    switch (below(4)) {
      case 0:
        return static_cast<int64_t>(static_cast<uint64_t>(old) + below(3) - 1);
      case 1:
        return static_cast<int64_t>(below(32));
      default:
        return numbers[below(std::size(numbers))];
    }
  }

  std::string text(const FieldDescriptor& field, std::string old) {
    if (field.type() == FieldDescriptor::TYPE_STRING && !strings_.empty() && below(4) != 0)
      return strings_[below(strings_.size())];
    const size_t room = old.size() + 16;
    const size_t size = old.size();
    old.resize(room);
    old.resize(LLVMFuzzerMutate(reinterpret_cast<uint8_t*>(old.data()), size, room));
    return old;
  }

  // Another message of the model of the same type.
  const Message* other(const Descriptor* type) {
    for (int attempt = 0; attempt < 16; ++attempt) {
      const Message* candidate = messages_[below(messages_.size())];
      if (candidate->GetDescriptor() == type) return candidate;
    }
    return nullptr;
  }

  bool append(Message& message, const FieldDescriptor& field) {
    const Reflection& reflection = *message.GetReflection();
    const int size = reflection.FieldSize(message, &field);
    switch (field.cpp_type()) {
      case FieldDescriptor::CPPTYPE_MESSAGE:
        reflection.AddMessage(&message, &field);
        break;
      case FieldDescriptor::CPPTYPE_STRING:
        reflection.AddString(&message, &field, "");
        break;
      case FieldDescriptor::CPPTYPE_INT64:
        reflection.AddInt64(&message, &field, 0);
        break;
      case FieldDescriptor::CPPTYPE_UINT64:
        reflection.AddUInt64(&message, &field, 0);
        break;
      case FieldDescriptor::CPPTYPE_INT32:
        reflection.AddInt32(&message, &field, 0);
        break;
      case FieldDescriptor::CPPTYPE_FLOAT:
        reflection.AddFloat(&message, &field, 0);
        break;
      case FieldDescriptor::CPPTYPE_DOUBLE:
        reflection.AddDouble(&message, &field, 0);
        break;
      default:
        return false;
    }
    return set(message, field, size);
  }

  // A new value for a field, or for the entry `index` of a list.
  bool set(Message& message, const FieldDescriptor& field, int index) {
    const Reflection& r = *message.GetReflection();
    const bool in_list = index >= 0;
    switch (field.cpp_type()) {
      case FieldDescriptor::CPPTYPE_MESSAGE: {
        // Copied first: the other message may hold this one.
        const Message* source = other(field.message_type());
        if (!source) return false;
        const std::string copy = source->SerializePartialAsString();
        Message* place =
            in_list ? r.MutableRepeatedMessage(&message, &field, index) : r.MutableMessage(&message, &field);
        place->ParsePartialFromString(copy);  // that fails on deep nesting, but has changed the message then
        return true;
      }
      case FieldDescriptor::CPPTYPE_STRING: {
        std::string value =
            text(field, in_list ? r.GetRepeatedString(message, &field, index) : r.GetString(message, &field));
        in_list ? r.SetRepeatedString(&message, &field, index, std::move(value))
                : r.SetString(&message, &field, std::move(value));
        return true;
      }
      case FieldDescriptor::CPPTYPE_INT64: {
        const int64_t value =
            number(in_list ? r.GetRepeatedInt64(message, &field, index) : r.GetInt64(message, &field));
        in_list ? r.SetRepeatedInt64(&message, &field, index, value) : r.SetInt64(&message, &field, value);
        return true;
      }
      case FieldDescriptor::CPPTYPE_UINT64: {
        const uint64_t value = static_cast<uint64_t>(number(0));
        in_list ? r.SetRepeatedUInt64(&message, &field, index, value) : r.SetUInt64(&message, &field, value);
        return true;
      }
      case FieldDescriptor::CPPTYPE_INT32: {
        const int32_t value = static_cast<int32_t>(
            number(in_list ? r.GetRepeatedInt32(message, &field, index) : r.GetInt32(message, &field)));
        in_list ? r.SetRepeatedInt32(&message, &field, index, value) : r.SetInt32(&message, &field, value);
        return true;
      }
      case FieldDescriptor::CPPTYPE_FLOAT: {
        const uint32_t bits = static_cast<uint32_t>(random_());
        float value = static_cast<float>(number(0));
        if (below(4) == 0) std::memcpy(&value, &bits, sizeof value);
        in_list ? r.SetRepeatedFloat(&message, &field, index, value) : r.SetFloat(&message, &field, value);
        return true;
      }
      case FieldDescriptor::CPPTYPE_DOUBLE: {
        const double value = static_cast<double>(number(0));
        in_list ? r.SetRepeatedDouble(&message, &field, index, value) : r.SetDouble(&message, &field, value);
        return true;
      }
      case FieldDescriptor::CPPTYPE_ENUM: {
        const auto& values = *field.enum_type();
        if (in_list) return false;
        r.SetEnum(&message, &field, values.value(static_cast<int>(below(static_cast<size_t>(values.value_count())))));
        return true;
      }
      default:
        return false;
    }
  }

  std::mt19937 random_;
  std::vector<Message*> messages_;
  std::vector<std::string> strings_;
};

}  // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  google::protobuf::SetLogHandler(nullptr);  // it complains about every string that is not UTF-8
  ModelProto model;
  if (seed % 4 == 0 || !model.ParsePartialFromArray(data, static_cast<int>(size)))
    return LLVMFuzzerMutate(data, size, max_size);
  std::mt19937 random(seed);
  const uint32_t changes = 1 + random() % 3;
  for (uint32_t change = 0; change < changes; ++change) {
    Mutator mutator(model, random());  // after each change: messages may be gone
    for (int attempt = 0; attempt < 50 && !mutator.mutate(); ++attempt) continue;
  }
  const std::string bytes = model.SerializePartialAsString();
  if (bytes.size() > max_size) return LLVMFuzzerMutate(data, size, max_size);
  std::memcpy(data, bytes.data(), bytes.size());
  return bytes.size();
}

extern "C" size_t LLVMFuzzerCustomCrossOver(const uint8_t* first, size_t first_size, const uint8_t* second,
                                            size_t second_size, uint8_t* out, size_t max_size, unsigned seed) {
  google::protobuf::SetLogHandler(nullptr);
  ModelProto model, donor;
  if (!model.ParsePartialFromArray(first, static_cast<int>(first_size)) ||
      !donor.ParsePartialFromArray(second, static_cast<int>(second_size)))
    return 0;
  Mutator from(donor, seed);
  for (unsigned change = 0; change < 1 + seed % 4; ++change) Mutator(model, seed + change).take_from(from);
  const std::string bytes = model.SerializePartialAsString();
  if (bytes.size() > max_size) return 0;
  std::memcpy(out, bytes.data(), bytes.size());
  return bytes.size();
}
