#include "runtime/package/package.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "base/sha256.h"
#include "runtime/package/fatbin.h"
#include "tests/temp_folder.h"
#include "tests/unit/manifest_samples.h"

namespace rtx::package {
namespace {

namespace fs = std::filesystem;

void put(std::string& out, uint64_t value, int width) {
  for (int i = 0; i < width; ++i) out += static_cast<char>(value >> (8 * i) & 0xFF);
}

std::string fatbin_entry(uint32_t arch, uint64_t flags, std::string_view code) {
  std::string out;
  put(out, 2, 2), put(out, 0x0101, 2), put(out, 64, 4), put(out, code.size(), 8), put(out, 0, 4), put(out, 0, 4);
  put(out, 8, 2), put(out, 1, 2), put(out, arch, 4), put(out, 0, 8), put(out, flags, 8), put(out, 0, 8), put(out, 0, 8);
  return concat(out, code);
}

std::string fatbin(const std::vector<std::string>& entries) {
  std::string payload, out;
  for (const std::string& entry : entries) payload += entry;
  put(out, 0xBA55ED50, 4), put(out, 1, 2), put(out, 16, 2), put(out, payload.size(), 8);
  return out + payload;
}

constexpr std::string_view code =
    "\x7f"
    "ELF code";  // 9 bytes; the container is not looked into any deeper

// A package folder of two files and the manifest.
struct Sample {
  TempFolder folder;
  Manifest manifest = small_manifest();
  std::string fatbin_bytes = fatbin({fatbin_entry(90, 0x100011, code), fatbin_entry(120, 0x1000011, code)});
  std::string weights;

