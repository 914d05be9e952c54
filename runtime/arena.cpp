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
  auto append = [&](const package::Formula& size, std::vector<int64_t>& offsets, int64_t& end) -> Result<void> {
    RTX_ASSIGN(const int64_t bytes, size.evaluate(symbols));
    RTX_ASSIGN(const int64_t rounded, aligned(bytes));
    offsets.push_back(end);
    if (__builtin_add_overflow(end, rounded, &end))
      return make_error(ErrorKind::limit, "E506", concat("the arena of program '", program.name, "' is too large"));
    return Ok{};
  };
  for (const package::Formula& slot : program.slots) RTX_TRY(append(slot, arena.offsets, arena.bytes));
  for (const package::Buffer& buffer : program.buffers) {
    if (buffer.kind != package::BufferKind::counters) continue;
    RTX_TRY(append(buffer.bytes, arena.counter_offsets, arena.counter_bytes));
  }
  return arena;
}

}  // namespace rtx::runtime
