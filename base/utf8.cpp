#include "base/utf8.h"

namespace rtx {

// The Unicode Standard 15.0, table 3-7 (well-formed UTF-8 byte sequences).
std::optional<Utf8Character> decode_utf8(std::string_view text, size_t position) {
  if (position >= text.size()) return std::nullopt;
  auto byte = [&](size_t i) { return static_cast<unsigned char>(text[position + i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return Utf8Character{lead, 1};
  const int length = lead >= 0xC2 && lead <= 0xDF   ? 2
                     : lead >= 0xE0 && lead <= 0xEF ? 3
                     : lead >= 0xF0 && lead <= 0xF4 ? 4
                                                    : 0;
  if (length == 0 || text.size() - position < static_cast<size_t>(length)) return std::nullopt;
  const unsigned char low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const unsigned char high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  if (byte(1) < low || byte(1) > high) return std::nullopt;
  char32_t code_point = lead & (0x7F >> length);
  for (int i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return std::nullopt;
    code_point = code_point << 6 | (byte(i) & 0x3F);
  }
  return Utf8Character{code_point, length};
}

bool is_utf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const auto character = decode_utf8(text, i);
    if (!character) return false;
    i += character->bytes;
  }
  return true;
}

}  // namespace rtx
