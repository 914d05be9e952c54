#include "runtime/package/fatbin.h"

#include <algorithm>
#include <cstring>

#include "base/text.h"

namespace rtx::package {
namespace {

namespace format = fatbin_format;

constexpr uint64_t known_flags = format::flag_64_bit | format::flag_linux | format::flag_arch_specific |
                                 format::flag_family_specific | format::flag_compat;

template <typename T>
T load(std::span<const std::byte> bytes, size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

Diagnostic bad_fatbin(int64_t offset, std::string_view what) {
  return make_error(ErrorKind::integrity, "E615", concat("damaged fatbin at byte ", offset, ": ", what));
}

// The entry at `position` of a container; moves on to the next one.
Result<FatbinEntry> read_entry(std::span<const std::byte> container, size_t& position, int64_t container_offset) {
  const std::span<const std::byte> rest = container.subspan(position);
  const int64_t place = container_offset + static_cast<int64_t>(position);
  if (rest.size() < format::entry_header_bytes) return bad_fatbin(place, "an entry is cut");
  const auto kind = load<uint16_t>(rest, 0);
  const auto entry_version = load<uint16_t>(rest, 2);
  const auto header = load<uint32_t>(rest, 4);
  const auto bytes = load<uint64_t>(rest, 8);
  const auto compressed_bytes = load<uint32_t>(rest, 16);
  const auto arch = load<uint32_t>(rest, 28);
  const auto flags = load<uint64_t>(rest, 40);
  const auto uncompressed_bytes = load<uint64_t>(rest, 56);
  if (kind != format::entry_is_elf || entry_version != format::entry_version) {
    return bad_fatbin(place, "an entry is not machine code of a known version");
  }
  if ((flags & ~known_flags) != 0 || compressed_bytes != 0 || uncompressed_bytes != 0) {
    return bad_fatbin(place, "an entry is compressed or has unknown flags");
  }
  if (header < format::entry_header_bytes || header > rest.size() || bytes > rest.size() - header || bytes == 0) {
    return bad_fatbin(place, "the sizes of an entry do not fit into its container");
  }
  if (arch < 10 || arch > 9999) return bad_fatbin(place, "an entry names no architecture");
  if (std::memcmp(rest.data() + header,
                  "\x7f"
                  "ELF",
                  std::min<size_t>(4, bytes)) != 0) {
    return bad_fatbin(place, "an entry is not an ELF file");
  }
  const bool is_specific = (flags & format::flag_arch_specific) != 0,
             is_family = (flags & format::flag_family_specific) != 0;
  FatbinEntry entry;
  entry.arch = concat("sm_", arch, is_specific ? "a" : is_family ? "f" : "");
  entry.offset = static_cast<int64_t>(position + header);
  entry.bytes = static_cast<int64_t>(bytes);
  position += header + bytes;
  return entry;
}

}  // namespace

Result<std::vector<FatbinContainer>> read_fatbins(std::span<const std::byte> bytes) {
  std::vector<FatbinContainer> containers;
  for (size_t offset = 0; offset < bytes.size();) {
    const std::span<const std::byte> rest = bytes.subspan(offset);
    FatbinContainer container;
    container.offset = static_cast<int64_t>(offset);
    if (rest.size() < format::header_bytes) return bad_fatbin(container.offset, "a container is cut");
    if (load<uint32_t>(rest, 0) != format::magic) return bad_fatbin(container.offset, "no container starts here");
    if (load<uint16_t>(rest, 4) != format::version || load<uint16_t>(rest, 6) != format::header_bytes) {
      return bad_fatbin(container.offset, "the container has an unknown version");
    }
    const auto payload = load<uint64_t>(rest, 8);
    if (payload > rest.size() - format::header_bytes)
      return bad_fatbin(container.offset, "a container is longer than the file");
    container.bytes = format::header_bytes + static_cast<int64_t>(payload);
    const auto whole = rest.first(static_cast<size_t>(container.bytes));
    for (size_t position = format::header_bytes; position < whole.size();) {
      RTX_ASSIGN(FatbinEntry entry, read_entry(whole, position, container.offset));
      container.entries.push_back(std::move(entry));
    }
    if (container.entries.empty()) return bad_fatbin(container.offset, "a container is empty");
    offset += whole.size();
    containers.push_back(std::move(container));
  }
  return containers;
}

}  // namespace rtx::package
