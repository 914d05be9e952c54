// Attention kernels as machine code: they assemble for every generation of tensor cores and keep what they work on in
// registers. Part of the program of compile_kernels_test.cpp.
#include <doctest/doctest.h>

#include "base/text.h"
#include "codegen/attention_forms.h"
#include "codegen/nvrtc.h"
#include "codegen/nvrtc_library.h"
#include "codegen/occupancy.h"
#include "codegen/plan_common.h"
#include "codegen/plan_kernel.h"
#include "ir/text.h"

namespace rtx::codegen {
namespace {

enum class Mask { none, causal, padding, bias };
constexpr std::string_view mask_names[] = {"none", "causal", "padding", "bias"};

const SymbolRanges symbols = {{"b", {1, 64, 0}}, {"s", {1, 4096, 0}}};

struct Sample {
  DType dtype;
  int64_t size, value_size, group;
  Mask mask;
  bool one_query = false;
  std::string name() const {
    return concat(one_query ? "one query " : "", to_string(dtype), " ", size, "/", value_size, " x", group, " ",
                  mask_names[static_cast<size_t>(mask)]);
  }
};

// Heads beside the elements in memory, as products leave them.
std::unique_ptr<Block> body_of(const Sample& sample) {
  auto body = std::make_unique<Block>();
  Builder builder(*body);
  const Dim b = Dim::symbol("b"), s = Dim::symbol("s");
  const int64_t kv_heads = 4, heads = kv_heads * sample.group;
  const Dim queries = sample.one_query ? Dim(1) : s;
  auto operand = [&](const Dim& length, int64_t count, int64_t size) {
    Value* x = body->add_argument({sample.dtype, {b, length, Dim(count), Dim(size)}});
    return *builder.value(Op::transpose, {x}, {{"perm", std::vector<int64_t>{0, 2, 1, 3}}});
  };
  std::vector<Value*> operands = {operand(queries, heads, sample.size), operand(s, kv_heads, sample.size),
                                  operand(s, kv_heads, sample.value_size)};
  AttributeList attributes = {{"scale", 0.11}};
  if (sample.mask == Mask::causal) {
    attributes.set("causal", true);
    attributes.set("offset", s - queries);
  }
  if (sample.mask == Mask::padding) {
    operands.push_back(body->add_argument({DType::boolean, {b, 1, 1, s}}));
    attributes.set("fill", -3.4028234663852886e38);
  }
  if (sample.mask == Mask::bias) operands.push_back(body->add_argument({sample.dtype, {1, Dim(heads), queries, s}}));
  Value* y = *builder.value(Op::attention, operands, attributes);
  y = *builder.value(Op::transpose, {y}, {{"perm", std::vector<int64_t>{0, 2, 1, 3}}});
  body->insert(nullptr, Op::yield, {y}, {}, {});
  return body;
}

void check(const std::vector<Sample>& samples, const std::vector<std::string>& archs) {
  if (const auto nvrtc = find_nvrtc(""); !nvrtc) {
    MESSAGE("skipped: " << nvrtc.error().first().message);
    return;
  }
  std::vector<KernelPlan> plans;
  std::vector<KernelSource> sources;
  for (const Sample& sample : samples) {
    Result<KernelPlan> plan = plan_kernel("attention", *body_of(sample), {symbols});
    REQUIRE_MESSAGE(plan.ok(), to_string(plan.error().first()));
    sources.push_back({sample.name(), plan->launch->text});
    plans.push_back(std::move(plan).value());
  }
  CompileOptions options;
  options.jobs = 2;
  const auto compiled = compile_kernels(sources, archs, options);
  if (!compiled) FAIL(to_string(compiled.error().first()));
  for (size_t i = 0; i < plans.size(); ++i) {
    const std::array<int, 3>& block = plans[i].launch->block;
    const int64_t dynamic = plans[i].launch->shared_bytes.constant();
    std::string line = concat(samples[i].name(), " ", plans[i].key.tile, ":");
    for (size_t a = 0; a < archs.size(); ++a) {
      package::Resources resources = (*compiled)[i][a].resources;
      REQUIRE(add_occupancy(resources, block[0] * block[1] * block[2], dynamic).ok());
      line += concat(" ", archs[a], " ", resources.registers, " registers ", resources.shared_bytes + dynamic,
                     " bytes ", resources.blocks_per_sm, " blocks");
      CHECK_MESSAGE(resources.spill_bytes == 0, sources[i].name, " ", archs[a]);
      CHECK_MESSAGE(resources.stack_bytes == 0, sources[i].name, " ", archs[a]);
      CHECK(resources.blocks_per_sm >= 1);
    }
    MESSAGE(line);
  }
}

TEST_CASE("attention kernels assemble without spills and without a stack") {
  check({{DType::bf16, 64, 64, 1, Mask::padding},
         {DType::f16, 128, 128, 4, Mask::causal},
         {DType::f16, 256, 256, 1, Mask::bias},
         {DType::bf16, 80, 80, 1, Mask::none},
         {DType::bf16, 128, 128, 4, Mask::causal, true},
         {DType::f32, 64, 64, 1, Mask::none, true},
         {DType::f32, 64, 64, 1, Mask::padding},
         {DType::f32, 160, 160, 1, Mask::causal}},
        {"sm_80", "sm_90a", "sm_120"});
}

// Some minutes: --no-skip.
TEST_CASE("attention kernels of all sizes, types and masks assemble without spills" * doctest::skip()) {
  std::vector<Sample> samples;
  for (DType dtype : {DType::f16, DType::bf16, DType::f32}) {
    for (int64_t size : {32, 64, 80, 96, 128, 160, 192, 256}) {
      for (Mask mask : {Mask::none, Mask::causal, Mask::padding, Mask::bias})
        for (bool one_query : {false, true})
          samples.push_back({dtype, size, size, mask == Mask::causal ? 4 : 1, mask, one_query});
    }
    samples.push_back({dtype, 192, 128, 1, Mask::causal});
    samples.push_back({dtype, 64, 256, 1, Mask::none});
    samples.push_back({dtype, 20, 20, 1, Mask::none});
  }
  check(samples, {"sm_80", "sm_89", "sm_90a", "sm_120"});
}

}  // namespace
}  // namespace rtx::codegen
