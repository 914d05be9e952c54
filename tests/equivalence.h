// The evaluating comparison of modules (ir/equivalence.h), under the names that tests use.
#pragma once

#include "ir/equivalence.h"

namespace rtx::testing {

using rtx::describe_difference;
using rtx::fill_weights;
using rtx::find_difference;
using rtx::Random;
using rtx::random_tensor;

}  // namespace rtx::testing
