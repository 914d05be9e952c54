// "did you mean ...?"
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace rtx {

// The candidate with the fewest insertions, deletions and replacements of a letter from `name` (case counts for
// nothing), if these are at most a third of its letters; else empty. Of equals the first.
std::string nearest_name(std::string_view name, const std::vector<std::string>& candidates);

}  // namespace rtx
