#include "codegen/fatbin.h"

#include <elf.h>

#include <charconv>
#include <cstring>
#include <optional>
#include <string_view>

#include "base/text.h"
#include "runtime/package/fatbin.h"

namespace rtx::codegen {
namespace {

namespace format = package::fatbin_format;

constexpr uint16_t machine_cuda = 190;       // EM_CUDA
constexpr int first_arch_with_record = 100;  // compute capability 10.0; older entries never have one
constexpr uint32_t record_offset = 64, options_offset = 72, record_data_offset = 73, record_header_bytes = 112;

void put(std::vector<std::byte>& out, uint64_t value, int width) {
  for (int i = 0; i < width; ++i) out.push_back(static_cast<std::byte>(value >> (8 * i)));
}

void put(std::vector<std::byte>& out, std::span<const std::byte> bytes) {
  out.insert(out.end(), bytes.begin(), bytes.end());
}

template <typename T>
std::optional<T> load(std::span<const std::byte> bytes, uint64_t offset) {
  T value;
  if (offset > bytes.size() || bytes.size() - offset < sizeof value) return std::nullopt;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

std::span<const std::byte> range(std::span<const std::byte> bytes, uint64_t offset, uint64_t count) {
  if (offset > bytes.size() || count > bytes.size() - offset) return {};
  return bytes.subspan(offset, count);
}

// The contents of a section, empty if there is none of that name.
std::span<const std::byte> find_section(std::span<const std::byte> elf, std::string_view name) {
  const auto header = load<Elf64_Ehdr>(elf, 0);
  if (!header) return {};
  auto section = [&](uint64_t index) { return load<Elf64_Shdr>(elf, header->e_shoff + index * sizeof(Elf64_Shdr)); };
  const auto names_section = section(header->e_shstrndx);
  if (!names_section) return {};
  const auto names = range(elf, names_section->sh_offset, names_section->sh_size);
  const std::string_view all_names(reinterpret_cast<const char*>(names.data()), names.size());
  for (uint64_t i = 0; i < header->e_shnum; ++i) {
    const auto candidate = section(i);
    if (!candidate || candidate->sh_name >= all_names.size()) continue;
    const std::string_view rest = all_names.substr(candidate->sh_name);
    if (rest.substr(0, rest.find('\0')) == name) return range(elf, candidate->sh_offset, candidate->sh_size);
  }
  return {};
}

Result<void> put_entry(std::vector<std::byte>& out, const FatbinImage& image) {
  std::string_view digits = image.arch;
  uint64_t flags = format::flag_64_bit | format::flag_linux;
  if (digits.ends_with('a')) flags |= format::flag_arch_specific;
  if (digits.ends_with('f')) flags |= format::flag_family_specific;
  if (flags & (format::flag_arch_specific | format::flag_family_specific)) digits.remove_suffix(1);
  if (digits.starts_with("sm_")) digits.remove_prefix(3);
  uint32_t arch = 0;
  const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), arch);
  const auto elf = load<Elf64_Ehdr>(image.cubin, 0);
  if (code != std::errc() || end != digits.data() + digits.size() || !elf ||
      std::memcmp(elf->e_ident, ELFMAG, SELFMAG) != 0 || elf->e_ident[EI_CLASS] != ELFCLASS64 ||
      elf->e_machine != machine_cuda) {
    return make_error(ErrorKind::internal, "E725",
                      concat("the machine code for ", quote_text(image.arch), " is not a cubin"));
  }
  const auto record =
      arch >= first_arch_with_record ? find_section(image.cubin, ".nv.compat") : std::span<const std::byte>();
  const bool has_record = !record.empty();
  if (record.size() > record_header_bytes - record_data_offset) {
    return make_error(ErrorKind::internal, "E725",
                      concat("the cubin for ", image.arch, " has a compatibility record of ", record.size(), " bytes"));
  }
  if (has_record) flags |= format::flag_compat;
  const uint64_t padded_bytes = (image.cubin.size() + 7) / 8 * 8;

  put(out, format::entry_is_elf, 2);
  put(out, format::entry_version, 2);
  put(out, has_record ? record_header_bytes : static_cast<uint64_t>(format::entry_header_bytes), 4);
  put(out, padded_bytes, 8);
  put(out, 0, 4);  // not compressed
  put(out, has_record ? record_offset : 0, 4);
  put(out, elf->e_ident[EI_ABIVERSION], 2);
  put(out, 1, 2);
  put(out, arch, 4);
  put(out, 0, 8);  // no name
  put(out, flags, 8);
  put(out, 0, 8);
  put(out, 0, 8);  // not compressed
  if (has_record) {
    put(out, options_offset, 4);
    put(out, record.size(), 4);
    put(out, 0, 1);  // an empty text of options
    put(out, record);
    out.resize(out.size() + record_header_bytes - record_data_offset - record.size());
  }
  put(out, image.cubin);
  out.resize(out.size() + padded_bytes - image.cubin.size());
  return Ok{};
}

}  // namespace

Result<std::vector<std::byte>> make_fatbin(std::span<const FatbinImage> images) {
  std::vector<std::byte> entries;
  for (const FatbinImage& image : images) RTX_TRY(put_entry(entries, image));
  std::vector<std::byte> out;
  out.reserve(entries.size() + static_cast<size_t>(format::header_bytes));
  put(out, format::magic, 4);
  put(out, format::version, 2);
  put(out, format::header_bytes, 2);
  put(out, entries.size(), 8);
  put(out, entries);
  return out;
}

}  // namespace rtx::codegen
