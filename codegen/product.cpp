#include "codegen/product.h"

#include <algorithm>
#include <optional>

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

// The axis along which a slice with steps of 1 takes less than everything.
std::optional<size_t> only_axis(const Operation& slice) {
  const Shape &from = slice.operand(0)->type.shape, &to = slice.result()->type.shape;
  const std::vector<int64_t>& steps = slice.attributes.integers("steps");
  std::optional<size_t> axis;
  for (size_t i = 0; i < from.size(); ++i) {
    if (steps[i] != 1) return std::nullopt;
    if (from[i] == to[i]) continue;
    if (axis) return std::nullopt;
    axis = i;
  }
  return axis;
}

// The slices that the product is cut into; none if that is not all that is done to it.
std::vector<const Value*> parts_of(const Value& product) {
  const size_t count = product.uses().size(), last = product.type.shape.size() - 1;
  std::vector<const Value*> parts(count);
  for (const Use& use : product.uses()) {
    const Operation& slice = *use.user;
    if (!slice.is(Op::slice) || only_axis(slice) != last) return {};
    const Dim& width = slice.result()->type.shape.back();
    if (!(width * Dim(static_cast<int64_t>(count)) == product.type.shape.back())) return {};
    for (size_t i = 0; i < count; ++i) {
      if (slice.attributes.dims("starts").back() == width * Dim(static_cast<int64_t>(i))) parts[i] = slice.result();
    }
  }
  if (std::find(parts.begin(), parts.end(), nullptr) != parts.end()) return {};
  return parts;
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

Result<Epilogue> epilogue_of(const Block& body, const Operation& matmul) {
  RTX_TRY(check_elementwise("contract", body, &matmul));
  const Type& type = matmul.result()->type;
  Epilogue epilogue{parts_of(*matmul.result()), type.shape.back()};
  if (epilogue.parts.empty()) epilogue.parts.push_back(matmul.result());
  epilogue.columns = epilogue.parts[0]->type.shape.back();
  const Dim count = epilogue.parts[0]->type.element_count();
  for (const Value* result : body.terminator()->operands()) {
    if (!(result->type.element_count() == count)) return refuse("contract", "a result has another size");
  }
  for (const Value* part : epilogue.parts) {
    if (!keeps_order(*part, count)) return refuse("contract", "an element needs more than its own of the product");
  }
  return epilogue;
}

std::optional<LibraryEpilogue> library_epilogue(const Block& body, const Operation& matmul, const Product& product,
                                                const SymbolRanges& symbols) {
  if (body.argument_count() < 2 || matmul.operand(0) != body.argument(0) || matmul.operand(1) != body.argument(1))
    return std::nullopt;
  LibraryEpilogue epilogue;
  const Value* value = matmul.result();
  size_t used = 1;
  for (; value->has_one_use() && !value->uses()[0].user->is(Op::yield); ++used) {
    const Use use = value->uses()[0];
    const Operation& user = *use.user;
    value = user.result();
    if (user.is(Op::reshape)) continue;
    if (!user.is(Op::add) || !(value->type.element_count() == matmul.result()->type.element_count()))
      return std::nullopt;
    const Value* other = user.operand(1 - use.index);
    const Dim count = other->type.element_count();
    const bool is_bias = count == product.n && !other->type.shape.empty() && other->type.shape.back() == product.n &&
                         value->type.shape.back() == product.n;
    const bool is_residual = other->type.shape == value->type.shape;
    while (other->def() && other->def()->is(Op::reshape)) {
      ++used;
      other = other->def()->operand(0);
    }
    if (other->def()) return std::nullopt;
    if (is_residual && !epilogue.residual) {
      epilogue.residual = other->index();
    } else if (is_bias && !epilogue.bias && product.dtype != DType::f64) {
      epilogue.bias = other->index();
    } else {
      return std::nullopt;
    }
  }
  const bool whole = value->has_one_use() && body.terminator()->operand_count() == 1 && used + 1 == body.size();
  const bool empty = (epilogue.bias || epilogue.residual) && product.k.lower_bound(symbols) < 1;
  return whole && !empty ? std::optional(epilogue) : std::nullopt;
}

void slice_before_elementwise(Block& body) {
  const auto& operations = body.operations();
  for (auto position = operations.rbegin(); position != operations.rend();) {
    Operation* slice = position->get();
    ++position;
    if (!slice->is(Op::slice)) continue;
    Operation* work = slice->operand(0)->def();
    const std::optional<size_t> axis = only_axis(*slice);
    if (!work || axis != slice->result()->type.shape.size() - 1) continue;
    const bool keeps_columns = work->is(Op::reshape) && work->operand(0)->type.rank() > 0 &&
                               work->operand(0)->type.shape.back() == work->result()->type.shape.back();
    if (!is_scalar_op(work->op) && !keeps_columns) continue;
    std::vector<Value*> operands;
    for (Value* operand : work->operands()) {
      const Shape& shape = operand->type.shape;
      if (shape.empty() || shape.back().is(1)) {
        operands.push_back(operand);
        continue;
      }
      AttributeList attributes;
      Shape starts(shape.size(), Dim(0)), sizes = shape;
      starts.back() = slice->attributes.dims("starts").back();
      sizes.back() = slice->result()->type.shape.back();
      attributes.set("starts", starts);
      attributes.set("sizes", sizes);
      attributes.set("steps", std::vector<int64_t>(shape.size(), 1));
      operands.push_back(
          body.insert(slice, Op::slice, {operand}, std::move(attributes), {{operand->type.dtype, sizes}})->result());
    }
    AttributeList attributes = work->attributes;
    if (keeps_columns) attributes.set("shape", slice->result()->type.shape);
    Operation* moved = body.insert(slice, work->op, std::move(operands), std::move(attributes),
                                   {{work->result()->type.dtype, slice->result()->type.shape}});
    slice->result()->replace_all_uses_with(moved->result());
    body.erase(slice);
    if (work->unused()) body.erase(work);
    position = operations.rbegin();
  }
}

}  // namespace rtx::codegen
