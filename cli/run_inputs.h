// The tensors that the command line of rtx-run names.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/bind_symbols.h"
#include "runtime/random_tensor.h"
#include "runtime/tensor_text.h"

namespace rtx::cli {

struct InputOptions {
  std::vector<std::string> inputs;  // --input
  std::string npz;                  // --inputs
  bool random = false;              // --random-inputs
  uint64_t seed = 0;
  std::vector<std::string> dims;        // --dim name=value
  std::string value_range;              // --val-range low:high
  std::vector<std::string> int_ranges;  // --int-range [input=]low:high
};

// The inputs of a program in its order. Errors: E004, E006..E009 (usage), E372 (unknown name), E371 (missing).
Result<std::vector<runtime::HostTensor>> make_inputs(const InputOptions& options, const package::Manifest& manifest,
                                                     const package::Program& program);

Result<runtime::SymbolValues> parse_dims(const std::vector<std::string>& dims);

// Splits NAME=REST where NAME is that of one of `specs` (the longest that fits; names may hold '='); an argument
// without a known name is for the first of `specs` not in `taken`.
struct Named {
  size_t index = 0;
  std::string rest;
};
Result<Named> split_name(const std::string& argument, const std::vector<package::TensorSpec>& specs,
                         const std::vector<bool>& taken, const std::string& what);

// Reads a .npy (or with a type in front, raw bytes) as a tensor for `spec`.
Result<runtime::HostTensor> read_tensor_file(const std::string& path, const package::TensorSpec& spec);

// `as` of read_npy for a tensor of this type: only the types that numpy lacks need to be named.
std::optional<DType> type_for_numpy(DType dtype);

}  // namespace rtx::cli
