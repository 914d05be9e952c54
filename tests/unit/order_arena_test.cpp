#include "codegen/order_arena.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <random>

namespace rtx::codegen {
namespace {

using package::Life;

const SymbolRanges symbols = {{"b", {1, 64, 4}}, {"s", {1, 512, 128}}};

struct Pieces {
  std::vector<Dim> bytes;
  std::vector<Life> lives;

  void add(Dim size, int64_t first, int64_t last) {
    bytes.push_back(std::move(size));
    lives.push_back({first, last});
  }
  // Arena over lower bound, in this order.
  double ratio(const std::vector<uint32_t>& order, const SymbolValues& values) const {
    std::vector<Life> ordered;
    std::vector<int64_t> sizes;
    for (uint32_t piece : order) {
      ordered.push_back(lives[piece]);
      sizes.push_back(*bytes[piece].evaluate(values));
    }
    const auto layout = package::lay_out_pieces(package::pieces_below(ordered), ordered, sizes).value();
    return static_cast<double>(layout.bytes) / static_cast<double>(package::most_alive(ordered, sizes).value());
  }
};

// Values of sizes in two dims, as a step list would give them.
Pieces random_pieces(std::mt19937& random, int count) {
  const Dim b = Dim::symbol("b"), s = Dim::symbol("s");
  const Dim sizes[] = {b * s * 64, b * s * 256, b * s * s * 4, b * 4, Dim(1024), s * 16, b * s * 64 + 8};
  Pieces pieces;
  for (int step = 0; step < count; ++step)
    pieces.add(sizes[random() % std::size(sizes)], step, step + static_cast<int64_t>(random() % 6));
  return pieces;
}

TEST_CASE("an order is a permutation, the same whenever it is asked for") {
  std::mt19937 random(7);
  for (int round = 0; round < 20; ++round) {
    const Pieces pieces = random_pieces(random, static_cast<int>(random() % 60));
    std::vector<uint32_t> order = order_arena(pieces.bytes, pieces.lives, symbols);
    CHECK(order == order_arena(pieces.bytes, pieces.lives, symbols));
    std::sort(order.begin(), order.end());
    std::vector<uint32_t> all(pieces.bytes.size());
    std::iota(all.begin(), all.end(), 0);
    CHECK(order == all);
  }
}

TEST_CASE("the arena is near the lower bound under other bindings than those that were tried, too") {
  std::mt19937 random(11);
  double sum = 0, unordered = 0;
  int count = 0;
  for (int round = 0; round < 30; ++round) {
    const Pieces pieces = random_pieces(random, 80);
    const std::vector<uint32_t> order = order_arena(pieces.bytes, pieces.lives, symbols);
    std::vector<uint32_t> in_time(order.size());
    std::iota(in_time.begin(), in_time.end(), 0);
    for (const SymbolValues& values :
         {SymbolValues{{"b", 3}, {"s", 77}}, SymbolValues{{"b", 64}, {"s", 512}}, SymbolValues{{"b", 1}, {"s", 40}}}) {
      sum += pieces.ratio(order, values);
      unordered += pieces.ratio(in_time, values);
      ++count;
    }
  }
  MESSAGE("mean ratio " << sum / count << ", in order of time " << unordered / count);
  CHECK(sum / count < 1.15);
  CHECK(unordered / count > 1.3);  // control: the order matters
}

TEST_CASE("layers of a transformer reach the lower bound under every binding") {
  const Dim rows = Dim::symbol("b") * Dim::symbol("s");
  Pieces pieces;
  pieces.add(Dim::symbol("b") * Dim::symbol("s") * 4, 0, 12 * 7);  // a mask
  for (int64_t layer = 0; layer < 12; ++layer) {
    const int64_t step = layer * 7;
    pieces.add(rows * 3072 * 3, step, step + 1);      // q, k and v
    pieces.add(rows * 3072, step + 1, step + 2);      // attention
    pieces.add(rows * 3072, step + 2, step + 3);      // its projection with the residual
    pieces.add(rows * 3072, step + 3, step + 5);      // norm
    pieces.add(rows * 3072 * 4, step + 4, step + 5);  // inner product
    pieces.add(rows * 3072, step + 5, step + 6);      // outer product with the residual
    pieces.add(rows * 3072, step + 6, step + 9);      // norm
  }
  const std::vector<uint32_t> order = order_arena(pieces.bytes, pieces.lives, symbols);
  for (int64_t b : {1, 7, 64})
    for (int64_t s : {1, 16, 100, 512}) CHECK(pieces.ratio(order, {{"b", b}, {"s", s}}) <= 1.0001);
}

TEST_CASE("nothing to place, and sizes that cannot be counted") {
  CHECK(order_arena({}, {}, symbols).empty());
  const std::vector<Dim> bytes = {Dim(INT64_MAX), Dim::symbol("b") * Dim(INT64_MAX / 2)};
  const std::vector<Life> lives = {{0, 1}, {1, 2}};
  CHECK(order_arena(bytes, lives, symbols) == std::vector<uint32_t>{0, 1});
}

TEST_CASE("many pieces that are all alive at once take bounded time") {
  Pieces pieces;
  for (int64_t i = 0; i < 6000; ++i) pieces.add(Dim(i * 100), i, 6000);
  CHECK(order_arena(pieces.bytes, pieces.lives, symbols).size() == 6000);
}

}  // namespace
}  // namespace rtx::codegen
