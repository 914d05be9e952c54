// The one place that decides whether a product and what is done to its elements
// become one kernel of ours, or a call of cuBLASLt and a kernel for the rest. A
// product alone is always cuBLASLt's, unless its bits must not depend on the
// batch.
#pragma once

#include "codegen/kernel_plan.h"
#include "codegen/product.h"

namespace rtx::codegen {

// For a float product with an epilogue, at the sizes that are planned for
// (representative_values); nothing where they cannot be evaluated.
std::optional<ProductCost> cost_of_product(const Block& body, const Operation& matmul, const Product& product,
                                           const SymbolRanges& symbols);

}  // namespace rtx::codegen
