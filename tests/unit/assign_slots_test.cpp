#include "codegen/assign_slots.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

namespace rtx::codegen {
namespace {

// Random lives of values of sizes in three dims, as a step list would give them.
std::vector<LiveRange> random_ranges(std::mt19937& random, int count) {
  const Dim b = Dim::symbol("b"), s = Dim::symbol("s");
  const Dim sizes[] = {b * s * 64, b * s * 256, b * s * s * 4, b * 4, Dim(1024), s * 16, b * s * 64 + 8};
  std::vector<LiveRange> ranges;
  for (int step = 0; step < count; ++step) {
    ranges.push_back({sizes[random() % std::size(sizes)], step, step + static_cast<int>(random() % 6)});
  }
  return ranges;
}

const SymbolRanges symbols = {{"b", {1, 64, 4}}, {"s", {1, 512, 128}}};

// Two ranges that overlap in time and share a slot, or a slot too small for one of its ranges.
bool has_conflict(const std::vector<LiveRange>& ranges, const SlotAssignment& slots, const SymbolValues& values) {
  for (size_t i = 0; i < ranges.size(); ++i) {
    if (*ranges[i].bytes.evaluate(values) > *slots.slots[slots.slot_of[i]].evaluate(values)) return true;
    for (size_t j = 0; j < i; ++j) {
      const bool both_live = ranges[i].first <= ranges[j].last && ranges[j].first <= ranges[i].last;
      if (both_live && slots.slot_of[i] == slots.slot_of[j]) return true;
    }
  }
  return false;
}

SymbolValues random_values(std::mt19937& random) {
  return {{"b", static_cast<int64_t>(random() % 64 + 1)}, {"s", static_cast<int64_t>(random() % 512 + 1)}};
}

TEST_CASE("no two values that are alive at once share a slot, and every value fits its slot") {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    const std::vector<LiveRange> ranges = random_ranges(random, static_cast<int>(random() % 60) + 1);
    const SlotAssignment slots = assign_slots(ranges, symbols);
    CHECK(!has_conflict(ranges, slots, random_values(random)));
  }
}

TEST_CASE("an assignment with a planted overlap is recognised as one") {
  std::mt19937 random(7);
  int found = 0;
  for (int round = 0; round < 50; ++round) {
    const std::vector<LiveRange> ranges = random_ranges(random, 30);
    SlotAssignment slots = assign_slots(ranges, symbols);
    // A neighbour in time whose slot is another one moves into this one's.
    for (size_t i = 1; i < ranges.size(); ++i) {
      if (ranges[i - 1].last < ranges[i].first) continue;
      slots.slot_of[i] = slots.slot_of[i - 1];
      ++found;
      CHECK(has_conflict(ranges, slots, random_values(random)));
      break;
    }
  }
  CHECK(found > 40);
}

TEST_CASE("no arena is smaller than the lower bound, and at the planned sizes ours is near it") {
  std::mt19937 random(11);
  const SymbolValues planned = representative_values(symbols);
  double worst = 0;
  for (int round = 0; round < 100; ++round) {
    const std::vector<LiveRange> ranges = random_ranges(random, 80);
    const SlotAssignment slots = assign_slots(ranges, symbols);
    int64_t total = 0, live_most = 0;
    for (const Dim& slot : slots.slots) total += *slot.evaluate(planned);
    for (int step = 0; step < 90; ++step) {
      int64_t live = 0;
      for (const LiveRange& range : ranges) {
        if (range.first <= step && step <= range.last) live += *range.bytes.evaluate(planned);
      }
      live_most = std::max(live_most, live);
    }
    CHECK(*slots.lower_bound.evaluate(planned) == live_most);
    CHECK(total >= live_most);
    worst = std::max(worst, static_cast<double>(total) / static_cast<double>(live_most));
  }
  CHECK(worst < 1.6);
}

TEST_CASE("a value of a size that no range orders grows its slot to the maximum") {
  const Dim b = Dim::symbol("b"), s = Dim::symbol("s");
  const std::vector<LiveRange> ranges = {{b * 16, 0, 1}, {s * 16, 2, 3}};
  const SlotAssignment slots = assign_slots(ranges, symbols);
  REQUIRE(slots.slots.size() == 1);
  CHECK(slots.slots[0] == max(b * 16, s * 16));
}

TEST_CASE("nothing to place gives no slots") {
  const SlotAssignment slots = assign_slots({}, symbols);
  CHECK(slots.slots.empty());
  CHECK(slots.lower_bound.is(0));
}

}  // namespace
}  // namespace rtx::codegen
