// Merges products that share their left operand and feed one operation into one product with a wider weight: q, k and
// v, gate and up. Weights and biases are joined by concat, which fold_constants then evaluates; what used a product
// reads a slice. Needs recovered composites. Leaves weights alone that are used elsewhere too, and joins no more bytes
// than the budgets of fold_constants allow.
#pragma once

#include "passes/pass.h"

namespace rtx {

Result<bool> merge_products(Module& module, PassContext& context);

}  // namespace rtx
