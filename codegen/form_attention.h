// Attention becomes `fusion` operations of kind attention: with the moves that make q, k, v and masks of values in
// memory, the operations that spread a mask over queries and keys, and the moves that join its heads again. What
// plan_attention refuses is expanded into core operations.
#pragma once

#include "base/result.h"
#include "codegen/decision.h"
#include "ir/module.h"

namespace rtx::codegen {

// `module` is canonical and stays so, but for these fusions. `log`, if given, gets a decision for each attention that
// was expanded.
Result<void> form_attention(Module& module, OriginLog* log = nullptr);

}  // namespace rtx::codegen
