#include "runtime/weights.h"

#include <algorithm>
#include <array>

#include "base/sha256.h"
#include "base/text.h"
#include "runtime/arena.h"

namespace rtx::runtime {

namespace {

// One weight: where it lies in the file, where it goes.
struct Span {
  int64_t offset, bytes;
  DevicePointer address;
};

// A host buffer and the stream that copies from it; two of them let reading and copying overlap.
struct Lane {
  std::unique_ptr<Stream> stream;
  std::unique_ptr<TensorStorage> buffer;
  bool busy = false;
};

// Copies the parts of `piece` (which starts at `begin` in the file) that belong to weights. `next` is the first weight
// that does not end before the piece.
Result<void> copy_piece(Device& device, Stream& stream, std::span<const Span> spans, size_t& next, int64_t begin,
                        std::span<const std::byte> piece) {
  const int64_t end = begin + static_cast<int64_t>(piece.size());
  for (size_t i = next; i < spans.size() && spans[i].offset < end; ++i) {
    const Span& span = spans[i];
    const int64_t from = std::max(begin, span.offset), to = std::min(end, span.offset + span.bytes);
    if (from < to)
      RTX_TRY(device.copy_to_device(stream, span.address + static_cast<uint64_t>(from - span.offset),
                                    piece.subspan(static_cast<size_t>(from - begin), static_cast<size_t>(to - from))));
    if (span.offset + span.bytes <= end) next = i + 1;
  }
  return Ok{};
}

Result<void> check_hash(const package::Package& package, const std::string& got) {
  for (const package::FileEntry& file : package.manifest.files) {
    if (file.name != package::weights_name) continue;
    if (file.sha256 == got) return Ok{};
    return make_error(ErrorKind::integrity, "E611", "the file does not match its hash in the manifest")
        .with_where(package.weights_file->path())
        .with_expected(concat("SHA-256 ", file.sha256))
        .with_got(concat("SHA-256 ", got))
        .with_help("the package is damaged; copy it again or compile it again");
  }
  return make_error(ErrorKind::integrity, "E613", "the weights file is not listed in the manifest");
}

}  // namespace

Result<DeviceWeights> load_weights(const package::Package& package, Device& device, const WeightOptions& options) {
  const std::vector<std::string>& names = package.manifest.weights;
  DeviceWeights weights;
  std::vector<int64_t> offsets;
  std::vector<Span> spans;
  int64_t total = 0;
  for (const std::string& name : names) {
    const auto entry = package.weights_index.find(name);
    if (entry == package.weights_index.end())
      return make_error(ErrorKind::integrity, "E618", concat("the weights file lacks '", escape_text(name), "'"))
          .with_where(package.path);
    offsets.push_back(total);
    weights.bytes.push_back(entry->second.bytes);
    spans.push_back({entry->second.offset, entry->second.bytes, 0});
    RTX_ASSIGN(const int64_t rounded, aligned(entry->second.bytes));
    if (__builtin_add_overflow(total, rounded, &total))
      return make_error(ErrorKind::limit, "E506", "the weights are too large");
  }
  RTX_ASSIGN(weights.storage, device.allocate(total));
  for (size_t i = 0; i < names.size(); ++i) {
    weights.addresses.push_back(weights.storage->address() + static_cast<uint64_t>(offsets[i]));
    spans[i].address = weights.addresses[i];
  }
  if (!package.weights_file) return weights;
  std::sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) { return a.offset < b.offset; });

  const File& file = *package.weights_file;
  const int64_t piece_bytes = std::clamp<int64_t>(options.piece_bytes, 1, std::max<int64_t>(file.size(), 1));
  std::array<Lane, 2> lanes;
  for (Lane& lane : lanes) {
    RTX_ASSIGN(lane.stream, device.create_stream());
    RTX_ASSIGN(lane.buffer, device.allocate_host(piece_bytes));
  }
  Sha256 hash;
  size_t next = 0, turn = 0;
  Result<void> copied = Ok{};
  for (int64_t begin = 0; begin < file.size() && copied; begin += piece_bytes) {
    Lane& lane = lanes[turn++ % lanes.size()];
    copied = [&]() -> Result<void> {
      if (lane.busy) RTX_TRY(lane.stream->synchronize());
      lane.busy = false;
      const std::span<std::byte> piece(reinterpret_cast<std::byte*>(lane.buffer->address()),
                                       static_cast<size_t>(std::min(piece_bytes, file.size() - begin)));
      RTX_TRY(file.read(begin, piece));
      lane.busy = true;
      RTX_TRY(copy_piece(device, *lane.stream, spans, next, begin, piece));
      if (options.verify) hash.update(piece);
      return Ok{};
    }();
  }
  // The buffers must stay until the last copy is done, also after an error.
  for (Lane& lane : lanes)
    if (lane.busy)
      if (Result<void> done = lane.stream->synchronize(); !done && copied) copied = std::move(done);
  if (!copied) return std::move(copied).error().within("loading weights");
  if (options.verify) RTX_TRY(check_hash(package, hash.finish_hex()));
  return weights;
}

}  // namespace rtx::runtime
