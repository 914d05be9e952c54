#include "runtime/package/package.h"

#include <algorithm>
#include <array>
#include <map>

#include "base/folder.h"
#include "base/sha256.h"
#include "base/text.h"
#include "runtime/package/fatbin.h"
#include "runtime/package/yaml.h"

namespace rtx::package {
namespace {

constexpr std::array known_names = {manifest_name, weights_name, fatbin_name};

bool is_known_name(std::string_view name) {
  return std::find(known_names.begin(), known_names.end(), name) != known_names.end();
}

Diagnostic integrity_error(std::string_view id, std::string message) {
  return make_error(ErrorKind::integrity, id, std::move(message));
}

// A file of the package; what the folder says about it becomes an error of the package.
Result<std::shared_ptr<const File>> open_member(const Folder& folder, std::string_view name) {
  auto file = folder.open_file(name);
  if (file) return file;
  const Diagnostic& reason = file.error().first();
  if (reason.id == "E905") return integrity_error("E612", concat("the file '", name, "' is missing"));
  if (reason.id == "E906") return integrity_error("E616", reason.message);
  return file;
}

Result<void> check_listing(const Manifest& manifest, const Folder& folder) {
  auto is_listed = [&](std::string_view name) {
    return std::any_of(manifest.files.begin(), manifest.files.end(),
                       [&](const FileEntry& f) { return f.name == name; });
  };
  for (const FileEntry& file : manifest.files) {
    if (file.name == manifest_name || !is_known_name(file.name)) {
      return integrity_error(
          "E601", concat("not a manifest: it lists the file ", quote_text(file.name), ", which no package has"));
    }
  }
  const bool has_launch = std::any_of(manifest.kernels.begin(), manifest.kernels.end(),
                                      [](const Kernel& k) { return k.launch.has_value(); });
  if ((!manifest.weights.empty() && !is_listed(weights_name)) || (has_launch && !is_listed(fatbin_name))) {
    return integrity_error("E601", "not a manifest: it does not list the file that its weights or kernels are in");
  }
  RTX_ASSIGN(const auto names, folder.names());
  for (const std::string& name : names) {
    if (name == manifest_name || is_listed(name)) continue;
    return integrity_error("E613", concat("the folder holds ", quote_text(name), ", which the manifest does not list"))
        .with_help("a package holds nothing but its own files");
  }
  return Ok{};
}

Result<void> check_size(const File& file, const FileEntry& entry) {
  if (file.size() == entry.bytes) return Ok{};
  return integrity_error("E611", concat("the file '", entry.name, "' does not have the size that the manifest says"))
      .with_expected(concat(entry.bytes, " bytes"))
      .with_got(concat(file.size(), " bytes"))
      .with_help("copy or compile the package again");
}

Result<void> check_hash(const std::string& sha256, const FileEntry& entry) {
  if (sha256 == entry.sha256) return Ok{};
  return integrity_error("E611", concat("the file '", entry.name, "' is not the one that the manifest describes"))
      .with_expected(concat("sha256 ", entry.sha256))
      .with_got(concat("sha256 ", sha256))
      .with_help("copy or compile the package again");
}

// Every launch has a container of its own range, with code for each architecture of the package, and there is no other.
Result<void> check_fatbin(const Manifest& manifest, std::span<const std::byte> bytes) {
  RTX_ASSIGN(const auto containers, read_fatbins(bytes));
  std::map<int64_t, std::pair<const FatbinContainer*, bool>> by_offset;
  for (const FatbinContainer& container : containers) by_offset[container.offset] = {&container, false};
  for (const Kernel& kernel : manifest.kernels) {
    if (!kernel.launch) continue;
    const auto found = by_offset.find(kernel.launch->code_offset);
    if (found == by_offset.end() || found->second.first->bytes != kernel.launch->code_bytes) {
      return integrity_error("E615",
                             concat("kernel ", quote_text(kernel.name), " has no container in '", fatbin_name, "'"));
    }
    auto& [container, is_used] = found->second;
    is_used = true;
    if (!std::equal(container->entries.begin(), container->entries.end(), manifest.archs.begin(), manifest.archs.end(),
                    [](const FatbinEntry& entry, const std::string& arch) { return entry.arch == arch; })) {
      return integrity_error("E615", concat("kernel ", quote_text(kernel.name),
                                            " has code for other architectures than the package"))
          .with_expected(join(manifest.archs, ", "))
          .with_got(join(container->entries, ", ", [](const FatbinEntry& entry) { return entry.arch; }));
    }
  }
  for (const auto& [offset, use] : by_offset) {
    if (!use.second)
      return integrity_error("E615",
                             concat("the container at byte ", offset, " of '", fatbin_name, "' belongs to no kernel"));
  }
  return Ok{};
}

// The manifest and the weights file name the same tensors, with the sizes that the programs use.
Result<void> check_weights(const Manifest& manifest, const SafetensorsIndex& index) {
  for (const std::string& name : manifest.weights) {
    if (!index.contains(name))
      return integrity_error("E618", concat("the weight ", quote_text(name), " is not in '", weights_name, "'"));
  }
  if (index.size() != manifest.weights.size()) {
    return integrity_error(
        "E618", concat("'", weights_name, "' has ", index.size(), " tensors, the manifest ", manifest.weights.size()));
  }
  for (const Program& program : manifest.programs) {
    for (const Buffer& buffer : program.buffers) {
      if (buffer.kind != BufferKind::weight) continue;
      const std::string& name = manifest.weights[buffer.index];
      const int64_t bytes = index.find(name)->second.bytes;
      const auto expected = buffer.bytes.evaluate({});
      if (!expected || *expected != bytes) {
        return integrity_error("E618", concat("the weight ", quote_text(name), " does not have the size that program ",
                                              quote_text(program.name), " uses"))
            .with_expected(concat(buffer.bytes.text(), " bytes"))
            .with_got(concat(bytes, " bytes"));
      }
    }
  }
  return Ok{};
}

Result<Package> open_checked(const std::string& path, const OpenOptions& options) {
  auto opened = Folder::open(path);
  if (!opened && opened.error().first().id == "E904")
    return integrity_error("E612", "not a package: it is not a folder");
  if (!opened) return Diagnostic(opened.error().first()).with_where("");  // the caller puts the path
  const Folder folder = std::move(opened).value();
  auto manifest_file = open_member(folder, manifest_name);
  if (!manifest_file && manifest_file.error().first().id == "E612") {
    return integrity_error("E612", concat("not a package: the folder has no '", manifest_name, "'"));
  }
  if (!manifest_file) return std::move(manifest_file).error();
  if ((*manifest_file)->size() > largest_yaml_bytes) {
    return integrity_error("E601", "the manifest is too large")
        .with_expected(concat("at most ", largest_yaml_bytes, " bytes"));
  }
  std::string text(static_cast<size_t>((*manifest_file)->size()), '\0');
  RTX_TRY((*manifest_file)->read(0, std::as_writable_bytes(std::span(text))));

  Package package;
  package.path = path;
  RTX_ASSIGN(package.manifest, parse_manifest(text, manifest_name));
  package.manifest_sha256 = sha256_hex(text);
  RTX_TRY(check_listing(package.manifest, folder));
  for (const FileEntry& entry : package.manifest.files) {
    RTX_ASSIGN(const auto file, open_member(folder, entry.name));
    RTX_TRY(check_size(*file, entry));
    if (entry.name == fatbin_name) {
      // Hashed in memory and used from there: what is checked is what reaches the driver.
      package.fatbin.resize(static_cast<size_t>(file->size()));
      RTX_TRY(file->read(0, package.fatbin));
      RTX_TRY(check_hash(sha256_hex(package.fatbin), entry));
      RTX_TRY(check_fatbin(package.manifest, package.fatbin));
    } else {
      RTX_ASSIGN(package.weights_index, read_safetensors_index(*file));
      if (options.verify_weights) {
        RTX_ASSIGN(const std::string sha256, sha256_hex(*file));
        RTX_TRY(check_hash(sha256, entry));
      }
      package.weights_file = file;
    }
  }
  RTX_TRY(check_weights(package.manifest, package.weights_index));
  return package;
}

}  // namespace

Result<Package> open_package(const std::string& path, const OpenOptions& options) {
  auto package = open_checked(path, options);
  if (!package) return std::move(package).error().within(escape_text(path));
  return package;
}

bool is_package_folder(const std::string& path) {
  const auto folder = Folder::open(path);
  if (!folder) return false;
  const auto names = folder->names();
  return names &&
         std::all_of(names->begin(), names->end(), [](const std::string& name) { return is_known_name(name); }) &&
         (names->empty() || std::binary_search(names->begin(), names->end(), std::string(manifest_name)));
}

}  // namespace rtx::package
