#include "codegen/plan_memory.h"

#include <doctest/doctest.h>

#include "codegen/form_fusions.h"
#include "ir/text.h"

namespace rtx::codegen {
namespace {

using package::BufferKind;

// Three steps one after the other, with a value between each two.
std::unique_ptr<Module> three_steps() {
  auto module = parse_module(R"(rtxir 1
stage canonical
symbol n 1..1000 opt 100

func @main(%0 "x": tensor<[n, 64], f32>) {
  %1 = reduce_sum(%0) {axes = [1], keepdims = true} : tensor<[n, 1], f32>
  %2 = sub(%0, %1) : tensor<[n, 64], f32>
  %3 = reduce_max(%2) {axes = [0], keepdims = true} : tensor<[1, 64], f32>
  %4 = sub(%2, %3) : tensor<[n, 64], f32>
  %5 = cumsum(%4) {axis = 0} : tensor<[n, 64], f32>
  yield(%5)
} outputs "y"
)",
                             "test");
  REQUIRE_MESSAGE(module, to_string(module.error().first()));
  REQUIRE(form_fusions(**module));
  return std::move(module).value();
}

size_t step_count(const Module& module) {
  size_t steps = 0;
  for (const auto& operation : module.functions[0]->block.operations()) steps += operation->is(Op::fusion);
  return steps;
}

TEST_CASE("a workspace has a place of its own during its step, counters belong to one step") {
  const auto module = three_steps();
  const Dim n = Dim::symbol("n");
  std::vector<std::string> weights;
  std::vector<StepScratch> scratch(step_count(*module));
  REQUIRE(scratch.size() >= 3);
  const MemoryPlan plain = plan_memory(*module->functions[0], module->symbols, scratch, weights).value();
  scratch[1] = {n * 1024, Dim(0)};
  scratch[2] = {n * 512, n};
  scratch[0].counters = Dim(7);
  const MemoryPlan plan = plan_memory(*module->functions[0], module->symbols, scratch, weights).value();
  CHECK(plain.scratch == std::vector<std::vector<uint32_t>>(scratch.size()));
  REQUIRE(plan.scratch[0].size() == 1);
  REQUIRE(plan.scratch[1].size() == 1);
  REQUIRE(plan.scratch[2].size() == 2);
  CHECK(plan.buffers[plan.scratch[0][0]] == BufferPlan{BufferKind::counters, 0, Dim(28)});
  CHECK(plan.buffers[plan.scratch[2][1]] == BufferPlan{BufferKind::counters, 1, n * 4});
  CHECK(plan.buffers[plan.scratch[1][0]].kind == BufferKind::arena);
  CHECK(plan.buffers[plan.scratch[1][0]].bytes == n * 1024);
  CHECK(plan.buffers[plan.scratch[2][0]].bytes == n * 512);
  CHECK(plan.arena.size() == plain.arena.size() + 2);
  for (size_t step : {1, 2}) {
    const uint32_t piece = plan.buffers[plan.scratch[step][0]].index;
    CHECK(plan.lives[piece] == package::Life{static_cast<int64_t>(step), static_cast<int64_t>(step)});
    for (const BufferPlan& buffer : plan.buffers)
      CHECK((buffer.kind != BufferKind::arena || buffer.index != piece ||
             &buffer == &plan.buffers[plan.scratch[step][0]]));
  }
}

}  // namespace
}  // namespace rtx::codegen
