// Options of the tools that read ONNX models: dims, limits, external data.
#pragma once

#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "cli/tool.h"
#include "frontend/import.h"
#include "frontend/read_model.h"

namespace rtx::cli {

struct OnnxOptions {
  onnx::ReadOptions read;
  std::vector<std::string> dims;  // as given: "batch=1:4:8"
};

inline void add_onnx_options(CLI::App& app, OnnxOptions& options) {
  app.add_option("--dim", options.dims,
                 "Range of a named dim: NAME=MIN:OPT:MAX, or NAME=N for one size; may be repeated (default: 0 to 2^31)")
      ->type_name("NAME=RANGE")
      ->allow_extra_args(false);
  app.add_option("--follow-symlinks-within", options.read.follow_symlinks_within,
                 "Folder inside which external data may be reached through symbolic links (default: links are refused)")
      ->type_name("DIR");
  onnx::ReadLimits& limits = options.read.limits;
  const auto limit = [&](const char* name, int64_t& value, const char* text) {
    app.add_option(name, value, text)->group("Limits on the model")->check(CLI::PositiveNumber)->capture_default_str();
  };
  limit("--max-file-bytes", limits.max_file_bytes, "Bytes of the model file");
  limit("--max-wire-fields", limits.max_wire_fields, "Fields in the model file");
  limit("--max-messages", limits.max_messages, "Messages in the model file");
  limit("--max-expansion", limits.max_expansion,
        "Memory of the parsed objects as a multiple of the file's size, beyond 192 MiB");
  limit("--max-nodes", limits.max_nodes, "Nodes in the model file");
  limit("--max-initializers", limits.max_initializers, "Initializers in the model file");
  limit("--max-rank", limits.max_rank, "Axes of a tensor");
  limit("--max-dim", limits.max_dim, "Size of an axis");
  limit("--max-tensor-bytes", limits.max_tensor_bytes, "Bytes of a tensor");
  limit("--max-sharing", limits.max_sharing,
        "Bytes of all tensors as a multiple of the bytes stored in the model and its data files, beyond 1 GiB");
  limit("--max-name-bytes", limits.max_name_bytes, "Bytes of a name");
  limit("--max-depth", limits.max_depth, "Nesting of subgraphs, and of function calls");
  limit("--max-inlined-nodes", limits.max_inlined_nodes, "Nodes after local functions are inlined");
  limit("--max-inlined-bytes", limits.max_inlined_bytes, "Bytes of memory that inlined nodes may take");
  app.get_option("--max-depth")->check(CLI::Range(1, 1000));
}

// "1:4:8" or "4".
inline Result<SymbolRange> parse_range(std::string_view argument, std::string_view text) {
  int64_t numbers[3] = {};
  int count = 0;
  const char* at = text.data();
  const char* end = at + text.size();
  bool good = !text.empty();
  while (good) {
    const auto [next, error] = std::from_chars(at, end, numbers[count]);
    good = error == std::errc{} && numbers[count] >= 0;
    ++count;
    at = next;
    if (!good || at == end) break;
    good = *at++ == ':' && count < 3;
  }
  SymbolRange range =
      count == 3 ? SymbolRange{numbers[0], numbers[2], numbers[1]} : SymbolRange{numbers[0], numbers[0], numbers[0]};
  if (!good || count == 2)
    return make_error(ErrorKind::usage, "E001", concat("--dim ", escape_text(argument), ": bad range"))
        .with_expected("NAME=MIN:OPT:MAX or NAME=N");
  if (range.min > range.opt || range.opt > range.max)
    return make_error(ErrorKind::usage, "E001", concat("--dim ", escape_text(argument), ": the range is not ordered"))
        .with_expected("MIN <= OPT <= MAX");
  return range;
}

inline Result<onnx::ImportOptions> import_options(const OnnxOptions& options) {
  onnx::ImportOptions result;
  result.max_rank = static_cast<int>(options.read.limits.max_rank);
  result.max_tensor_bytes = options.read.limits.max_tensor_bytes;
  for (const std::string& argument : options.dims) {
    const size_t equals = argument.find('=');
    if (equals == std::string::npos || equals == 0)
      return make_error(ErrorKind::usage, "E001", concat("--dim ", escape_text(argument), ": no name"))
          .with_expected("NAME=MIN:OPT:MAX or NAME=N");
    RTX_ASSIGN(const SymbolRange range, parse_range(argument, std::string_view(argument).substr(equals + 1)));
    if (!result.ranges.try_emplace(argument.substr(0, equals), range).second)
      return make_error(ErrorKind::usage, "E001", concat("--dim ", escape_text(argument), ": the dim is given twice"));
  }
  return result;
}

// A --dim that names no dim of the model's inputs is a slip of the pen: E001 with the names there are.
inline Result<void> check_dim_names(const onnx::ImportOptions& options, const onnx::Model& model) {
  std::vector<std::string> known;
  for (const onnx::ValueInfo& input : model.graph.inputs) {
    if (!input.shape) continue;
    for (const onnx::DeclaredDim& dim : *input.shape) {
      if (dim.value || dim.param.empty()) continue;
      known.push_back(dim.param);
      if (const Result<Dim> parsed = parse_dim(dim.param)) parsed->collect_symbols(known);
      known.push_back(sanitize_symbol(dim.param));
    }
  }
  std::sort(known.begin(), known.end());
  known.erase(std::unique(known.begin(), known.end()), known.end());
  for (const auto& [name, range] : options.ranges) {
    if (std::binary_search(known.begin(), known.end(), name)) continue;
    const auto quoted = [](const std::string& text) { return concat("'", escape_text(text), "'"); };
    return make_error(ErrorKind::usage, "E001",
                      concat("--dim ", escape_text(name), ": the model has no dim of this name"))
        .with_expected(known.empty() ? std::string("no --dim: all dims are fixed or have no name")
                                     : concat("one of ", join(known, ", ", quoted)));
  }
  return Ok{};
}

}  // namespace rtx::cli
