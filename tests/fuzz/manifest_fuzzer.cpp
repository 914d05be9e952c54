// The manifest of a package, with its last line (the hash of all before it) made right, since no mutation would keep it
// so. What is accepted is written and read again as the same manifest.

#include "base/sha256.h"
#include "base/text.h"
#include "runtime/package/manifest.h"
#include "tests/fuzz/fuzz_target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace rtx;
  constexpr std::string_view last_key = "checksum: ";
  std::string text(fuzz::as_text(data, size));
  const size_t last_line = text.rfind('\n', text.empty() ? 0 : text.size() - 2) + 1;
  const bool has_hash = std::string_view(text).substr(last_line).starts_with(last_key);
  if (has_hash) {
    text.resize(last_line);
    text += concat(last_key, "\"", sha256_hex(text), "\"\n");
  }
  const Result<package::Manifest> manifest = package::parse_manifest(text, "manifest.yaml");
  if (!manifest) {
    fuzz::require_clean(manifest.error());
    return 0;
  }
  const std::string written = package::to_yaml(*manifest);
  const Result<package::Manifest> again = package::parse_manifest(written, "written");
  if (!again) fuzz::require(false, "what is written is read", to_string(again.error().first()) + written);
  fuzz::require(*again == *manifest, "the manifest is the same again", written);
  return 0;
}
