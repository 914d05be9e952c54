// The verifier: structure, dtypes, attributes, types by re-inference, legal ops of the stage.
#pragma once

#include <functional>
#include <string>

#include "ir/module.h"

namespace rtx {

// All findings, in program order. Checks: operands defined before use and in the same block, one `yield` at the end,
// names of inputs and outputs unique, every symbol declared, result types equal to what infer gives, `weight` types
// equal to the store's (where it has entries), ops legal in module.stage. An attribute that is left out and has a
// default is filled in.
Result<void> verify(const Module& module);

// The same with the caller's own way to name the place of an operation ("file:line:column").
using Locator = std::function<std::string(const Operation&)>;
Result<void> verify_located(const Module& module, const Locator& locate);
// A kernel body on its own: everything but symbols, names and stage.
Result<void> verify_body_located(const Block& block, const Locator& locate);

// Whether an operation may stand at the top level of a function in this stage. Bodies of `fusion` hold any op but
// `fusion`.
bool is_legal(Op op, Stage stage);

}  // namespace rtx
