// The first look at an untrusted model file: walks its whole protobuf wire structure, guided by the descriptors of the
// ONNX schema, before any object is built from it.
//
// A file of a few megabytes can ask protobuf for gigabytes of objects, a second `graph` field merges into the first
// without a word, and a length prefix may say anything. So the scan checks every tag and length against the bytes that
// are there, counts fields, messages and nesting against the limits, and refuses singular fields that occur twice,
// members of one oneof that occur together, wire types other than the schema's, enum values outside it, groups, and
// names that are not clean text. It reads the file once through a fixed buffer and steps over raw_data unread.
//
// What it returns is the model without its weights, ready for the parser: the numbers of every tensor (raw_data,
// float_data, int64_data ...) are replaced by their place in the file, and documentation, unknown fields and parts that
// rtx ignores are left out.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "frontend/read_model.h"

namespace rtx::onnx {

struct FileRange {
  int64_t offset = 0;
  int64_t bytes = 0;
};

// Errors: E101 to E105, E110, E111, E501, E502, E504; see docs/errors.md.
Result<std::string> scan_model_file(const File& file, const ReadLimits& limits);

// The deepest nesting of messages that a scanned model can have.
int max_message_depth(const ReadLimits& limits);

// The same for a file that holds one TensorProto.
Result<std::string> scan_tensor_file(const File& file, const ReadLimits& limits);

// Where a field of a tensor has its data in the file.
struct ScannedData {
  int64_t field = 0;     // its number in TensorProto
  FileRange range;       // raw_data: its bytes; other fields: the whole message of the tensor
  int64_t elements = 0;  // raw_data: 1; other fields: entries, at least one
};

// Decodes `raw_data` of a scanned tensor: one for each field that holds data, but string_data and external_data.
std::vector<ScannedData> scanned_data(std::string_view raw_data);

}  // namespace rtx::onnx
