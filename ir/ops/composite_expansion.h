// The core operations that norms, softmax and activations stand for; of 16-bit floats in f32.
#pragma once

#include "ir/module.h"

namespace rtx {

Result<Value*> expand_softmax(const Operation& operation, Builder& builder);
Result<Value*> expand_log_softmax(const Operation& operation, Builder& builder);
Result<Value*> expand_layer_norm(const Operation& operation, Builder& builder);
Result<Value*> expand_rms_norm(const Operation& operation, Builder& builder);
Result<Value*> expand_gelu(const Operation& operation, Builder& builder);
Result<Value*> expand_silu(const Operation& operation, Builder& builder);

}  // namespace rtx
