// The one place that decides whether a product and what is done to its elements become one kernel of ours, or a call of
// cuBLASLt and a kernel for the rest. A product alone is always cuBLASLt's, unless its bits must not depend on the
// batch.
#pragma once

#include "codegen/kernel_plan.h"
#include "codegen/product.h"

namespace rtx::codegen {

// What share of the peak large products reach.
inline constexpr int own_percent = 55, library_percent = 85;

package::MathUnit unit_of_product(DType dtype);

// The launches that `body`, a float product with or without an epilogue, becomes by a kernel of ours.
std::vector<Work> own_launches(const Block& body, const Product& product);
// The same by one call of cuBLASLt that does all of it (library_epilogue).
std::vector<Work> library_call(const Block& body, const Product& product);
// The same by cuBLASLt, and a kernel for the epilogue where there is one.
std::vector<Work> library_launches(const Block& body, const Operation& matmul, const Product& product);

// For a float product with an epilogue; nothing where sizes cannot be evaluated.
std::optional<ProductCost> cost_of_product(const Block& body, const Operation& matmul, const Product& product,
                                           const SymbolRanges& symbols);

}  // namespace rtx::codegen
