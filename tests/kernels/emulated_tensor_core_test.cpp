// The prelude's tensor core functions, as the shim gives them to generated text on the CPU.

#include <doctest/doctest.h>

#include "base/text.h"
#include "ir/text.h"
#include "tests/kernels/emulator.h"

namespace rtx::testing {
namespace {

constexpr std::string_view body_text = R"((%0: tensor<[16, 16], TYPE>, %1: tensor<[16, 8], TYPE>) {
  %2 = matmul(%0, %1) {transpose_lhs = false, transpose_rhs = false} : tensor<[16, 8], TYPE>
  %3 = cast(%2) {to = f32, saturate = true} : tensor<[16, 8], f32>
  yield(%3)
}
)";

// One warp: c = a * b with a loaded as rows of tiles, b as columns, after a copy that must be waited for.
constexpr std::string_view kernel_text = R"(
extern "C" __global__ void k(const unsigned short* a, const unsigned short* b, float* c) {
  __shared__ __align__(16) unsigned short x[256], y[128];
  const int t = (int)threadIdx.x;
  rtx_copy_async(x + t * 8, a + t * 8, 16);
  if (t < 16) rtx_copy_async(y + t * 8, b + t * 8, 16);
  rtx_copy_commit();
  rtx_copy_wait<0>();
  __syncthreads();
  unsigned rows[4], columns[4];
  rtx_load_tiles(rows, x + (t % 16) * 16 + t / 16 * 8);
  rtx_load_tiles_transposed(columns, y + (t % 16) * 8);
  float sums[4] = {};
  rtx_mma_TYPE(sums, rows, columns);
  for (int i = 0; i < 4; ++i) c[(t / 4 + i / 2 * 8) * 8 + t % 4 * 2 + i % 2] = sums[i];
}
)";

std::string with_type(std::string_view text, std::string_view type) {
  std::string result(text);
  for (size_t at; (at = result.find("TYPE")) != std::string::npos;) result.replace(at, 4, type);
  return result;
}

TEST_CASE("a warp multiplies tiles that it copied and loaded") {
  if (!Emulator::available()) {
    MESSAGE("skipped: no C++ compiler to run generated text with");
    return;
  }
  Emulator emulator;
  std::vector<std::unique_ptr<Block>> bodies;
  const DType types[] = {DType::f16, DType::bf16};
  for (DType type : types) {
    for (bool waits : {true, false}) {
      Result<std::unique_ptr<Block>> body = parse_body(with_type(body_text, to_string(type)), "body");
      REQUIRE(body.ok());
      codegen::KernelPlan plan;
      plan.launch.emplace();
      plan.launch->function = "k";
      plan.launch->text = with_type(kernel_text, to_string(type));
      if (!waits) plan.launch->text.erase(plan.launch->text.find("rtx_copy_wait<0>();"), 19);
      plan.launch->block = {32, 1, 1};
      emulator.add(plan, **body);
      bodies.push_back(std::move(body).value());
    }
  }
  if (Result<void> built = emulator.build(); !built) FAIL(to_string(built.error().first()));
  for (size_t i = 0; i < bodies.size(); ++i) {
    Tensor a(types[i / 2], {16, 16}), b(types[i / 2], {16, 8});
    for (int64_t e = 0; e < 256; ++e) a.set_f64(e, static_cast<double>(e * 7 % 31 - 15));
    for (int64_t e = 0; e < 128; ++e) b.set_f64(e, static_cast<double>(e * 5 % 23 - 11));
    Result<std::vector<Tensor>> got = emulator.run(i, {a, b}, {});
    REQUIRE(got.ok());
    int64_t equal = 0;
    for (int64_t row = 0; row < 16; ++row) {
      for (int64_t column = 0; column < 8; ++column) {
        double sum = 0;
        for (int64_t k = 0; k < 16; ++k) sum += a.f64(row * 16 + k) * b.f64(k * 8 + column);
        equal += (*got)[0].f64(row * 8 + column) == sum;
      }
    }
    if (i % 2 == 0) CHECK(equal == 128);
    if (i % 2 == 1) CHECK(equal < 128);  // without the wait the tiles are not there
  }
}

}  // namespace
}  // namespace rtx::testing
