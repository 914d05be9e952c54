#include "runtime/package/arena_layout.h"

#include <doctest/doctest.h>

#include <random>

namespace rtx::package {
namespace {

bool both_alive(const Life& a, const Life& b) { return a.first <= b.last && b.first <= a.last; }

std::vector<Life> random_lives(std::mt19937& random, size_t count) {
  std::vector<Life> lives;
  for (size_t i = 0; i < count; ++i) {
    const int64_t first = static_cast<int64_t>(random() % 40);
    lives.push_back({first, first + static_cast<int64_t>(random() % 12) - 1});  // one in twelve is never alive
  }
  return lives;
}

// The number of pairs of pieces that are alive at once and overlap.
int overlaps(const std::vector<Life>& lives, const std::vector<int64_t>& bytes, const std::vector<int64_t>& offsets) {
  int found = 0;
  for (size_t i = 0; i < lives.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      found += lives[i].first <= lives[i].last && lives[j].first <= lives[j].last && both_alive(lives[i], lives[j]) &&
               offsets[i] < offsets[j] + bytes[j] && offsets[j] < offsets[i] + bytes[i];
  return found;
}

TEST_CASE("pieces that are alive at once never overlap, and each lies as low as those before it let it") {
  std::mt19937 random(3);
  int control = 0;
  for (int round = 0; round < 300; ++round) {
    const std::vector<Life> lives = random_lives(random, random() % 50);
    std::vector<int64_t> bytes;
    for (size_t i = 0; i < lives.size(); ++i) bytes.push_back(static_cast<int64_t>(random() % 3000));
    const auto below = pieces_below(lives);
    const ArenaLayout layout = lay_out_pieces(below, lives, bytes).value();
    CHECK(overlaps(lives, bytes, layout.offsets) == 0);
    int64_t highest = 0, most = 0;
    for (size_t i = 0; i < lives.size(); ++i) {
      CHECK(layout.offsets[i] % alignment == 0);
      if (lives[i].last < lives[i].first) continue;
      int64_t lowest = 0;
      for (size_t j = 0; j < i; ++j)
        if (lives[j].first <= lives[j].last && both_alive(lives[i], lives[j]))
          lowest = std::max(lowest, layout.offsets[j] + aligned(bytes[j]).value());
      CHECK(layout.offsets[i] == lowest);
      highest = std::max(highest, layout.offsets[i] + aligned(bytes[i]).value());
    }
    for (int64_t step = 0; step < 60; ++step) {
      int64_t alive = 0;
      for (size_t i = 0; i < lives.size(); ++i)
        if (both_alive(lives[i], {step, step})) alive += aligned(bytes[i]).value();
      most = std::max(most, alive);
    }
    CHECK(layout.bytes == highest);
    CHECK(most_alive(lives, bytes).value() == most);
    CHECK(highest >= most);
    // Control: without what they lie above, pieces overlap.
    const std::vector<std::vector<uint32_t>> nothing(lives.size());
    control += overlaps(lives, bytes, lay_out_pieces(nothing, lives, bytes).value().offsets) > 0;
  }
  CHECK(control > 200);
}

TEST_CASE("lists of pieces below are short: few for each change of what is alive") {
  std::vector<Life> lives;
  for (int64_t i = 0; i < 2000; ++i) lives.push_back({i, 4000 - i});  // all alive at step 2000
  size_t entries = 0;
  for (const auto& list : pieces_below(lives)) entries += list.size();
  CHECK(entries < 3 * lives.size());
}

TEST_CASE("sizes that are negative or do not fit 64 bits are refused") {
  const std::vector<Life> lives = {{0, 1}, {1, 2}, {0, -1}};
  const auto below = pieces_below(lives);
  auto refused = [&](std::vector<int64_t> bytes) {
    const auto layout = lay_out_pieces(below, lives, bytes);
    const auto most = most_alive(lives, bytes);
    if (!layout) CHECK(layout.error().first().id == "E506");
    return !layout.ok() && (!most.ok() || bytes[2] != 0);
  };
  CHECK(lay_out_pieces(below, lives, std::vector<int64_t>{1, 257, 1000}).value().bytes == 768);
  CHECK(lay_out_pieces(below, lives, std::vector<int64_t>{1, 257, 1000}).value().offsets ==
        std::vector<int64_t>{0, 256, 0});
  CHECK(refused({-1, 1, 0}));
  CHECK(refused({1, -1, 0}));
  CHECK(refused({1, 1, -1}));
  CHECK(refused({INT64_MAX, 0, 0}));
  CHECK(refused({INT64_MAX - 600, 1000, 0}));
  CHECK(!refused({INT64_MAX - 2000, 1000, 0}));
}

TEST_CASE("the life of a piece goes from the first step that names it to the last") {
  Program program;
  program.arena = {Formula(1), Formula(1), Formula(1)};
  program.buffers = {{BufferKind::arena, 1, Formula(1)},
                     {BufferKind::arena, 0, Formula(1)},
                     {BufferKind::arena, 1, Formula(1)},
                     {BufferKind::output, 0, Formula(1)}};
  program.steps = {{0, {}, {0}, {}, {}}, {0, {0}, {3}, {1}, {}}, {0, {}, {2}, {}, {}}, {0, {2}, {3}, {}, {}}};
  CHECK(arena_lives(program) == std::vector<Life>{{1, 1}, {0, 3}, {0, -1}});
}

}  // namespace
}  // namespace rtx::package
