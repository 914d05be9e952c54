// Random modules for property tests.
#pragma once

#include <memory>

#include "ir/module.h"
#include "tests/equivalence.h"

namespace rtx::testing {

// A verified module of one function with symbols `b` and `s`, some `operations` operations drawn from the whole op
// list, constants and weights among the operands, and up to four outputs.
std::unique_ptr<Module> random_module(Random& random, int operations);

}  // namespace rtx::testing
