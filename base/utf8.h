// UTF-8, decoded strictly (no overlong forms, no surrogates, nothing above U+10FFFF).
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace rtx {

struct Utf8Character {
  char32_t code_point;
  int bytes;  // 1 to 4
};

// The character that starts at text[position]; nullopt if the bytes there are not UTF-8.
std::optional<Utf8Character> decode_utf8(std::string_view text, size_t position);

bool is_utf8(std::string_view text);

}  // namespace rtx
