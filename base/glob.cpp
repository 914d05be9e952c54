#include "base/glob.h"

namespace rtx {

bool glob_fits(std::string_view pattern, std::string_view text) {
  size_t p = 0, t = 0;
  // Where to go on if what follows the last '*' does not fit: the star takes one letter more.
  size_t star = std::string_view::npos, taken = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      taken = t;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p, ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++taken;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

}  // namespace rtx
