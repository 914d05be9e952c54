#include "runtime/arena.h"

#include "base/text.h"

namespace rtx::runtime {

Result<Arena> lay_out_arena(const package::Program& program, std::span<const int64_t> symbols) {
  Arena arena;
  for (const package::Formula& piece : program.arena) {
    RTX_ASSIGN(const int64_t bytes, piece.evaluate(symbols));
    RTX_ASSIGN(const int64_t rounded, aligned(bytes));
    arena.piece_bytes.push_back(rounded);
  }
  const std::vector<package::Life> lives = package::arena_lives(program);
  auto layout = package::lay_out_pieces(package::pieces_below(lives), lives, arena.piece_bytes);
  if (!layout) return std::move(layout).error().within(concat("program '", program.name, "'"));
  arena.offsets = std::move(layout->offsets);
  arena.bytes = layout->bytes;
  for (const package::Buffer& buffer : program.buffers) {
    if (buffer.kind != package::BufferKind::counters) continue;
    RTX_ASSIGN(const int64_t bytes, buffer.bytes.evaluate(symbols));
    RTX_ASSIGN(const int64_t rounded, aligned(bytes));
    arena.counter_offsets.push_back(arena.counter_bytes);
    if (__builtin_add_overflow(arena.counter_bytes, rounded, &arena.counter_bytes))
      return make_error(ErrorKind::limit, "E506", concat("the counters of program '", program.name, "' are too many"));
  }
  return arena;
}

}  // namespace rtx::runtime
