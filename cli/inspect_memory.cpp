#include <fmt/core.h>

#include <algorithm>

#include "base/text.h"
#include "cli/inspect.h"
#include "runtime/arena.h"

namespace rtx::cli {

namespace {

constexpr int64_t map_columns = 64;

// The columns of the map that the bytes from `begin` to `end` touch become '#'.
void mark(std::string& row, int64_t begin, int64_t end, int64_t arena_bytes) {
  if (begin >= end) return;
  auto column = [&](int64_t byte) {
    return static_cast<size_t>(static_cast<double>(byte) / static_cast<double>(arena_bytes) *
                               static_cast<double>(map_columns));
  };
  for (size_t i = column(begin); i <= std::min(column(end - 1), row.size() - 1); ++i) row[i] = '#';
}

}  // namespace

std::string arena_text(const package::Program& program, std::span<const int64_t> symbols) {
  const auto arena = runtime::lay_out_arena(program, symbols);
  if (!arena) return fmt::format("    {}\n", arena.error().first().message);
  const std::vector<package::Life> lives = package::arena_lives(program);
  std::string out;
  for (size_t i = 0; i < program.arena.size(); ++i)
    out += fmt::format("    arena[{}] at {:<10} {:>10} bytes = {}, steps {} to {}\n", i, arena->offsets[i],
                       arena->piece_bytes[i], program.arena[i].text(), lives[i].first, lives[i].last);
  if (arena->bytes == 0) return out;
  out += fmt::format("    map: a column is {} of the arena, # in use\n", size_text(arena->bytes / map_columns));
  for (size_t step = 0; step < program.steps.size(); ++step) {
    std::string row(static_cast<size_t>(map_columns), '.');
    int64_t alive = 0;
    for (size_t i = 0; i < lives.size(); ++i) {
      if (lives[i].first > static_cast<int64_t>(step) || lives[i].last < static_cast<int64_t>(step)) continue;
      alive += arena->piece_bytes[i];
      mark(row, arena->offsets[i], arena->offsets[i] + arena->piece_bytes[i], arena->bytes);
    }
    out += fmt::format("    {:>4} {} {}\n", step, row, size_text(alive));
  }
  return out;
}

}  // namespace rtx::cli
