// WeightStore: the data behind `weight` operations, by name, without holding it all in memory.
//
// An entry is either bytes owned in memory (folded constants, initializers of a parsed model) or a range of a file
// that is read (and decoded, if the file holds them in another form) when asked for. Nothing is mapped. Thread-safe for
// reads once filled.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/result.h"
#include "base/safetensors.h"
#include "ir/tensor.h"

namespace rtx {

struct WeightEntry {
  DType dtype = DType::f32;
  std::vector<int64_t> shape;
  int64_t bytes = 0;
  // One of the two is set.
  std::shared_ptr<const std::vector<std::byte>> memory;
  std::shared_ptr<const RangeSource> file;  // with `offset`
  int64_t offset = 0;
};

class WeightStore {
 public:
  // False if the name is taken.
  bool add(std::string name, WeightEntry entry);
  bool add(std::string name, Tensor tensor);
  // Adds the numbers of `from`, which must exist, rounded to another float type; both of whole bytes. They are
  // converted whenever they are read. False if the name is taken.
  bool add_converted(std::string name, std::string_view from, DType dtype);
  const WeightEntry* find(std::string_view name) const;
  const std::map<std::string, WeightEntry, std::less<>>& entries() const { return entries_; }
  // A name not yet used that starts with `stem`.
  std::string unique_name(std::string_view stem) const;
  // Reads a part of the packed data; an unknown name is an error.
  Result<void> read(std::string_view name, int64_t offset, std::span<std::byte> buffer) const;
  // Reads the whole tensor; an I/O error or an unknown name is an error.
  Result<Tensor> load(std::string_view name) const;

  // Opens a safetensors file and adds every tensor of it as file ranges.
  static Result<std::shared_ptr<WeightStore>> open(const std::string& path);
  // Writes the named tensors, in the given order, as a safetensors file; data is streamed through a bounded buffer.
  // The file appears whole or not at all. Returns its size and hash.
  Result<WrittenSafetensors> write(const std::string& path, std::span<const std::string> names,
                                   const WriteSafetensorsOptions& options = {}) const;

 private:
  std::map<std::string, WeightEntry, std::less<>> entries_;
};

}  // namespace rtx
