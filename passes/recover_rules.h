// The rules of recover_composites, in their order: each may build on what those before it made.
#pragma once

#include "passes/canonicalize_rules.h"

namespace rtx {

std::span<const Rule> activation_recoveries();
std::span<const Rule> norm_recoveries();
std::span<const Rule> rope_recoveries();
std::span<const Rule> attention_recoveries();

}  // namespace rtx
