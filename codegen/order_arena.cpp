#include "codegen/order_arena.h"

#include <algorithm>
#include <numeric>

#include "codegen/representative_values.h"

namespace rtx::codegen {
namespace {

using package::Life;

// Steps of work, one for each look at a piece: a fraction of a second.
constexpr int64_t most_work = 30'000'000;
constexpr int most_changes = 4000, changes_a_round = 500;
// Pairs of pieces that are alive at once; with more of them the order is that of time.
constexpr size_t most_pairs = 4'000'000;
constexpr size_t most_symbols_alone = 4;

using Order = std::vector<uint32_t>;

// Bindings under which an order is judged. The first ones are also those that placements are made for.
std::vector<SymbolValues> bindings_for(const SymbolRanges& symbols) {
  std::vector<SymbolValues> bindings = {representative_values(symbols)};
  auto add = [&](auto value_of) {
    SymbolValues values;
    for (const auto& [name, range] : symbols)
      values[name] = std::clamp<int64_t>(value_of(name), range.min, std::max(range.min, range.max));
    if (std::find(bindings.begin(), bindings.end(), values) == bindings.end()) bindings.push_back(std::move(values));
  };
  for (int64_t size : {16, 1, 512, 64, 3, 2, 4}) add([&](const std::string&) { return size; });
  size_t alone = 0;
  for (const auto& [symbol, range] : symbols) {
    if (symbols.size() < 2 || alone++ == most_symbols_alone) break;
    add([&](const std::string& name) { return name == symbol ? 512 : 2; });
    add([&](const std::string& name) { return name == symbol ? 2 : 256; });
  }
  return bindings;
}

class ArenaOrderer {
 public:
  ArenaOrderer(std::span<const Dim> bytes, std::span<const Life> lives, const SymbolRanges& symbols) : lives_(lives) {
    for (const SymbolValues& binding : bindings_for(symbols)) {
      std::vector<int64_t> sizes;
      for (const Dim& size : bytes) {
        const Result<int64_t> value = size.evaluate(binding);
        const Result<int64_t> rounded = value ? package::aligned(*value) : value;
        if (!rounded) break;
        sizes.push_back(*rounded);
      }
      if (sizes.size() < bytes.size()) continue;  // too large to count
      const Result<int64_t> bound = package::most_alive(lives, sizes);
      if (!bound || *bound == 0) continue;
      sizes_.push_back(std::move(sizes));
      bounds_.push_back(*bound);
    }
    for (const Life& life : lives) steps_ = std::max(steps_, static_cast<size_t>(life.last + 1));
  }

  Order run() {
    best_.resize(lives_.size());
    std::iota(best_.begin(), best_.end(), 0);
    if (sizes_.empty() || lives_.size() < 2 || !find_neighbours()) return best_;
    for (size_t binding = 0; binding < std::min<size_t>(sizes_.size(), 6); ++binding) {
      for (const Order& priority : priorities(sizes_[binding])) {
        for (const bool tightest : {false, true}) {
          if (is_done()) return best_;
          consider({priority, binding, tightest});
        }
      }
    }
    change_pieces();
    return best_;
  }

 private:
  // Worst ratio of arena to bound, then the sum of them.
  struct Score {
    double worst = 0, sum = 0;
    auto operator<=>(const Score&) const = default;
  };

  // False if there are too many.
  bool find_neighbours() {
    neighbours_.resize(lives_.size());
    Order in_time(lives_.size()), alive;
    std::iota(in_time.begin(), in_time.end(), 0);
    std::stable_sort(in_time.begin(), in_time.end(),
                     [&](uint32_t a, uint32_t b) { return lives_[a].first < lives_[b].first; });
    size_t pairs = 0;
    for (uint32_t piece : in_time) {
      std::erase_if(alive, [&](uint32_t other) { return lives_[other].last < lives_[piece].first; });
      if ((pairs += alive.size()) > most_pairs) return false;
      for (uint32_t other : alive) {
        neighbours_[other].push_back(piece);
        neighbours_[piece].push_back(other);
      }
      alive.push_back(piece);
    }
    return true;
  }

  bool is_done() const { return work_ > most_work || (has_best_ && best_score_.worst <= 1); }

  // Orders in which to place the pieces.
  std::vector<Order> priorities(const std::vector<int64_t>& sizes) {
    const size_t count = lives_.size();
    Order in_time(count);
    std::iota(in_time.begin(), in_time.end(), 0);
    std::stable_sort(in_time.begin(), in_time.end(),
                     [&](uint32_t a, uint32_t b) { return lives_[a].first < lives_[b].first; });
    auto by = [&](auto rank) {
      Order order = in_time;
      std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return rank(a) > rank(b); });
      return order;
    };
    auto length = [&](uint32_t i) { return lives_[i].last - lives_[i].first + 1; };
    std::vector<int64_t> alive(steps_), fullest(count);
    for (size_t i = 0; i < count; ++i)
      for (int64_t step = lives_[i].first; step <= lives_[i].last; ++step) alive[static_cast<size_t>(step)] += sizes[i];
    for (size_t i = 0; i < count; ++i)
      for (int64_t step = lives_[i].first; step <= lives_[i].last; ++step)
        fullest[i] = std::max(fullest[i], alive[static_cast<size_t>(step)]);
    work_ += static_cast<int64_t>(count) * 20;
    return {by([&](uint32_t i) { return std::pair(sizes[i], length(i)); }), by([&](uint32_t i) {
              return std::pair(static_cast<double>(sizes[i]) * static_cast<double>(length(i)), 0);
            }),
            by([&](uint32_t i) { return std::pair(fullest[i], sizes[i]); }),
            by([&](uint32_t i) { return std::pair(length(i), sizes[i]); }), in_time};
  }

