// A matmul as batches of plain matrices: what a library call and our own product kernels share.
#pragma once

#include "base/result.h"
#include "ir/module.h"

namespace rtx::codegen {

// result[b] = op(lhs[b]) * op(rhs[b]), [m, n] = [m, k] * [k, n] for b below `batch`; a transposed operand is stored as
// [k, m] or [n, k]. Operand b starts at b * its stride, in elements; results follow one another. A right operand
// without batch turns the left one's batch into rows.
struct Product {
  Dim batch, m, n, k;
  bool transpose_lhs = false, transpose_rhs = false;
  Dim lhs_stride, rhs_stride;
  DType dtype = DType::f32;

  Dim flops() const { return Dim(2) * batch * m * n * k; }
};

// Refuses (E441) batches that broadcast in part: their matrices do not lie evenly.
Result<Product> product_of(const Operation& matmul);

// A refusal unless every value between the matmul and the results of the body is computed element by element in the
// order of its elements, so that one of them needs only its own element of the product. Other operands of those
// operations may be anything that is computed element by element.
Result<void> check_epilogue(const Block& body, const Operation& matmul);

}  // namespace rtx::codegen
