#include "runtime/memory_report.h"

#include "runtime/arena.h"
#include "runtime/bind_symbols.h"
#include "runtime/host_tensor.h"

namespace rtx::runtime {

namespace {

Result<int64_t> sum_bytes(const std::vector<package::TensorSpec>& specs, std::span<const int64_t> symbols) {
  int64_t sum = 0;
  for (const package::TensorSpec& spec : specs) {
    RTX_ASSIGN(const std::vector<int64_t> shape, evaluate_shape(spec, symbols));
    RTX_ASSIGN(const int64_t bytes, tensor_bytes(spec.dtype, shape));
    if (__builtin_add_overflow(sum, bytes, &sum))
      return make_error(ErrorKind::limit, "E506", "the tensors are too large");
  }
  return sum;
}

}  // namespace

Result<MemoryReport> report_memory(const package::Program& program, std::span<const int64_t> symbols) {
  MemoryReport report;
  RTX_ASSIGN(report.input_bytes, sum_bytes(program.inputs, symbols));
  RTX_ASSIGN(report.output_bytes, sum_bytes(program.outputs, symbols));
  RTX_ASSIGN(const Arena arena, lay_out_arena(program, symbols));
  report.arena_bytes = arena.bytes;
  report.counter_bytes = arena.counter_bytes;
  RTX_ASSIGN(report.lower_bound, package::most_alive(package::arena_lives(program), arena.piece_bytes));
  return report;
}

}  // namespace rtx::runtime
