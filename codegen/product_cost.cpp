#include "codegen/product_cost.h"

#include "codegen/plan_common.h"

namespace rtx::codegen {

package::MathUnit unit_of_product(DType dtype) {
  return dtype == DType::f64   ? package::MathUnit::f64
         : dtype == DType::f32 ? package::MathUnit::f32
                               : package::MathUnit::tensor;
}

std::vector<Work> own_launches(const Block& body, const Product& product) {
  return {{unit_of_product(product.dtype), own_percent, product.flops(), traffic_bytes(body)}};
}

std::vector<Work> library_call(const Block& body, const Product& product) {
  return {{unit_of_product(product.dtype), library_percent, product.flops(), traffic_bytes(body)}};
}

std::vector<Work> library_launches(const Block& body, const Operation& matmul, const Product& product) {
  const Dim made = byte_count(matmul.result()->type);
  const Dim read = byte_count(matmul.operand(0)->type) + byte_count(matmul.operand(1)->type);
  std::vector<Work> launches = {{unit_of_product(product.dtype), library_percent, product.flops(), read + made}};
  if (body.size() > 2)
    launches.push_back({package::MathUnit::f32, 50, elementwise_flops(body), traffic_bytes(body) - read + made});
  return launches;
}

std::optional<ProductCost> cost_of_product(const Block& body, const Operation& matmul, const Product& product,
                                           const SymbolRanges& symbols) {
  const std::vector<Work> launches = library_launches(body, matmul, product);
  const std::optional<int64_t> own = estimate_ns(own_launches(body, product), symbols);
  const std::optional<int64_t> library = estimate_ns(launches, symbols);
  if (!own || !library || launches.size() < 2) return std::nullopt;
  // The next kernel reads the product in place of the result, and stores the result.
  Work next = launches[1];
  next.bytes = next.bytes - byte_count(matmul.result()->type);
  const std::optional<int64_t> in_next = estimate_ns(std::vector<Work>{launches[0], next}, symbols);
  return ProductCost{*own, *library, in_next.value_or(*library) - static_cast<int64_t>(package::launch_ns)};
}

}  // namespace rtx::codegen
