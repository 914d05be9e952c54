// Operations of one block with the same op, operands and attributes become one. Operands of commutative operations
// match in either order. Fusions are left alone.
#pragma once

#include "passes/pass.h"

namespace rtx {

Result<bool> eliminate_common_subexpressions(Module& module, PassContext& context);
// Of one block; returns whether anything changed.
bool eliminate_common_subexpressions(Block& block);

}  // namespace rtx
