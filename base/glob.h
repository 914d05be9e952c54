// Patterns of names: '*' fits any letters or none, '?' one letter, every other letter itself.
#pragma once

#include <string_view>

namespace rtx {

// Whether the pattern fits the whole text. Time is at most the product of the lengths.
bool glob_fits(std::string_view pattern, std::string_view text);

}  // namespace rtx
