#include "codegen/product.h"

#include "codegen/emit/scalar_ops.h"
#include "codegen/plan_common.h"

namespace rtx::codegen {
namespace {

bool keeps_order(const Value& value, const Dim& count) {
  for (const Use& use : value.uses()) {
    const Operation& user = *use.user;
    if (user.is(Op::yield)) continue;
    if (!user.is(Op::reshape) && !is_scalar_op(user.op)) return false;
    if (!(user.result()->type.element_count() == count) || !keeps_order(*user.result(), count)) return false;
  }
  return true;
}

}  // namespace

Result<Product> product_of(const Operation& matmul) {
  const Shape &lhs = matmul.operand(0)->type.shape, &rhs = matmul.operand(1)->type.shape;
  const Shape& out = matmul.result()->type.shape;
  Product result;
  result.transpose_lhs = matmul.attributes.boolean("transpose_lhs");
  result.transpose_rhs = matmul.attributes.boolean("transpose_rhs");
  result.dtype = matmul.result()->type.dtype;
  result.batch = product(out, 0, out.size() - 2);
  result.m = out[out.size() - 2];
  result.n = out[out.size() - 1];
  result.k = lhs[lhs.size() - (result.transpose_lhs ? 2 : 1)];
  const Dim lhs_batch = product(lhs, 0, lhs.size() - 2), rhs_batch = product(rhs, 0, rhs.size() - 2);
  if (!(lhs_batch == result.batch) && !lhs_batch.is(1))
    return refuse("contract", "the batch of lhs broadcasts in part");
  if (!(rhs_batch == result.batch) && !rhs_batch.is(1))
    return refuse("contract", "the batch of rhs broadcasts in part");
  if (rhs_batch.is(1) && !result.transpose_lhs) {
    result.m = lhs_batch * result.m;
    result.batch = 1;
  } else {
    result.lhs_stride = lhs_batch.is(1) ? Dim(0) : result.m * result.k;
    result.rhs_stride = rhs_batch.is(1) ? Dim(0) : result.k * result.n;
  }
  return result;
}

Result<void> check_epilogue(const Block& body, const Operation& matmul) {
  RTX_TRY(check_elementwise("contract", body, &matmul));
  const Dim count = matmul.result()->type.element_count();
  for (const Value* result : body.terminator()->operands()) {
    if (!(result->type.element_count() == count)) return refuse("contract", "a result has another size");
  }
  if (!keeps_order(*matmul.result(), count))
    return refuse("contract", "an element needs more than its own of the product");
  return Ok{};
}

}  // namespace rtx::codegen
