#include "codegen/assign_slots.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace rtx::codegen {
namespace {

// More distinct sizes than this do not share a slot: formulas stay readable and below the limits of the manifest.
constexpr size_t most_sizes_a_slot = 6;
constexpr size_t most_sums = 16;

bool at_least(const Dim& a, const Dim& b, const SymbolRanges& symbols) {
  return a == b || (a - b).lower_bound(symbols) >= 0;
}

// Adds a size to a set none of whose members provably covers another.
bool add_size(std::vector<Dim>& sizes, const Dim& size, const SymbolRanges& symbols, size_t limit) {
  for (const Dim& other : sizes) {
    if (at_least(other, size, symbols)) return true;
  }
  std::vector<Dim> kept;
  for (const Dim& other : sizes) {
    if (!at_least(size, other, symbols)) kept.push_back(other);
  }
  if (kept.size() >= limit) return false;
  kept.push_back(size);
  sizes = std::move(kept);
  return true;
}

// A balanced tree, so that the formula nests little.
Dim max_of(std::span<const Dim> sizes) {
  if (sizes.empty()) return Dim(0);
  if (sizes.size() == 1) return sizes[0];
  const size_t half = sizes.size() / 2;
  return max(max_of(sizes.first(half)), max_of(sizes.subspan(half)));
}

int64_t size_at(const Dim& bytes, const SymbolValues& values) {
  const Result<int64_t> size = bytes.evaluate(values);
  return size ? *size : INT64_MAX;
}

struct Slot {
  std::vector<Dim> sizes;
  int64_t representative = 0;
  std::map<int, int> busy;  // first -> last of the ranges in it

  bool free_during(int first, int last) const {
    auto after = busy.upper_bound(last);  // ranges in a slot do not overlap: the one before is the only candidate
    return after == busy.begin() || std::prev(after)->second < first;
  }
};

Dim lower_bound_of(std::span<const LiveRange> ranges, const SymbolRanges& symbols, const SymbolValues& values) {
  std::map<int, Dim> change;  // of the live sum, at a step
  for (const LiveRange& range : ranges) {
    change[range.first] = change[range.first] + range.bytes;
    change[range.last + 1] = change[range.last + 1] - range.bytes;
  }
  std::vector<Dim> sums;
  Dim live(0);
  for (const auto& [step, difference] : change) {
    live = live + difference;
    sums.push_back(live);
  }
  std::sort(sums.begin(), sums.end());
  sums.erase(std::unique(sums.begin(), sums.end()), sums.end());
  std::stable_sort(sums.begin(), sums.end(),
                   [&](const Dim& a, const Dim& b) { return size_at(a, values) > size_at(b, values); });
  std::vector<Dim> largest;
  for (const Dim& sum : sums) add_size(largest, sum, symbols, most_sums);
  std::sort(largest.begin(), largest.end());
  return max_of(largest);
}

}  // namespace

SymbolValues representative_values(const SymbolRanges& symbols) {
  SymbolValues values;
  for (const auto& [name, range] : symbols) {
    values[name] = range.opt ? range.opt : std::clamp<int64_t>(128, range.min, std::max(range.min, range.max));
  }
  return values;
}

SlotAssignment assign_slots(std::span<const LiveRange> ranges, const SymbolRanges& symbols) {
  const SymbolValues values = representative_values(symbols);
  std::vector<int64_t> size(ranges.size());
  for (size_t i = 0; i < ranges.size(); ++i) size[i] = size_at(ranges[i].bytes, values);
  std::vector<size_t> order(ranges.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return size[a] > size[b]; });

  SlotAssignment result;
  result.slot_of.resize(ranges.size());
  std::vector<Slot> slots;
  for (size_t i : order) {
    const LiveRange& range = ranges[i];
    size_t best = slots.size();
    for (size_t s = 0; s < slots.size(); ++s) {
      if (best < slots.size() && slots[s].representative >= slots[best].representative) continue;
      if (!slots[s].free_during(range.first, range.last)) continue;
      std::vector<Dim> sizes = slots[s].sizes;
      if (add_size(sizes, range.bytes, symbols, most_sizes_a_slot)) best = s;
    }
    if (best == slots.size()) slots.emplace_back().representative = size[i];
    add_size(slots[best].sizes, range.bytes, symbols, most_sizes_a_slot);
    slots[best].busy[range.first] = range.last;
    result.slot_of[i] = static_cast<uint32_t>(best);
  }
  for (const Slot& slot : slots) {
    std::vector<Dim> sizes = slot.sizes;
    std::sort(sizes.begin(), sizes.end());
    result.slots.push_back(max_of(sizes));
  }
  result.lower_bound = lower_bound_of(ranges, symbols, values);
  return result;
}

}  // namespace rtx::codegen
