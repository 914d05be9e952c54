// Our own matrix products as machine code: they assemble for every generation of tensor cores and keep their sums in
// registers. Part of the program of compile_kernels_test.cpp.
#include <doctest/doctest.h>

#include "base/text.h"
#include "codegen/nvrtc.h"
#include "codegen/nvrtc_library.h"
#include "codegen/occupancy.h"
#include "codegen/plan_kernel.h"
#include "ir/text.h"

namespace rtx::codegen {
namespace {

const SymbolRanges symbols = {{"few", {0, 16, 0}}, {"some", {0, 4096, 0}}, {"many", {0, 65536, 16384}}};

KernelPlan plan_product(DType dtype, const char* rows, bool transpose_lhs, bool transpose_rhs) {
  Block body;
  const Dim m = Dim::symbol(rows), n = 1536, k = 384;
  Value* lhs = body.add_argument({dtype, transpose_lhs ? Shape{k, m} : Shape{m, k}});
  Value* rhs = body.add_argument({dtype, transpose_rhs ? Shape{n, k} : Shape{k, n}});
  Value* bias = body.add_argument({dtype, {n}});
  Builder builder(body);
  Value* product =
      *builder.value(Op::matmul, {lhs, rhs}, {{"transpose_lhs", transpose_lhs}, {"transpose_rhs", transpose_rhs}});
  Value* sum = *builder.value(Op::add, {product, bias});
  Value* gelu = *builder.value(Op::gelu, {sum}, {{"approximate", std::string("none")}});
  body.insert(nullptr, Op::yield, {gelu}, {}, {});
  Result<KernelPlan> plan = plan_kernel("contract", body, {symbols});
  REQUIRE(plan.ok());
  return std::move(plan).value();
}

TEST_CASE("own products assemble for sm_80, sm_90 and sm_120 without spills, several blocks to a multiprocessor") {
  if (const auto nvrtc = find_nvrtc(""); !nvrtc) {
    MESSAGE("skipped: " << nvrtc.error().first().message);
    return;
  }
  std::vector<KernelPlan> plans;
  for (const char* rows : {"few", "some", "many"}) {
    for (bool transpose_rhs : {false, true}) plans.push_back(plan_product(DType::f16, rows, false, transpose_rhs));
    plans.push_back(plan_product(DType::f32, rows, false, true));
  }
  plans.push_back(plan_product(DType::bf16, "many", true, false));
  plans.push_back(plan_product(DType::f64, "few", false, true));
  plans.push_back(plan_product(DType::f64, "many", false, false));
  std::vector<KernelSource> sources;
  for (const KernelPlan& plan : plans) sources.push_back({plan.name, plan.launch->text});
  CompileOptions options;
  options.jobs = 2;
  options.worker_program = "/proc/self/exe";
  const std::vector<std::string> archs = {"sm_80", "sm_90", "sm_120"};
  const auto compiled = compile_kernels(sources, archs, options);
  if (!compiled) FAIL(to_string(compiled.error().first()));
  for (size_t i = 0; i < plans.size(); ++i) {
    const std::array<int, 3>& block = plans[i].launch->block;
    for (size_t a = 0; a < archs.size(); ++a) {
      package::Resources resources = (*compiled)[i][a].resources;
      REQUIRE(add_occupancy(resources, block[0] * block[1] * block[2], 0).ok());
      MESSAGE(plans[i].key.tile << " " << std::string(to_string(plans[i].key.dtype)) << " " << archs[a] << ": "
                                << resources.registers << " registers, " << resources.shared_bytes << " bytes, "
                                << resources.blocks_per_sm << " blocks");
      CHECK(resources.spill_bytes == 0);
      CHECK(resources.shared_bytes <= 48 * 1024);
      CHECK(resources.blocks_per_sm >= 2);
    }
  }
}

}  // namespace
}  // namespace rtx::codegen
