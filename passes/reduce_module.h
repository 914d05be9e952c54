// Shrinks a module that makes something fail to a small one that makes it fail the same way. For `rtx-opt --reduce`.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "ir/equivalence.h"
#include "passes/pipeline.h"

namespace rtx {

struct Failure {
  // What failures are told apart by: "E158 after pass 'canonicalize'", "outputs differ", "exit code 3".
  std::string kind;
  std::string text;  // for people
};

// Looks at a module, which is left as it is: how it fails, or nullopt. An error ends the reduction.
using FailureCheck = std::function<Result<std::optional<Failure>>(const Module&)>;

// The check of `--check=evaluate`: `run` changes a copy of the module, which is then verified; an error of either is a
// failure of its own id. With `seed`, outputs are compared before and after too (difference_of); a module that cannot
// be evaluated before does not fail.
struct PassCheck {
  std::function<Result<void>(Module&)> run;
  std::optional<uint64_t> seed;
  double tolerance = 0;
  int rounds = 6;
};
FailureCheck failure_of_passes(PassCheck check);

struct ReduceStep {
  std::string what;  // "replaced 12 operations by inputs"
  size_t operations = 0;
};

// Tries, as long as something helps: fewer functions, fewer outputs, an operation replaced by one of its operands, by a
// constant or by a new input, fewer inputs, symbols bound to small sizes, smaller static sizes. Every step keeps the
// module valid and `check` failing with the same kind, so the result fails as the module did. The same module and check
// give the same result. Weights that were made smaller hold the first of their numbers. `on_step` is called after each
// step that helped; may be empty.
//
// Error: E016, the module does not fail.
Result<std::unique_ptr<Module>> reduce_module(const Module& module, const FailureCheck& check,
                                              const std::function<void(const ReduceStep&)>& on_step = {});

}  // namespace rtx
