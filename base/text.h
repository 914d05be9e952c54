// Building strings from parts: concat("axis ", 3, " of ", type.str()).
#pragma once

#include <charconv>
#include <concepts>
#include <string>
#include <string_view>
#include <vector>

namespace rtx {

inline void append(std::string& out, std::string_view text) { out += text; }
inline void append(std::string& out, char c) { out += c; }
template <std::integral T>
requires(!std::same_as<T, char> && !std::same_as<T, bool>) void append(std::string& out, T value) {
  out += std::to_string(value);
}
// The shortest text that reads back to the same value; "nan", "inf", "-inf".
inline void append(std::string& out, double value) {
  char buffer[32];
  out.append(buffer, std::to_chars(buffer, buffer + sizeof buffer, value).ptr);
}

template <typename... Parts>
std::string concat(const Parts&... parts) {
  std::string out;
  (append(out, parts), ...);
  return out;
}

// "a, b, c"
template <typename Range, typename ToText>
std::string join(const Range& range, std::string_view separator, ToText to_text) {
  std::string out;
  bool first = true;
  for (const auto& item : range) {
    if (!first) out += separator;
    first = false;
    append(out, to_text(item));
  }
  return out;
}
inline std::string join(const std::vector<std::string>& parts, std::string_view separator) {
  return join(parts, separator, [](const std::string& s) -> std::string_view { return s; });
}

}  // namespace rtx
