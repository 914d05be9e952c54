#include "base/nearest_name.h"

#include <algorithm>
#include <cctype>
#include <numeric>
#include <utility>

namespace rtx {
namespace {

constexpr size_t longest_name = 200;  // the work grows with the product of the lengths

// Levenshtein's distance, one row of the table at a time.
size_t distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i + 1);
    for (size_t j = 0; j < b.size(); ++j) {
      const bool same =
          std::tolower(static_cast<unsigned char>(a[i])) == std::tolower(static_cast<unsigned char>(b[j]));
      const size_t replaced = diagonal + (same ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

}  // namespace

std::string nearest_name(std::string_view name, const std::vector<std::string>& candidates) {
  if (name.size() > longest_name) return {};
  std::string best;
  size_t best_distance = 0;
  for (const std::string& candidate : candidates) {
    if (candidate.size() > longest_name) continue;
    const size_t changes = distance(name, candidate);
    if (changes > std::max(name.size(), candidate.size()) / 3) continue;
    if (!best.empty() && changes >= best_distance) continue;
    best = candidate;
    best_distance = changes;
  }
  return best;
}

}  // namespace rtx
