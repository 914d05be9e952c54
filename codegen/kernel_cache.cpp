#include "codegen/kernel_cache.h"

#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "base/file.h"
#include "base/sha256.h"
#include "base/text.h"

namespace rtx::codegen {
namespace {

// An entry: the magic, the SHA-256 of the rest, then the resources and the machine code.
constexpr std::string_view magic = "rtxkern1";
constexpr size_t hash_bytes = 64;
constexpr int64_t largest_entry = int64_t{256} << 20;
constexpr size_t arch_bytes = 16;
constexpr size_t fields = 4;

std::string serialize(const CompiledKernel& kernel) {
  std::string out(arch_bytes, '\0');
  kernel.resources.arch.copy(out.data(), arch_bytes - 1);
  for (const int32_t value : {kernel.resources.registers, kernel.resources.shared_bytes, kernel.resources.spill_bytes,
                              kernel.resources.stack_bytes}) {
    out.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  out.append(reinterpret_cast<const char*>(kernel.cubin.data()), kernel.cubin.size());
  return out;
}

CompiledKernel deserialize(std::string_view text) {
  CompiledKernel kernel;
  kernel.resources.arch = std::string(text.data(), strnlen(text.data(), arch_bytes));
  std::array<int32_t, fields> values;
  std::memcpy(values.data(), text.data() + arch_bytes, sizeof values);
  kernel.resources.registers = values[0];
  kernel.resources.shared_bytes = values[1];
  kernel.resources.spill_bytes = values[2];
  kernel.resources.stack_bytes = values[3];
  const auto cubin = std::as_bytes(std::span(text)).subspan(arch_bytes + sizeof values);
  kernel.cubin.assign(cubin.begin(), cubin.end());
  return kernel;
}

}  // namespace

Result<KernelCache> KernelCache::open(const std::string& folder) {
  std::error_code code;
  std::filesystem::create_directories(std::filesystem::path(folder).parent_path(), code);
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
    return make_error(ErrorKind::io, "E901",
                      concat("cannot create the kernel cache: ", std::generic_category().message(errno)))
        .with_where(escape_text(folder));
  }
  return KernelCache(folder);
}

std::string KernelCache::key(std::span<const std::string_view> parts) {
  Sha256 hash;
  hash.update(magic);
  for (const std::string_view part : parts) {
    // The size in front keeps ("ab", "c") and ("a", "bc") apart.
    hash.update(concat(part.size(), ":"));
    hash.update(part);
  }
  return hash.finish_hex();
}

std::string KernelCache::entry_path(const std::string& key) const {
  return concat(folder_, "/", key.substr(0, 2), "/", key.substr(2));
}

std::optional<CompiledKernel> KernelCache::load(const std::string& key) const {
  const auto text = read_text_file(entry_path(key), largest_entry);
  constexpr size_t header = magic.size() + hash_bytes;
  if (!text || text->size() < header + arch_bytes + fields * sizeof(int32_t) || !text->starts_with(magic))
    return std::nullopt;
  const std::string_view contents = std::string_view(*text).substr(header);
  if (sha256_hex(contents) != std::string_view(*text).substr(magic.size(), hash_bytes)) return std::nullopt;
  return deserialize(contents);
}

bool KernelCache::store(const std::string& key, const CompiledKernel& kernel) const {
  const std::string path = entry_path(key);
  mkdir(path.substr(0, path.rfind('/')).c_str(), 0700);
  const std::string contents = serialize(kernel);
  auto writer = FileWriter::create(path);
  // Not synced to the disk: an entry that a crash cuts is noticed and made again.
  return writer && (*writer)->write(concat(magic, sha256_hex(contents), contents)) && (*writer)->commit(false);
}

std::string default_kernel_cache() {
  for (const auto& [variable, sub] : {std::pair{"XDG_CACHE_HOME", "/rtx"}, std::pair{"HOME", "/.cache/rtx"}}) {
    const char* const value = std::getenv(variable);
    if (value != nullptr && value[0] == '/') return concat(value, sub);
  }
  return {};
}

}  // namespace rtx::codegen
