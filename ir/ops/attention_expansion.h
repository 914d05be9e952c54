// OpSpec::expand of rope and attention. Results stay within rounding.
#pragma once

#include "ir/module.h"

namespace rtx {

Result<Value*> expand_rope(const Operation& operation, Builder& builder);
Result<Value*> expand_attention(const Operation& operation, Builder& builder);

}  // namespace rtx
