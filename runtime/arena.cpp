#include "runtime/arena.h"

#include "base/text.h"

namespace rtx::runtime {

Result<int64_t> aligned(int64_t bytes) {
  int64_t rounded = 0;
  if (bytes < 0 || __builtin_add_overflow(bytes, alignment - 1, &rounded))
    return make_error(ErrorKind::limit, "E506", concat("a buffer of ", bytes, " bytes"));
  return rounded / alignment * alignment;
}

Result<Arena> lay_out_arena(const package::Program& program, std::span<const int64_t> symbols) {
  Arena arena;
  for (const package::Formula& slot : program.slots) {
    RTX_ASSIGN(const int64_t bytes, slot.evaluate(symbols));
    RTX_ASSIGN(const int64_t rounded, aligned(bytes));
    arena.offsets.push_back(arena.bytes);
    if (__builtin_add_overflow(arena.bytes, rounded, &arena.bytes))
      return make_error(ErrorKind::limit, "E506", concat("the arena of program '", program.name, "' is too large"));
  }
  return arena;
}

}  // namespace rtx::runtime
