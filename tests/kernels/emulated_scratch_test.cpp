// Kernels with a workspace and counters: the parameters that the writer declares are those that a run passes.

#include <doctest/doctest.h>

#include "base/text.h"
#include "codegen/plan_common.h"
#include "tests/kernels/emulator.h"

namespace rtx::testing {
namespace {

const SymbolRanges symbols = {{"n", {0, 1000, 0}}};

// y = x + x for n f32 in blocks of 64, each of which leaves its part in the workspace; the last to arrive copies them
// all to the result and takes the counter back. `leave` is what it leaves there.
codegen::KernelPlan last_block_copies(const Block& body, std::string_view leave, std::string_view workspace_index) {
  const Dim n = Dim::symbol("n");
  codegen::KernelPlan plan = codegen::KernelPlan::for_body("pointwise", "scratch", body);
  codegen::KernelWriter writer(false, symbols);
  plan.launch.emplace();
  plan.launch->grid[0] = ceildiv(n, Dim(64));
  plan.launch->block = {64, 1, 1};
  plan.launch->workspace_bytes = n * 4;
  plan.launch->counters = Dim(1);
  const std::string count = writer.dim(n);
  writer.line("float* parts = (float*)workspace;");
  writer.line("const int i = (int)blockIdx.x * 64 + (int)threadIdx.x;");
  writer.line(concat("if (i < ", count, ") parts[", workspace_index, "] = a0[i] + a0[i];"));
  writer.line("if (threadIdx.x == 63) ++counters[0];");
  writer.open("if (threadIdx.x == 63 && counters[0] == gridDim.x) {");
  writer.line(concat("for (int j = 0; j < ", count, "; ++j) r0[j] = parts[j];"));
  writer.line(concat("counters[0] = ", leave, ";"));
  writer.close();
  codegen::finish_launch(plan, writer, body);
  return plan;
}

TEST_CASE("workspace and counters are parameters after the results, and what a kernel does with them is checked") {
  if (!Emulator::available()) {
    MESSAGE("skipped: no C++ compiler to run generated text with");
    return;
  }
  Block body;
  Value* x = body.add_argument({DType::f32, {Dim::symbol("n")}});
  Result<Operation*> sum = Builder(body).create(Op::add, {x, x}, {});
  REQUIRE(sum.ok());
  body.insert(nullptr, Op::yield, {(*sum)->result()}, {}, {});
  Emulator emulator;
  const codegen::KernelPlan plan = last_block_copies(body, "0u", "i");
  CHECK(plan.launch->text.find("float* __restrict__ r0,\n    unsigned char* __restrict__ workspace,\n    "
                               "unsigned int* __restrict__ counters,\n    long long p0") != std::string::npos);
  const size_t good = emulator.add(plan, body);
  const size_t keeps_count = emulator.add(last_block_copies(body, "1u", "i"), body);
  const size_t leaves_workspace = emulator.add(last_block_copies(body, "0u", "i + 1"), body);
  REQUIRE(emulator.build().ok());
  for (int64_t n : {0, 1, 63, 64, 65, 1000}) {
    CAPTURE(n);
    Tensor operand(DType::f32, {n});
    for (int64_t i = 0; i < n; ++i) operand.set_f64(i, static_cast<double>(i));
    const std::vector<Tensor> operands = {operand};
    const auto results = emulator.run(good, operands, {{"n", n}});
    REQUIRE(results.ok());
    for (int64_t i = 0; i < n; ++i) CHECK(results->front().f64(i) == 2.0 * static_cast<double>(i));
    CHECK(emulator.run(keeps_count, operands, {{"n", n}}).ok() == (n == 0));
    CHECK(emulator.run(leaves_workspace, operands, {{"n", n}}).ok() == (n == 0));
  }
}

}  // namespace
}  // namespace rtx::testing
