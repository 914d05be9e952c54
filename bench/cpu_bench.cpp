// The CPU device's loops on the shapes of small transformers. `--benchmark_filter=matmul` and so on pick some.
// Counters: FLOP/s for products, bytes/s (operands read and results written once) for the rest.
#include <benchmark/benchmark.h>

#include <cstring>

#include "ir/module.h"
#include "runtime/cpu/body_planner.h"
#include "runtime/cpu/matmul.h"

namespace rtx::runtime::cpu {
namespace {

AlignedBuffer filled(int64_t elements) {
  AlignedBuffer buffer = AlignedBuffer::allocate(elements * 4).value();
  uint32_t state = 1;
  for (int64_t i = 0; i < elements; ++i) {
    state = state * 1664525u + 1013904223u;  // Numerical Recipes, a quick generator: the values do not matter
    buffer.as<float>()[i] = static_cast<float>(state >> 8) * 0x1p-23f - 1.0f;
  }
  return buffer;
}

// Arguments: m, n, k, 1 for a transposed right side, threads, instruction set.
void matmul_f32(benchmark::State& state) {
  const int64_t m = state.range(0), n = state.range(1), k = state.range(2);
  const Isa isa = static_cast<Isa>(state.range(5));
  if (isa > best_isa()) return state.SkipWithError("not supported by this processor");
  const AlignedBuffer lhs = filled(m * k), rhs = filled(k * n), result = filled(m * n);
  ThreadPool pool(static_cast<int>(state.range(4)));
  Workspace workspace;
  const MatmulShape shape = MatmulShape::plain(DType::f32, m, n, k, state.range(3) == 1);
  for (auto _ : state) {
    if (!matmul(shape, isa, lhs.data(), rhs.data(), result.data(), pool, workspace))
      state.SkipWithError("out of memory");
  }
  state.counters["FLOP/s"] =
      benchmark::Counter(2.0 * static_cast<double>(m * n * k), benchmark::Counter::kIsIterationInvariantRate);
}

void products(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"m", "n", "k", "transposed", "threads", "isa"})->UseRealTime();
  const int best = static_cast<int>(best_isa());
  const int64_t shapes[][3] = {{128, 384, 384},    {128, 1536, 384}, {128, 384, 1536},
                               {1024, 1024, 1024}, {1, 1536, 384},   {1, 4096, 4096}};
  for (const auto& [m, n, k] : shapes) {
    for (int transposed : {0, 1}) {
      for (int threads : {1, 2}) bench->Args({m, n, k, transposed, threads, best});
    }
  }
  for (int isa = 0; isa < best; ++isa) bench->Args({128, 384, 384, 0, 1, isa});
}
BENCHMARK(matmul_f32)->Apply(products);

// A body of one op on x [rows, columns]; some take a row of factors too.
void run_op(benchmark::State& state, Op op, AttributeList attributes, int row_operands) {
  const int64_t rows = state.range(0), columns = state.range(1);
  Block block;
  std::vector<Value*> operands = {block.add_argument({DType::f32, {rows, columns}})};
  std::vector<AlignedBuffer> memory;
  memory.push_back(filled(rows * columns));
  for (int i = 0; i < row_operands; ++i) {
    operands.push_back(block.add_argument({DType::f32, {columns}}));
    memory.push_back(filled(columns));
  }
  Value* result = Builder(block).value(op, operands, std::move(attributes)).value();
  block.insert(nullptr, Op::yield, {result}, {}, {});
  const SymbolValues symbols;
  const BodyPlan plan = BodyPlanner::plan(block, symbols, best_isa()).value();
  memory.push_back(filled(rows * columns));
  std::vector<std::byte*> buffers;
  for (const AlignedBuffer& buffer : memory) buffers.push_back(buffer.data());
  ThreadPool pool(static_cast<int>(state.range(2)));
  Workspace workspace;
  for (auto _ : state) {
    if (!plan.run(buffers, pool, workspace)) state.SkipWithError("failed");
  }
  state.SetBytesProcessed(state.iterations() * rows * columns * 8);
}

void rows(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"rows", "columns", "threads"})->UseRealTime();
  for (int threads : {1, 2}) bench->Args({1536, 128, threads})->Args({128, 1536, threads})->Args({128, 384, threads});
}

BENCHMARK_CAPTURE(run_op, softmax, Op::softmax, AttributeList{{"axis", int64_t{1}}}, 0)->Apply(rows);
BENCHMARK_CAPTURE(run_op, layer_norm, Op::layer_norm, AttributeList{{"axis", int64_t{1}}}, 2)->Apply(rows);
BENCHMARK_CAPTURE(run_op, add_row, Op::add, AttributeList{}, 1)->Apply(rows);
BENCHMARK_CAPTURE(run_op, gelu, Op::gelu, AttributeList{}, 0)->Apply(rows);
BENCHMARK_CAPTURE(run_op, erf, Op::erf, AttributeList{}, 0)->Apply(rows);
BENCHMARK_CAPTURE(run_op, tanh, Op::tanh, AttributeList{}, 0)->Apply(rows);
BENCHMARK_CAPTURE(run_op, exp, Op::exp, AttributeList{}, 0)->Apply(rows);
BENCHMARK_CAPTURE(run_op, transpose, Op::transpose, AttributeList{{"perm", std::vector<int64_t>{1, 0}}}, 0)
    ->Apply(rows);

}  // namespace
}  // namespace rtx::runtime::cpu

BENCHMARK_MAIN();