  Sample() {
    const std::vector<SafetensorsTensor> tensors = {{"encoder.weight", DType::f32, {100}, 400}};
    REQUIRE(
        write_safetensors(*this / weights_name, tensors, [](size_t, int64_t, std::span<std::byte> out) -> Result<void> {
          std::fill(out.begin(), out.end(), std::byte{1});
          return Ok{};
        }).ok());
    weights = *read_text_file(*this / weights_name, 1 << 20);
    write();
  }
  std::string operator/(std::string_view name) const { return folder / name; }
  // Writes all files, with the manifest describing them.
  void write() {
    manifest.kernels[0].launch->code_bytes = static_cast<int64_t>(fatbin_bytes.size());
    manifest.files = {{std::string(fatbin_name), static_cast<int64_t>(fatbin_bytes.size()), sha256_hex(fatbin_bytes)},
                      {std::string(weights_name), static_cast<int64_t>(weights.size()), sha256_hex(weights)}};
    write_manifest();
    folder.file(fatbin_name, fatbin_bytes);
    folder.file(weights_name, weights);
  }
  void write_manifest() { folder.file(manifest_name, to_yaml(manifest)); }
  std::string outcome(const OpenOptions& options = {}) const {
    const auto package = open_package(folder.path(), options);
    if (package) return "ok";
    CHECK(package.error().first().where.starts_with(folder.path()));
    return package.error().first().id;
  }
};

TEST_CASE("a whole package is opened") {
  const Sample sample;
  const auto package = open_package(sample.folder.path());
  if (!package) FAIL_CHECK(to_string(package.error().first()));
  REQUIRE(package.ok());
  CHECK(package->manifest == sample.manifest);
  CHECK(package->manifest_sha256 == sha256_hex(to_yaml(sample.manifest)));
  CHECK(package->fatbin.size() == sample.fatbin_bytes.size());
  CHECK(package->weights_index.at("encoder.weight").bytes == 400);
  CHECK(is_package_folder(sample.folder.path()));
}

TEST_CASE("a package for the CPU device needs no fatbin, and one without weights no weights file") {
  Sample sample;
  sample.manifest.archs.clear();
  for (Kernel& kernel : sample.manifest.kernels) kernel.launch.reset(), kernel.matmul.reset();
  Program& program = sample.manifest.programs[0];
  program.steps[0].scratch.clear();
  program.buffers.resize(4);  // those of the scratch are the last
  sample.manifest.files = {sample.manifest.files[1]};
  sample.write_manifest();
  CHECK(sample.outcome() == "E613");
  fs::remove(sample / fatbin_name);
  CHECK(sample.outcome() == "ok");
  sample.manifest.weights.clear();
  sample.manifest.programs.clear();
  sample.manifest.files.clear();
  sample.write_manifest();
  fs::remove(sample / weights_name);
  CHECK(sample.outcome() == "ok");
  CHECK(open_package(sample.folder.path())->weights_file == nullptr);
}

TEST_CASE("every flipped byte of every file is noticed") {
  const Sample sample;
  REQUIRE(sample.outcome() == "ok");
  for (const std::string_view name : {manifest_name, fatbin_name, weights_name}) {
    const std::string good = *read_text_file(sample / name, 1 << 20);
    for (size_t i = 0; i < good.size(); ++i) {
      std::string damaged = good;
      damaged[i] = static_cast<char>(damaged[i] ^ 1 << i % 8);
      sample.folder.file(name, damaged);
      const std::string id = sample.outcome();
      CAPTURE(name);
      CAPTURE(i);
      REQUIRE((id == "E611" || (name == manifest_name && (id == "E601" || id == "E602")) ||
               (name == weights_name && id.starts_with("E62"))));
    }
    sample.folder.file(name, good);
  }
  CHECK(sample.outcome() == "ok");
}

TEST_CASE("truncated, empty, grown, missing and extra files are noticed") {
  for (const std::string_view name : {fatbin_name, weights_name}) {
    const Sample sample;
    const std::string good = *read_text_file(sample / name, 1 << 20);
    for (const std::string& damaged : {good.substr(0, good.size() - 1), std::string(), good + "x"}) {
      sample.folder.file(name, damaged);
      CHECK(sample.outcome() == "E611");
      CHECK(sample.outcome({.verify_weights = false}) == "E611");  // sizes are always checked
    }
    fs::remove(sample / name);
    CHECK(sample.outcome() == "E612");
  }
  const Sample sample;
  sample.folder.file("extra", "");
  CHECK(sample.outcome() == "E613");
  CHECK(!is_package_folder(sample.folder.path()));
  fs::remove(sample / "extra");
  fs::remove(sample / manifest_name);
  CHECK(sample.outcome() == "E612");
  CHECK(!is_package_folder(sample.folder.path()));
}

TEST_CASE("a damaged weight is noticed only when the weights are hashed") {
  const Sample sample;
  std::string damaged = sample.weights;
  damaged.back() = 2;
  sample.folder.file(weights_name, damaged);
  CHECK(sample.outcome() == "E611");
  CHECK(sample.outcome({.verify_weights = false}) == "ok");
}

TEST_CASE("symbolic links, folders and FIFOs in a package are refused without following or waiting") {
  for (const std::string_view name : {manifest_name, fatbin_name, weights_name}) {
    const Sample sample;
    const TempFolder outside;
    fs::rename(sample / name, outside / "real");
    fs::create_symlink(outside / "real", sample / name);
    CHECK(sample.outcome() == "E616");
    fs::remove(sample / name);
    fs::create_directory(sample / name);
    CHECK(sample.outcome() == "E616");
    fs::remove(sample / name);
    REQUIRE(mkfifo((sample / name).c_str(), 0600) == 0);
    CHECK(sample.outcome() == "E616");
  }
}

TEST_CASE("what is no package folder says so") {
  const TempFolder folder;
  CHECK(open_package(folder / "missing").error().first().id == "E901");
  CHECK(open_package(folder.file("file", "")).error().first().id == "E612");
  CHECK(!is_package_folder(folder / "file"));
  fs::remove(folder / "file");
  CHECK(open_package(folder.path()).error().first().id == "E612");
  CHECK(is_package_folder(folder.path()));  // empty: a writer may replace it
}

TEST_CASE("a manifest that lists strange files is refused") {
  for (const char* name : {"../weights.safetensors", "/etc/passwd", "manifest.yaml", "README"}) {
    Sample sample;
    sample.manifest.files.push_back({name, 0, sha256_hex("")});
    sample.write_manifest();
    CHECK(sample.outcome() == "E601");
  }
  Sample sample;
  sample.manifest.files.pop_back();
  sample.write_manifest();
  CHECK(sample.outcome() == "E601");
}

TEST_CASE("the fatbin holds one container for each kernel, with the architectures of the package") {
  auto outcome = [](std::string bytes, int64_t code_bytes = 0, int64_t code_offset = 0) {
    Sample sample;
    sample.fatbin_bytes = std::move(bytes);
    sample.write();
    sample.manifest.kernels[0].launch->code_offset = code_offset;
    if (code_bytes != 0) sample.manifest.kernels[0].launch->code_bytes = code_bytes;
    sample.write_manifest();
    return sample.outcome();
  };
  const std::string e90 = fatbin_entry(90, 0x100011, code), e120 = fatbin_entry(120, 0x11, code);
  const std::string good = fatbin({e90, e120});
  const auto good_bytes = static_cast<int64_t>(good.size());
  CHECK(outcome(good) == "ok");
  CHECK(outcome("") == "E615");
  CHECK(outcome(fatbin({})) == "E615");
  CHECK(outcome(fatbin({e90})) == "E615");
  CHECK(outcome(fatbin({e120, e90})) == "E615");
  CHECK(outcome(fatbin({fatbin_entry(90, 0x11, code), e120})) == "E615");        // sm_90, not sm_90a
  CHECK(outcome(fatbin({e90, fatbin_entry(120, 0x8011, code)})) == "E615");      // compressed
  CHECK(outcome(fatbin({e90, fatbin_entry(120, 0x11, "PTX text")})) == "E615");  // no ELF file
  CHECK(outcome(fatbin({e90, fatbin_entry(120, 0x11, "")})) == "E615");
  CHECK(outcome(good + good, good_bytes) == "E615");  // a container of no kernel
  CHECK(outcome(good, good_bytes - 1) == "E615");
  CHECK(outcome(good, good_bytes, 1) == "E615");
  CHECK(outcome(good + "x", good_bytes) == "E615");
  std::string lies = good;
  lies[8] = static_cast<char>(lies[8] + 1);  // the payload is one byte longer than the file
  CHECK(outcome(lies) == "E615");
}

TEST_CASE("no cut or damaged fatbin is read out of bounds") {
  const std::string good = fatbin({fatbin_entry(90, 0x100011, code), fatbin_entry(120, 0x11, code)});
  const auto containers = read_fatbins(std::as_bytes(std::span(good)));
  REQUIRE(containers.ok());
  CHECK(containers->at(0).entries[1].arch == "sm_120");
  CHECK(good.substr(static_cast<size_t>(containers->at(0).entries[1].offset)) == code);
  for (size_t i = 0; i < good.size(); ++i) {
    // Heap copies of the exact size, so that a sanitizer sees any read past the end.
    const std::vector<char> cut(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(i));
    CHECK(read_fatbins(std::as_bytes(std::span(cut))).ok() == (i == 0));
    for (const int value : {0, 1, 0x7F, 0xFF}) {
      std::vector<char> damaged(good.begin(), good.end());
      damaged[i] = static_cast<char>(value);
      (void)read_fatbins(std::as_bytes(std::span(damaged))).ok();
    }
  }
}

TEST_CASE("the weights file holds the weights of the manifest, in the sizes that the steps use") {
  Sample renamed;
  renamed.manifest.weights = {"other"};
  renamed.write_manifest();
  CHECK(renamed.outcome() == "E618");
  Sample fewer;
  fewer.manifest.weights.clear();
  fewer.manifest.programs.clear();
  fewer.write_manifest();
  CHECK(fewer.outcome() == "E618");
  Sample larger;
  larger.manifest.programs[0].buffers[1].bytes = Formula(404);
  larger.write_manifest();
  CHECK(larger.outcome() == "E618");
}

}  // namespace
}  // namespace rtx::package
