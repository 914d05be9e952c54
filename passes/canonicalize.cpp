#include "passes/canonicalize.h"

#include <algorithm>
#include <cmath>
#include <optional>

namespace rtx {

namespace {

// A rule looks at one operation and returns the value that its only result may be replaced with, or null. New
// operations go in front of the root through the builder.
using Rule = Value* (*)(Operation& root, Builder& builder);

Operation* def_if(const Value* value, Op op) {
  Operation* def = value->def();
  return def && def->is(op) ? def : nullptr;
}

// The number, if every element of a constant is the same one. Integers beyond 2^53 are not told apart, so integer
// rules compare small numbers only.
std::optional<double> splat(const Value* value) {
  if (const Operation* broadcast = def_if(value, Op::broadcast)) return splat(broadcast->operand(0));
  const Operation* constant = def_if(value, Op::constant);
  if (!constant) return std::nullopt;
  const Tensor& tensor = constant->attributes.tensor("value");
  const int64_t count = tensor.element_count();
  if (count == 0) return std::nullopt;
  const size_t width = tensor.bytes.size() / static_cast<size_t>(count);
  for (int64_t i = 1; i < count; ++i)
    if (!std::equal(tensor.bytes.begin(), tensor.bytes.begin() + static_cast<ptrdiff_t>(width),
                    tensor.bytes.begin() + static_cast<ptrdiff_t>(static_cast<size_t>(i) * width)))
      return std::nullopt;
  return tensor.f64(0);
}

bool is_splat(const Value* value, double number) {
  std::optional<double> found = splat(value);
  return found && *found == number && std::signbit(*found) == std::signbit(number);
}

// Creates an operation that cannot fail: the rule has checked what infer checks.
Value* create(Builder& builder, Op op, std::vector<Value*> operands, AttributeList attributes = {}) {
  Result<Value*> value = builder.value(op, std::move(operands), std::move(attributes));
  assert(value.ok());
  return value ? *value : nullptr;
}

// `value` with the root's type: itself, or broadcast to it; null where the dtype differs.
Value* as_result(const Operation& root, Value* value, Builder& builder) {
  const Type& type = root.result()->type;
  if (value->type == type) return value;
  if (value->type.dtype != type.dtype) return nullptr;
  return create(builder, Op::broadcast, {value}, {{"shape", type.shape}});
}

// --- elementwise ----------------------------------------------------------------------------------------------------

// x + -0 -> x, x + 0 -> x for integers   (x + +0 would turn -0 into +0)
Value* add_zero(Operation& root, Builder& builder) {
  const bool exact = !is_float(root.result()->type.dtype);
  for (size_t i : {0u, 1u})
    if (is_splat(root.operand(i), exact ? 0.0 : -0.0)) return as_result(root, root.operand(1 - i), builder);
  return nullptr;
}

// x - 0 -> x
Value* sub_zero(Operation& root, Builder& builder) {
  return is_splat(root.operand(1), 0.0) ? as_result(root, root.operand(0), builder) : nullptr;
}

// x * 1 -> x;   x * 0 -> 0 for integers (inf * 0 is nan)
Value* mul_identity(Operation& root, Builder& builder) {
  for (size_t i : {0u, 1u}) {
    if (is_splat(root.operand(i), 1.0)) return as_result(root, root.operand(1 - i), builder);
    if (!is_float(root.result()->type.dtype) && is_splat(root.operand(i), 0.0))
      return as_result(root, root.operand(i), builder);
  }
  return nullptr;
}

// x / 1 -> x
Value* div_one(Operation& root, Builder& builder) {
  return is_splat(root.operand(1), 1.0) ? as_result(root, root.operand(0), builder) : nullptr;
}

// pow(x, 1) -> x;   pow(x, 2) -> x * x below f64, where the square is exact in the evaluator's f64
Value* pow_small(Operation& root, Builder& builder) {
  Value* base = root.operand(0);
  if (is_splat(root.operand(1), 1.0)) return as_result(root, base, builder);
  if (!is_splat(root.operand(1), 2.0) || base->type.dtype == DType::f64) return nullptr;
  return as_result(root, create(builder, Op::mul, {base, base}), builder);
}

// minimum(x, x) -> x, likewise maximum, logical_and, logical_or
Value* same_operands(Operation& root, Builder&) {
  return root.operand(0) == root.operand(1) ? root.operand(0) : nullptr;
}

// x && true -> x;   x && false -> false
Value* and_constant(Operation& root, Builder& builder) {
  for (size_t i : {0u, 1u}) {
    if (is_splat(root.operand(i), 1.0)) return as_result(root, root.operand(1 - i), builder);
    if (is_splat(root.operand(i), 0.0)) return as_result(root, root.operand(i), builder);
  }
  return nullptr;
}

// x || false -> x;   x || true -> true
Value* or_constant(Operation& root, Builder& builder) {
  for (size_t i : {0u, 1u}) {
    if (is_splat(root.operand(i), 0.0)) return as_result(root, root.operand(1 - i), builder);
    if (is_splat(root.operand(i), 1.0)) return as_result(root, root.operand(i), builder);
  }
  return nullptr;
}

// neg(neg(x)) -> x;   logical_not(logical_not(x)) -> x
Value* double_inverse(Operation& root, Builder&) {
  const Operation* inner = def_if(root.operand(0), root.op);
  return inner ? inner->operand(0) : nullptr;
}

// abs(abs(x)) -> abs(x), and the other idempotent ops
Value* idempotent(Operation& root, Builder&) {
  const Operation* inner = def_if(root.operand(0), root.op);
  return inner && inner->attributes == root.attributes ? root.operand(0) : nullptr;
}

// select(true, a, b) -> a;   select(false, a, b) -> b;   select(c, a, a) -> a
Value* select_known(Operation& root, Builder& builder) {
  if (root.operand(1) == root.operand(2)) return as_result(root, root.operand(1), builder);
  std::optional<double> condition = splat(root.operand(0));
  return condition ? as_result(root, root.operand(*condition != 0 ? 1 : 2), builder) : nullptr;
}

// Whether every value of `from` is kept by a cast to `to` and back.
bool holds_all(DType from, DType to) {
  if (from == to) return true;
  if (from == DType::boolean) return to != DType::boolean;
  if (is_integer(from) && is_integer(to))
    return is_signed(from) ? is_signed(to) && bit_width(to) >= bit_width(from)
                           : bit_width(to) > bit_width(from) || (!is_signed(to) && bit_width(to) >= bit_width(from));
  if (is_integer(from) || to == DType::boolean || is_integer(to)) return false;
  switch (from) {
    case DType::f8e4m3:
    case DType::f8e5m2: return to == DType::f16 || to == DType::bf16 || to == DType::f32 || to == DType::f64;
    case DType::f16:
    case DType::bf16: return to == DType::f32 || to == DType::f64;
    case DType::f32: return to == DType::f64;
    default: return false;
  }
}

// cast to the type it has -> x;   cast(cast(x, wider), t) -> cast(x, t)
Value* cast_of_cast(Operation& root, Builder& builder) {
  Value* x = root.operand(0);
  const DType to = root.result()->type.dtype;
  if (x->type.dtype == to) return x;
  const Operation* inner = def_if(x, Op::cast);
  if (!inner) return nullptr;
  Value* source = inner->operand(0);
  if (!holds_all(source->type.dtype, x->type.dtype)) return nullptr;
  if (source->type.dtype == to) return source;
  return create(builder, Op::cast, {source}, root.attributes);
}

// --- movement -------------------------------------------------------------------------------------------------------

// reshape to the shape it has -> x;   reshape(reshape(x)) -> reshape(x)
Value* reshape_of_reshape(Operation& root, Builder& builder) {
  Value* x = root.operand(0);
  if (x->type == root.result()->type) return x;
  const Operation* inner = def_if(x, Op::reshape);
  return inner ? create(builder, Op::reshape, {inner->operand(0)}, root.attributes) : nullptr;
}

// transpose by the identity -> x;   transpose(transpose(x)) -> one transpose
// transpose that only moves axes of length 1 -> reshape
Value* transpose_of_transpose(Operation& root, Builder& builder) {
  Value* x = root.operand(0);
  const std::vector<int64_t>& perm = root.attributes.integers("perm");
  if (std::is_sorted(perm.begin(), perm.end())) return x;
  if (const Operation* inner = def_if(x, Op::transpose)) {
    std::vector<int64_t> composed;
    for (int64_t axis : perm) composed.push_back(inner->attributes.integers("perm")[static_cast<size_t>(axis)]);
    return create(builder, Op::transpose, {inner->operand(0)}, {{"perm", std::move(composed)}});
  }
  std::vector<int64_t> moved;
  for (int64_t axis : perm)
    if (!x->type.shape[static_cast<size_t>(axis)].is(1)) moved.push_back(axis);
  if (std::is_sorted(moved.begin(), moved.end()))
    return create(builder, Op::reshape, {x}, {{"shape", root.result()->type.shape}});
  return nullptr;
}

// broadcast to the shape it has -> x;   broadcast(broadcast(x)) -> broadcast(x)
// broadcast that only adds leading axes of length 1 -> reshape
Value* broadcast_of_broadcast(Operation& root, Builder& builder) {
  Value* x = root.operand(0);
  if (x->type == root.result()->type) return x;
  if (const Operation* inner = def_if(x, Op::broadcast))
    return create(builder, Op::broadcast, {inner->operand(0)}, root.attributes);
  const Shape& to = root.result()->type.shape;
  const size_t added = to.size() - x->type.shape.size();
  const bool only_ones = std::all_of(to.begin(), to.begin() + static_cast<ptrdiff_t>(added), [](const Dim& d) { return d.is(1); });
  if (only_ones && std::equal(x->type.shape.begin(), x->type.shape.end(), to.begin() + static_cast<ptrdiff_t>(added)))
    return create(builder, Op::reshape, {x}, root.attributes);
  return nullptr;
}

// slice of everything -> x
Value* slice_all(Operation& root, Builder&) {
  Value* x = root.operand(0);
  if (x->type != root.result()->type) return nullptr;
  for (int64_t step : root.attributes.integers("steps"))
    if (step != 1) return nullptr;
  for (const Dim& start : root.attributes.dims("starts"))
    if (!start.is(0)) return nullptr;
  return x;
}

// concat of one part -> that part;   empty parts are left out
Value* concat_parts(Operation& root, Builder& builder) {
  const size_t axis = static_cast<size_t>(root.attributes.integer("axis"));
  if (root.operand_count() == 1) return root.operand(0);
  std::vector<Value*> parts;
  for (Value* part : root.operands())
    if (!part->type.shape[axis].is(0)) parts.push_back(part);
  if (parts.size() == root.operand_count() || parts.empty()) return nullptr;
  return create(builder, Op::concat, std::move(parts), root.attributes);
}

// gather along an axis with one known index -> slice and reshape
Value* gather_one(Operation& root, Builder& builder) {
  Value* data = root.operand(0);
  const Type& indices = root.operand(1)->type;
  if (!indices.element_count().is(1)) return nullptr;
  std::optional<double> index = splat(root.operand(1));
  const size_t axis = static_cast<size_t>(root.attributes.integer("axis"));
  const Dim& extent = data->type.shape[axis];
  // Only where the index is known to be inside, since gather clamps and slice does not.
  if (!index || !extent.is_constant()) return nullptr;
  const int64_t wrapped = static_cast<int64_t>(*index) + (*index < 0 ? extent.constant() : 0);
  if (wrapped < 0 || wrapped >= extent.constant()) return nullptr;
  std::vector<Dim> starts(data->type.shape.size(), Dim(0)), sizes = data->type.shape;
  starts[axis] = wrapped;
  sizes[axis] = 1;
  std::vector<int64_t> steps(sizes.size(), 1);
  Value* sliced = create(builder, Op::slice, {data},
                         {{"starts", std::move(starts)}, {"sizes", std::move(sizes)}, {"steps", std::move(steps)}});
  return sliced ? create(builder, Op::reshape, {sliced}, {{"shape", root.result()->type.shape}}) : nullptr;
}

// dim_values of constants -> constant
Value* dim_values_known(Operation& root, Builder& builder) {
  std::vector<int64_t> values;
  for (const Dim& d : root.attributes.dims("values")) {
    if (!d.is_constant()) return nullptr;
    values.push_back(d.constant());
  }
  return create(builder, Op::constant, {}, {{"value", Tensor::vector(values)}});
}

// --- the rest -------------------------------------------------------------------------------------------------------

// a reduction over no axes -> x   (each is then over one element)
Value* reduce_nothing(Operation& root, Builder&) {
  return root.attributes.integers("axes").empty() ? root.operand(0) : nullptr;
}

// matmul(a, transpose of the last two axes of b) -> matmul with the flag turned, likewise for a
Value* matmul_of_transpose(Operation& root, Builder& builder) {
  std::vector<Value*> operands = root.operands();
  AttributeList attributes = root.attributes;
  bool changed = false;
  for (size_t i : {0u, 1u}) {
    const Operation* transpose = def_if(operands[i], Op::transpose);
    if (!transpose) continue;
    std::vector<int64_t> perm = transpose->attributes.integers("perm");
    std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
    if (!std::is_sorted(perm.begin(), perm.end())) continue;
    const char* flag = i == 0 ? "transpose_lhs" : "transpose_rhs";
    attributes.set(flag, !attributes.boolean(flag));
    operands[i] = transpose->operand(0);
    changed = true;
  }
  return changed ? create(builder, Op::matmul, std::move(operands), std::move(attributes)) : nullptr;
}

// elementwise(broadcast(x), y) -> elementwise(x, y), where y alone gives the result its shape
Value* implicit_broadcast(Operation& root, Builder& builder) {
  std::vector<Value*> operands = root.operands();
  for (size_t i = 0; i < operands.size(); ++i) {
    const Operation* broadcast = def_if(operands[i], Op::broadcast);
    if (!broadcast) continue;
    std::vector<Value*> tried = operands;
    tried[i] = broadcast->operand(0);
    std::vector<Type> types;
    for (const Value* value : tried) types.push_back(value->type);
    AttributeList attributes = root.attributes;
    Result<std::vector<Type>> inferred = infer_types(root.op, types, attributes);
    if (inferred && inferred->front() == root.result()->type) operands = std::move(tried);
  }
  return operands == root.operands() ? nullptr : create(builder, root.op, std::move(operands), root.attributes);
}

// Rules by root operation, tried in order. This is a table of rules, not of ops: an op without rules has no row.
struct RuleRow {
  Op root;
  Rule rule;
};
constexpr RuleRow rules[] = {
    {Op::add, add_zero},
    {Op::sub, sub_zero},
    {Op::mul, mul_identity},
    {Op::div, div_one},
    {Op::pow, pow_small},
    {Op::minimum, same_operands},
    {Op::maximum, same_operands},
    {Op::logical_and, same_operands},
    {Op::logical_and, and_constant},
    {Op::logical_or, same_operands},
    {Op::logical_or, or_constant},
    {Op::neg, double_inverse},
    {Op::logical_not, double_inverse},
    {Op::select, select_known},
    {Op::cast, cast_of_cast},
    {Op::reshape, reshape_of_reshape},
    {Op::transpose, transpose_of_transpose},
    {Op::broadcast, broadcast_of_broadcast},
    {Op::slice, slice_all},
    {Op::concat, concat_parts},
    {Op::gather, gather_one},
    {Op::dim_values, dim_values_known},
    {Op::reduce_sum, reduce_nothing},
    {Op::reduce_mean, reduce_nothing},
    {Op::reduce_max, reduce_nothing},
    {Op::reduce_min, reduce_nothing},
    {Op::reduce_prod, reduce_nothing},
    {Op::matmul, matmul_of_transpose},
};

Value* rewrite(Operation& root, Builder& builder) {
  for (const RuleRow& row : rules) {
    if (row.root != root.op) continue;
    if (Value* value = row.rule(root, builder)) return value;
  }
  if (root.spec().has(trait_idempotent))
    if (Value* value = idempotent(root, builder)) return value;
  if (root.spec().has(trait_broadcasts))
    if (Value* value = implicit_broadcast(root, builder)) return value;
  return nullptr;
}

bool canonicalize_block(Block& block) {
  Worklist worklist;
  for (const auto& op : block.operations()) worklist.push(op.get());
  bool changed = false;
  while (Operation* root = worklist.pop()) {
    if (root->result_count() == 0) continue;
    if (root->unused()) {
      for (Value* operand : root->operands())
        if (operand->def() && operand->has_one_use()) worklist.push(operand->def());
      worklist.remove(root);
      block.erase(root);
      changed = true;
      continue;
    }
    if (root->result_count() != 1) continue;
    Builder builder(block, root);
    builder.origins = root->origins;
    Value* value = rewrite(*root, builder);
    if (!value) continue;
    if (value->def()) {
      if (value->name.empty()) value->name = root->result()->name;
      worklist.push(value->def());
      for (Value* operand : value->def()->operands())
        if (operand->def()) worklist.push(operand->def());
    }
    worklist.push_users(root->result());
    root->result()->replace_all_uses_with(value);
    worklist.push(root);  // unused now: erased when its turn comes
    changed = true;
  }
  return changed;
}

}  // namespace

Result<bool> canonicalize(Module& module, PassContext&) {
  bool changed = false;
  for (const auto& function : module.functions) changed = canonicalize_block(function->block) || changed;
  return changed;
}

}  // namespace rtx
