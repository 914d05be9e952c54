// Matrix products for several operators.
#pragma once

#include "frontend/conversion.h"

namespace rtx::onnx {

// numpy.matmul(a, b): batch axes broadcast; a vector on the left gets a leading 1, one on the right a trailing 1, which
// the result loses again. Rank 0 is E327.
Result<Value*> matrix_product(Conversion& c, Value* a, Value* b);

}  // namespace rtx::onnx
