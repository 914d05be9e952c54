// A matmul as batches of plain matrices: what a library call and our own product kernels share.
#pragma once

#include <optional>
#include <vector>

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

// What follows a matmul in its kernel. Elements of the results are computed from the elements of `parts` at the same
// place: the product itself, or slices of equal width that it is cut into along its columns, in order (a gate and what
// it is multiplied with).
struct Epilogue {
  std::vector<const Value*> parts;
  Dim columns;  // of a part
};

// Refuses bodies where an element of a result needs more than that. Other operands of the operations may be anything
// that is computed element by element.
Result<Epilogue> epilogue_of(const Block& body, const Operation& matmul);

// An epilogue that cuBLASLt can do: operands of the body that are added to the product.
struct LibraryEpilogue {
  std::optional<uint32_t> bias, residual;  // arguments of the body
};
// None where the body does anything else, or its first two arguments are not the operands of the product.
std::optional<LibraryEpilogue> library_epilogue(const Block& body, const Operation& matmul, const Product& product,
                                                const SymbolRanges& symbols);

// slice(f(x, y)) -> f(slice(x), slice(y)) for slices along the last axis of elementwise operations, and of reshapes
// that keep it: so the slices of a product with a bias become slices of the product.
void slice_before_elementwise(Block& body);

}  // namespace rtx::codegen