  // Offsets of the pieces, placed one after the other into a gap between those that are alive with them.
  std::vector<int64_t> place(const Order& priority, const std::vector<int64_t>& sizes, bool tightest) {
    std::vector<int64_t> offsets(lives_.size());
    std::vector<bool> is_placed(lives_.size());
    Order neighbours;
    for (uint32_t piece : priority) {
      neighbours.clear();
      for (uint32_t other : neighbours_[piece])
        if (is_placed[other]) neighbours.push_back(other);
      std::sort(neighbours.begin(), neighbours.end(),
                [&](uint32_t a, uint32_t b) { return std::pair(offsets[a], a) < std::pair(offsets[b], b); });
      work_ += static_cast<int64_t>(neighbours_[piece].size() + neighbours.size()) + 4;
      int64_t end = 0, best = -1, best_gap = INT64_MAX;
      for (uint32_t other : neighbours) {
        const int64_t gap = offsets[other] - end;
        if (gap >= sizes[piece] && gap < best_gap) {
          best = end, best_gap = gap;
          if (!tightest) break;
        }
        end = std::max(end, offsets[other] + sizes[other]);
      }
      offsets[piece] = best < 0 ? end : best;
      is_placed[piece] = true;
    }
    return offsets;
  }

  Score score(const Order& order) {
    std::vector<Life> lives;
    for (uint32_t piece : order) lives.push_back(lives_[piece]);
    const auto below = package::pieces_below(lives);
    Score score;
    std::vector<int64_t> sizes(order.size());
    for (size_t binding = 0; binding < sizes_.size(); ++binding) {
      for (size_t i = 0; i < order.size(); ++i) sizes[i] = sizes_[binding][order[i]];
      const auto layout = package::lay_out_pieces(below, lives, sizes);
      const double ratio = layout ? static_cast<double>(layout->bytes) / static_cast<double>(bounds_[binding]) : 1e9;
      score.worst = std::max(score.worst, ratio);
      score.sum += ratio;
    }
    work_ += static_cast<int64_t>(order.size() * (sizes_.size() * 2 + 20));
    return score;
  }

  // How pieces are placed: one after the other, by their sizes at one binding.
  struct Placement {
    Order priority;
    size_t binding = 0;
    bool tightest = false;
  };

  // The score of the order that a placement gives; the best one is kept.
  Score consider(const Placement& placement) {
    const std::vector<int64_t> offsets = place(placement.priority, sizes_[placement.binding], placement.tightest);
    Order order(lives_.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return offsets[a] < offsets[b]; });
    const Score got = score(order);
    if (!has_best_ || got < best_score_) {
      has_best_ = true;
      best_ = std::move(order), best_score_ = got, best_placement_ = placement;
    }
    return got;
  }

  // Local search from the best placement: pieces change their turns. Steps to what is as good are taken, and now and
  // then to what is a little worse, so that the search leaves plateaus.
  void change_pieces() {
    uint64_t random = 1;
    auto below = [&](size_t n) {
      random = random * 6364136223846793005u + 1442695040888963407u;  // Knuth, The Art of Computer Programming, MMIX
      return static_cast<size_t>((random >> 33) % n);
    };
    Placement current = best_placement_;
    Score current_score = best_score_;
    for (int change = 1; change <= most_changes && !is_done(); ++change) {
      if (change % changes_a_round == 0) current = best_placement_, current_score = best_score_;
      Placement next = current;
      const size_t from = below(next.priority.size()), to = below(next.priority.size());
      if (below(2) == 0) {
        std::swap(next.priority[from], next.priority[to]);
      } else {
        const auto begin = next.priority.begin();
        const auto f = static_cast<ptrdiff_t>(from), t = static_cast<ptrdiff_t>(to);
        if (f < t) std::rotate(begin + f, begin + f + 1, begin + t + 1);
        if (t < f) std::rotate(begin + t, begin + f, begin + f + 1);
      }
      if (below(16) == 0) next.binding = below(sizes_.size());
      if (below(16) == 0) next.tightest = !next.tightest;
      const Score got = consider(next);
      if (got > current_score && (below(8) != 0 || got.worst > current_score.worst * 1.05)) continue;
      current = std::move(next), current_score = got;
    }
  }

  std::span<const Life> lives_;
  std::vector<std::vector<int64_t>> sizes_;  // of each binding: of each piece, rounded
  std::vector<int64_t> bounds_;              // of each binding
  size_t steps_ = 0;
  std::vector<Order> neighbours_;  // of each piece: those that are alive when it is
  int64_t work_ = 0;

  bool has_best_ = false;
  Order best_;
  Score best_score_;
  Placement best_placement_;
};

}  // namespace

Order order_arena(std::span<const Dim> bytes, std::span<const Life> lives, const SymbolRanges& symbols) {
  return ArenaOrderer(bytes, lives, symbols).run();
}

}  // namespace rtx::codegen
