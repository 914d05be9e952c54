// Values that are an affine function of their own index, as the positions from which masks are compared.
#pragma once

#include <optional>
#include <vector>

#include "ir/module.h"

namespace rtx {

// value[i0, i1, ...] = base + sum(factors[axis] * i_axis).
struct AffineIndex {
  Dim base;
  std::vector<Dim> factors;  // one an axis
};

// Null where the value is not built from iota, sizes, integer constants, sums, products with one of the latter and
// moves. Integers only.
std::optional<AffineIndex> affine_index(const Value* value);

}  // namespace rtx
