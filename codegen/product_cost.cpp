#include "codegen/product_cost.h"

#include <algorithm>

#include "codegen/assign_slots.h"
#include "codegen/plan_common.h"

namespace rtx::codegen {
namespace {

// An RTX 5090: dense peaks with f32 sums as published, bandwidth as measured
// with copies. On a GPU with faster tensor cores for the same bandwidth
// cuBLASLt gains, but there its epilogue kernel is the cheaper part too; one
// answer serves all architectures of a package.
constexpr double tensor_flops = 209.5e12, f32_flops = 104.8e12, f64_flops = 1.64e12;
constexpr double bytes_a_second = 1.53e12;
// A kernel in a CUDA graph costs about this beside its own time.
constexpr double launch_seconds = 1e-6;
// What share of the peak large products reach.
constexpr double own_efficiency = 0.55, library_efficiency = 0.85;

double peak(DType dtype) { return dtype == DType::f64 ? f64_flops : dtype == DType::f32 ? f32_flops : tensor_flops; }

}  // namespace

std::optional<ProductCost> cost_of_product(const Block& body, const Operation& matmul, const Product& product,
                                           const SymbolRanges& symbols) {
  const SymbolValues sizes = representative_values(symbols);
  const Dim operands = byte_count(matmul.operand(0)->type) + byte_count(matmul.operand(1)->type);
  const Result<int64_t> flops = product.flops().evaluate(sizes), all = traffic_bytes(body).evaluate(sizes),
                        read = operands.evaluate(sizes), made = byte_count(matmul.result()->type).evaluate(sizes);
  if (!flops || !all || !read || !made) return std::nullopt;
  const auto seconds = [&](double efficiency, int64_t bytes) {
    return std::max(static_cast<double>(*flops) / (efficiency * peak(product.dtype)),
                    static_cast<double>(bytes) / bytes_a_second) +
           launch_seconds;
  };
  const double own = seconds(own_efficiency, *all);
  const double rest = static_cast<double>(*all - *read + *made) / bytes_a_second + launch_seconds;
  const double library = seconds(library_efficiency, *read + *made) + rest;
  return ProductCost{static_cast<int64_t>(own * 1e9), static_cast<int64_t>(library * 1e9)};
}

}  // namespace rtx::codegen
