#include "runtime/package/arena_layout.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/text.h"

namespace rtx::package {
namespace {

Diagnostic too_large() { return make_error(ErrorKind::limit, "E506", "the arena is too large"); }

// What changes at a step: pieces whose life ended before it, pieces whose life starts with it.
struct Change {
  std::vector<uint32_t> ended, started;
};

std::map<int64_t, Change> changes_of(std::span<const Life> lives) {
  std::map<int64_t, Change> changes;
  for (size_t i = 0; i < lives.size(); ++i) {
    if (lives[i].last < lives[i].first) continue;
    changes[lives[i].first].started.push_back(static_cast<uint32_t>(i));
    changes[lives[i].last + 1].ended.push_back(static_cast<uint32_t>(i));
  }
  return changes;
}

}  // namespace

Result<int64_t> aligned(int64_t bytes) {
  int64_t rounded = 0;
  if (bytes < 0 || __builtin_add_overflow(bytes, alignment - 1, &rounded))
    return make_error(ErrorKind::limit, "E506", concat("a buffer of ", bytes, " bytes"));
  return rounded / alignment * alignment;
}

std::vector<Life> arena_lives(const Program& program) {
  std::vector<Life> lives(program.arena.size());
  for (size_t step = 0; step < program.steps.size(); ++step) {
    const Step& at = program.steps[step];
    for (const auto* buffers : {&at.operands, &at.results, &at.scratch}) {
      for (uint32_t index : *buffers) {
        const Buffer& buffer = program.buffers[index];
        if (buffer.kind != BufferKind::arena) continue;
        Life& life = lives[buffer.index];
        if (life.last < 0) life.first = static_cast<int64_t>(step);
        life.last = static_cast<int64_t>(step);
      }
    }
  }
  return lives;
}

std::vector<std::vector<uint32_t>> pieces_below(std::span<const Life> lives) {
  std::vector<std::vector<uint32_t>> below(lives.size());
  std::set<uint32_t> alive;
  // Of the pieces alive at any step, each is told of its neighbour below. All that are told of here are alive at once:
  // ends are taken out before starts are put in.
  for (const auto& [step, change] : changes_of(lives)) {
    for (uint32_t piece : change.ended) {
      const auto above = alive.erase(alive.find(piece));
      if (above != alive.end() && above != alive.begin()) below[*above].push_back(*std::prev(above));
    }
    for (uint32_t piece : change.started) {
      const auto own = alive.insert(piece).first;
      if (own != alive.begin()) below[piece].push_back(*std::prev(own));
      if (const auto above = std::next(own); above != alive.end()) below[*above].push_back(piece);
    }
  }
  for (std::vector<uint32_t>& list : below) {
    std::sort(list.begin(), list.end());
    list.erase(std::unique(list.begin(), list.end()), list.end());
  }
  return below;
}

Result<ArenaLayout> lay_out_pieces(std::span<const std::vector<uint32_t>> below, std::span<const Life> lives,
                                   std::span<const int64_t> bytes) {
  ArenaLayout layout;
  layout.offsets.resize(bytes.size());
  std::vector<int64_t> ends(bytes.size());
  for (size_t i = 0; i < bytes.size(); ++i) {
    RTX_ASSIGN(const int64_t rounded, aligned(bytes[i]));
    if (lives[i].last < lives[i].first) continue;
    for (uint32_t lower : below[i]) layout.offsets[i] = std::max(layout.offsets[i], ends[lower]);
    if (__builtin_add_overflow(layout.offsets[i], rounded, &ends[i])) return too_large();
    layout.bytes = std::max(layout.bytes, ends[i]);
  }
  return layout;
}

Result<int64_t> most_alive(std::span<const Life> lives, std::span<const int64_t> bytes) {
  int64_t alive = 0, most = 0;
  for (const auto& [step, change] : changes_of(lives)) {
    for (uint32_t piece : change.ended) alive -= aligned(bytes[piece]).value();  // added before
    for (uint32_t piece : change.started) {
      RTX_ASSIGN(const int64_t rounded, aligned(bytes[piece]));
      if (__builtin_add_overflow(alive, rounded, &alive)) return too_large();
    }
    most = std::max(most, alive);
  }
  return most;
}

}  // namespace rtx::package
