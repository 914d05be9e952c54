#include "ir/weights.h"

#include <algorithm>
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

// The numbers of another entry in another type.
class ConvertedSource : public RangeSource {
 public:
  ConvertedSource(WeightEntry from, DType dtype) : from_(std::move(from)), dtype_(dtype) {}

  Result<void> read(int64_t offset, std::span<std::byte> buffer) const override {
    constexpr int64_t most_elements = 1 << 16;
    const int64_t width = bit_width(dtype_) / 8, from_width = bit_width(from_.dtype) / 8;
    const int64_t end = offset + static_cast<int64_t>(buffer.size());
    std::vector<std::byte> piece, converted;
    while (offset < end) {
      const int64_t first = offset / width, count = std::min((end + width - 1) / width - first, most_elements);
      piece.resize(static_cast<size_t>(count * from_width));
      converted.resize(static_cast<size_t>(count * width));
      RTX_TRY(read_entry(from_, first * from_width, piece));
      for (int64_t i = 0; i < count; ++i)
        store_f64(dtype_, converted.data(), i, load_f64(from_.dtype, piece.data(), i));
      const int64_t skipped = offset - first * width, bytes = std::min(count * width - skipped, end - offset);
      std::memcpy(buffer.data(), converted.data() + skipped, static_cast<size_t>(bytes));
      buffer = buffer.subspan(static_cast<size_t>(bytes));
      offset += bytes;
    }
    return Ok{};
  }

 private:
  WeightEntry from_;
  DType dtype_;
};

Diagnostic unknown_weight(std::string_view name) {
  return make_error(ErrorKind::invalid, "E620", concat("there is no weight '", escape_text(name), "'"));
}

}  // namespace

bool WeightStore::add_converted(std::string name, std::string_view from, DType dtype) {
  const WeightEntry& source = *find(from);
  WeightEntry entry;
  entry.dtype = dtype;
  entry.shape = source.shape;
  entry.bytes = source.bytes / (bit_width(source.dtype) / 8) * (bit_width(dtype) / 8);
  entry.file = std::make_shared<const ConvertedSource>(source, dtype);
  return add(std::move(name), std::move(entry));
}

Result<void> WeightStore::read(std::string_view name, int64_t offset, std::span<std::byte> buffer) const {
  const WeightEntry* entry = find(name);
  if (!entry) return unknown_weight(name);
  return read_entry(*entry, offset, buffer);
}

Result<Tensor> WeightStore::load(std::string_view name) const {
  const WeightEntry* entry = find(name);
  if (!entry) return unknown_weight(name);
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
