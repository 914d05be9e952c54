#include "frontend/external_keys.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <vector>

#include "base/text.h"

namespace rtx::onnx {
namespace {

Diagnostic invalid(std::string_view id, std::string message) {
  return make_error(ErrorKind::invalid, id, std::move(message));
}

Result<int64_t> parse_decimal(std::string_view key, std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool digits = std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (text.empty() || !digits || error != std::errc{} || end != text.data() + text.size())
    return invalid("E315", concat("external data: bad ", key, " '", escape_text(text, 40), "'"))
        .with_expected("a decimal number of bytes below 2^63");
  return value;
}

}  // namespace

Result<ExternalKeys> external_keys(const onnx_schema::TensorProto& tensor) {
  ExternalKeys keys;
  std::vector<std::string_view> seen;
  for (const auto& entry : tensor.external_data()) {
    const std::string& key = entry.key();
    if (key != "location" && key != "offset" && key != "length" && key != "checksum")
      return invalid("E317", concat("external data: unknown key '", escape_text(key, 40), "'"))
          .with_expected("location, offset, length or checksum");
    if (std::find(seen.begin(), seen.end(), key) != seen.end())
      return invalid("E317", concat("external data: key '", key, "' occurs twice"));
    seen.push_back(key);
    if (key == "location") keys.location = entry.value();
    if (key == "offset") {
      RTX_ASSIGN(keys.offset, parse_decimal(key, entry.value()));
    }
    if (key == "length") {
      RTX_ASSIGN(keys.length, parse_decimal(key, entry.value()));
    }
  }
  if (std::find(seen.begin(), seen.end(), "location") == seen.end())
    return invalid("E317", "external data: key 'location' is missing");
  return keys;
}

}  // namespace rtx::onnx
