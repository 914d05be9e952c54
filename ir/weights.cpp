#include "ir/weights.h"

#include <cstring>

#include "base/text.h"

namespace rtx {

bool WeightStore::add(std::string name, WeightEntry entry) {
  return entries_.emplace(std::move(name), std::move(entry)).second;
}

bool WeightStore::add(std::string name, Tensor tensor) {
  WeightEntry entry;
  entry.dtype = tensor.dtype;
  entry.shape = tensor.shape;
  entry.bytes = static_cast<int64_t>(tensor.bytes.size());
  entry.memory = std::make_shared<const std::vector<std::byte>>(std::move(tensor.bytes));
  return add(std::move(name), std::move(entry));
}

const WeightEntry* WeightStore::find(std::string_view name) const {
  auto found = entries_.find(name);
  return found == entries_.end() ? nullptr : &found->second;
}

std::string WeightStore::unique_name(std::string_view stem) const {
  if (!find(stem)) return std::string(stem);
  for (int64_t i = 1;; ++i) {
    std::string name = concat(stem, ".", i);
    if (!find(name)) return name;
  }
}

namespace {

Result<void> read_entry(const WeightEntry& entry, int64_t offset, std::span<std::byte> buffer) {
  if (entry.memory) {
    std::memcpy(buffer.data(), entry.memory->data() + offset, buffer.size());
    return Ok{};
  }
  return entry.file->read(entry.offset + offset, buffer);
}

}  // namespace

Result<Tensor> WeightStore::load(std::string_view name) const {
  const WeightEntry* entry = find(name);
  if (!entry) return make_error(ErrorKind::invalid, "E620", concat("there is no weight '", escape_text(name), "'"));
  Tensor tensor;
  tensor.dtype = entry->dtype;
  tensor.shape = entry->shape;
  tensor.bytes.resize(static_cast<size_t>(entry->bytes));
  RTX_TRY(read_entry(*entry, 0, tensor.bytes));
  return tensor;
}

Result<std::shared_ptr<WeightStore>> WeightStore::open(const std::string& path) {
  RTX_ASSIGN(std::shared_ptr<const File> file, File::open(path));
  RTX_ASSIGN(SafetensorsIndex index, read_safetensors_index(*file));
  auto store = std::make_shared<WeightStore>();
  for (auto& [name, tensor] : index)
    store->add(name, WeightEntry{tensor.dtype, tensor.shape, tensor.bytes, nullptr, file, tensor.offset});
  return store;
}

Result<WrittenSafetensors> WeightStore::write(const std::string& path, std::span<const std::string> names,
                                              const WriteSafetensorsOptions& options) const {
  std::vector<SafetensorsTensor> tensors;
  std::vector<const WeightEntry*> sources;
  for (const std::string& name : names) {
    const WeightEntry* entry = find(name);
    if (!entry) return make_error(ErrorKind::internal, "E620", concat("there is no weight '", escape_text(name), "'"));
    tensors.push_back({name, entry->dtype, entry->shape, entry->bytes});
    sources.push_back(entry);
  }
  return write_safetensors(
      path, tensors,
      [&](size_t i, int64_t offset, std::span<std::byte> buffer) { return read_entry(*sources[i], offset, buffer); },
      options);
}

}  // namespace rtx
