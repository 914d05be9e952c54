// Reads an ONNX file into a Model: limits, wire pre-scan, protobuf, names, tensors in every storage form, external data
// through one confined opener, local functions inlined, nodes sorted.
#pragma once

#include <string>

#include "frontend/model.h"

namespace rtx::onnx {

// Every limit is a flag of rtx-import and is printed in the error when it is reached.
struct ReadLimits {
  int64_t max_file_bytes = (int64_t{1} << 31) - 1;
  int64_t max_wire_fields = 20'000'000;
  int64_t max_messages = 4'000'000;
  int64_t max_expansion = 12;  // memory of the parsed objects as a multiple of the file's size, beyond 192 MiB
  int64_t max_nodes = 1'000'000;
  int64_t max_initializers = 200'000;
  int64_t max_rank = 8;
  int64_t max_dim = int64_t{1} << 40;
  int64_t max_tensor_bytes = int64_t{64} << 30;
  int64_t max_sharing = 4;  // bytes of all tensors as a multiple of the bytes stored, beyond 1 GiB
  int64_t max_name_bytes = 1024;
  int64_t max_depth = 32;  // nested subgraphs, and function calls
  int64_t max_inlined_nodes = 1'000'000;
  int64_t max_inlined_bytes = int64_t{256} << 20;  // nodes and names that inlining makes
};

struct ReadOptions {
  ReadLimits limits;
  // Folder that external data may lie in beside the model's own (`--follow-symlinks-within`); empty: symlinks refused.
  std::string follow_symlinks_within;
};

// Errors: E1xx wire, E2xx graph, E3xx tensors, E5xx limits, E9xx files (docs/errors.md). Unknown operators are not the
// reader's concern.
Result<Model> read_model(const std::string& path, const ReadOptions& options = {});

}  // namespace rtx::onnx
