// Rules with an elementwise operation or a reduction at the root. Floats: only rewrites that give the same bits, so
// x + 0 stays (-0 + 0 is +0) and pow(x, 0.5) stays (it differs from sqrt at -inf and -0).

#include <algorithm>
#include <cmath>

#include "passes/canonicalize_rules.h"

namespace rtx {

namespace {

bool is_integer_type(const Value* value) { return is_integer(value->type.dtype); }

// --- add, sub ---

// x + 0 -> x   (integers; floats only with -0: -0 + 0 is +0)
Value* add_zero(Operation& root, Rewriter&) {
  bool neutral = is_constant(root.operand(1), is_integer_type(root.operand(0)) ? 0.0 : -0.0);
  return neutral ? root.operand(0) : nullptr;
}

// x - 0 -> x
Value* sub_zero(Operation& root, Rewriter&) { return is_constant(root.operand(1), 0.0) ? root.operand(0) : nullptr; }

// x - x -> 0   (integers: inf - inf is nan)
Value* sub_itself(Operation& root, Rewriter& rewriter) {
  if (root.operand(0) != root.operand(1) || !is_integer_type(root.operand(0))) return nullptr;
  return rewriter.filled(root.result()->type, 0);
}

// x + -y -> x - y   and   -x + y -> y - x
Value* add_negated(Operation& root, Rewriter& rewriter) {
  for (size_t i : {1, 0}) {
    if (Operation* neg = defined_by(root.operand(i), Op::neg)) {
      return rewriter.make(Op::sub, {root.operand(1 - i), neg->operand(0)});
    }
  }
  return nullptr;
}

// x - -y -> x + y
Value* sub_negated(Operation& root, Rewriter& rewriter) {
  Operation* neg = defined_by(root.operand(1), Op::neg);
  return neg ? rewriter.make(Op::add, {root.operand(0), neg->operand(0)}) : nullptr;
}

// (x + c1) + c2 -> x + (c1 + c2)   and the same for mul   (integers: floats round twice)
Value* merge_constants(Operation& root, Rewriter& rewriter) {
  Operation* inner = defined_by(root.operand(0), root.op);
  if (!inner || !is_integer_type(root.operand(0))) return nullptr;
  const Tensor* parts[] = {constant_tensor(inner->operand(1)), constant_tensor(root.operand(1))};
  if (!parts[0] || !parts[1]) return nullptr;
  // Folded here rather than by fold_constants, so that a chain of any length ends in one constant.
  const Type types[] = {inner->operand(1)->type, root.operand(1)->type};
  AttributeList attributes = root.attributes;
  Result<std::vector<Type>> merged = infer_types(root.op, types, attributes);
  if (!merged) return nullptr;
  std::vector<int64_t> shape;
  for (const Dim& dim : (*merged)[0].shape) shape.push_back(dim.constant());
  const Tensor zeros[] = {Tensor((*merged)[0].dtype, std::move(shape))};
  Result<std::vector<Tensor>> folded = root.spec().evaluate({root.op, parts, attributes, {}, zeros});
  if (!folded) return nullptr;
  Value* constant = rewriter.make(Op::constant, {}, {{"value", std::move((*folded)[0])}});
  return rewriter.make(root.op, {inner->operand(0), constant});
}

// --- mul, div, pow ---

// x * 1 -> x
Value* mul_one(Operation& root, Rewriter&) { return is_constant(root.operand(1), 1) ? root.operand(0) : nullptr; }

// x * 0 -> 0   (integers: inf * 0 is nan, -1.0 * 0 is -0)
Value* mul_zero(Operation& root, Rewriter& rewriter) {
  if (!is_integer_type(root.operand(0)) || !is_constant(root.operand(1), 0)) return nullptr;
  return rewriter.filled(root.result()->type, 0);
}

// x / 1 -> x
Value* div_one(Operation& root, Rewriter&) { return is_constant(root.operand(1), 1) ? root.operand(0) : nullptr; }

// x / 2^k -> x * 2^-k   (floats; both round the same real number once; |k| small enough to be exact in f16)
Value* div_power_of_two(Operation& root, Rewriter& rewriter) {
  std::optional<double> divisor = constant_number(root.operand(1));
  if (!divisor || !is_float(root.operand(0)->type.dtype)) return nullptr;
  int exponent = 0;
  if (std::frexp(std::fabs(*divisor), &exponent) != 0.5 || std::abs(exponent - 1) > 14 || *divisor == 1) return nullptr;
  Tensor reciprocal = *constant_tensor(root.operand(1));
  for (int64_t i = 0; i < reciprocal.element_count(); ++i) reciprocal.set_f64(i, 1 / *divisor);
  Value* factor = rewriter.make(Op::constant, {}, {{"value", std::move(reciprocal)}});
  return rewriter.make(Op::mul, {root.operand(0), factor});
}

// An integer base with a float exponent goes through f64: it loses bits and saturates.
bool mixes_types(const Operation& pow) { return is_integer_type(pow.operand(0)) && !is_integer_type(pow.operand(1)); }

// pow(x, 1) -> x
Value* pow_one(Operation& root, Rewriter&) {
  return is_constant(root.operand(1), 1) && !mixes_types(root) ? root.operand(0) : nullptr;
}

// pow(x, 0) -> 1   (also for nan, as IEEE 754 has it)
Value* pow_zero(Operation& root, Rewriter& rewriter) {
  if (!is_constant(root.operand(1), 0)) return nullptr;
  return rewriter.filled(root.result()->type, 1);
}

// pow(x, 2) -> x * x   (f32 and narrower, where x * x is exact in f64, and integers)
Value* pow_two(Operation& root, Rewriter& rewriter) {
  Value* x = root.operand(0);
  if (!is_constant(root.operand(1), 2) || x->type.dtype == DType::f64 || mixes_types(root)) return nullptr;
  return x->type == root.result()->type ? rewriter.make(Op::mul, {x, x}) : nullptr;
}

// --- one operand ---

// -(-x) -> x   and   not not x -> x
Value* drop_inverse(Operation& root, Rewriter&) {
  Operation* inner = defined_by(root.operand(0), root.op);
  return inner ? inner->operand(0) : nullptr;
}

// |-x| -> |x|   (not unsigned: -1 is 255 there)
Value* abs_negated(Operation& root, Rewriter& rewriter) {
  DType dtype = root.result()->type.dtype;
  if (dtype == DType::u8 || dtype == DType::u4) return nullptr;
  Operation* neg = defined_by(root.operand(0), Op::neg);
  return neg ? rewriter.make(Op::abs, {neg->operand(0)}) : nullptr;
}

// cast(x) to its own dtype -> x
Value* cast_to_itself(Operation& root, Rewriter&) {
  return root.operand(0)->type.dtype == root.result()->type.dtype ? root.operand(0) : nullptr;
}

// Bits of the significand, or of the magnitude of an integer; what a format holds exactly.
int precision(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return 53;
    case DType::f32:
      return 24;
    case DType::f16:
      return 11;
    case DType::bf16:
      return 8;
    case DType::f8e4m3:
      return 4;
    case DType::f8e5m2:
      return 3;
    case DType::boolean:
      return 1;
    case DType::i64:
    case DType::i32:
    case DType::i16:
    case DType::i8:
    case DType::i4:
      return bit_width(dtype) - 1;
    case DType::u8:
    case DType::u4:
      return bit_width(dtype);
  }
  return 0;
}

// Whether every value of `from` is a value of `to`.
bool is_exact_cast(DType from, DType to) {
  if (from == to || from == DType::boolean) return true;
  if (!is_float(from)) {
    if (to == DType::boolean || (!is_float(to) && is_signed(from) && !is_signed(to))) return false;
    // An integer fits a float of its precision; f16 and the f8 forms also need the range, which i8 and u8 have in f16.
    if (to == DType::f8e4m3 || to == DType::f8e5m2) return false;
    return precision(from) <= precision(to);
  }
  switch (to) {
    case DType::f64:
      return true;
    case DType::f32:
      return from != DType::f64;
    case DType::f16:
    case DType::bf16:
      return from == DType::f8e4m3 || from == DType::f8e5m2;
    default:
      return false;
  }
}

// cast(cast(x)) -> cast(x)   (where the inner cast loses nothing; integers through floats to integers saturate
// instead of dropping high bits, so only back to where they came from)
Value* merge_casts(Operation& root, Rewriter& rewriter) {
  Operation* inner = defined_by(root.operand(0), Op::cast);
  if (!inner) return nullptr;
  DType from = inner->operand(0)->type.dtype, through = inner->result()->type.dtype, to = root.result()->type.dtype;
  if (!is_exact_cast(from, through)) return nullptr;
  if (from == to) return inner->operand(0);
  if (is_integer(from) && is_float(through) && is_integer(to)) return nullptr;
  return rewriter.make(Op::cast, {inner->operand(0)}, root.attributes);
}

// --- logic and choice ---

// x and true -> x   and   x or false -> x
Value* logical_neutral(Operation& root, Rewriter&) {
  return is_constant(root.operand(1), root.is(Op::logical_and) ? 1 : 0) ? root.operand(0) : nullptr;
}

// x and false -> false   and   x or true -> true
Value* logical_absorbing(Operation& root, Rewriter& rewriter) {
  double absorbing = root.is(Op::logical_and) ? 0 : 1;
  return is_constant(root.operand(1), absorbing) ? rewriter.filled(root.result()->type, absorbing) : nullptr;
}

// x and x -> x, and the same for or, minimum, maximum
Value* same_operands(Operation& root, Rewriter&) {
  return root.operand(0) == root.operand(1) ? root.operand(0) : nullptr;
}

// x == x -> true, x <= x -> true   (not floats: nan)   and   x < x -> false
Value* compare_itself(Operation& root, Rewriter& rewriter) {
  if (root.operand(0) != root.operand(1)) return nullptr;
  if (!root.is(Op::less) && is_float(root.operand(0)->type.dtype)) return nullptr;
  return rewriter.filled(root.result()->type, root.is(Op::less) ? 0 : 1);
}

// Whether no element is negative, because it is an index. Looks through what only moves elements.
bool is_index(const Value* value) {
  while (Operation* definition = value->def()) {
    if (definition->is(Op::iota)) return is_integer(value->type.dtype);
    if (!definition->is(Op::reshape) && !definition->is(Op::broadcast) && !definition->is(Op::transpose)) return false;
    value = definition->operand(0);
  }
  return false;
}

// 0 <= iota -> true, -1 < iota -> true   (exporters write bidirectional masks as such comparisons)
Value* compare_index(Operation& root, Rewriter& rewriter) {
  std::optional<double> bound = constant_number(root.operand(0));
  if (!bound || !is_index(root.operand(1)) || *bound > (root.is(Op::less) ? -1 : 0)) return nullptr;
  return rewriter.filled(root.result()->type, 1);
}

// select(true, x, y) -> x   and   select(false, x, y) -> y   (broadcast to the type of the result)
Value* select_constant(Operation& root, Rewriter& rewriter) {
  std::optional<double> condition = constant_number(root.operand(0));
  if (!condition) return nullptr;
  Value* chosen = root.operand(*condition != 0 ? 1 : 2);
  if (chosen->type == root.result()->type) return chosen;
  return rewriter.make(Op::broadcast, {chosen}, {{"shape", root.result()->type.shape}});
}

// select(c, x, x) -> x
Value* select_same(Operation& root, Rewriter&) {
  return root.operand(1) == root.operand(2) ? root.operand(1) : nullptr;
}

// select(not c, x, y) -> select(c, y, x)
Value* select_negated(Operation& root, Rewriter& rewriter) {
  Operation* negation = defined_by(root.operand(0), Op::logical_not);
  if (!negation) return nullptr;
  return rewriter.make(Op::select, {negation->operand(0), root.operand(2), root.operand(1)});
}

// --- reductions ---

// reduce_max(x) over axes of length 1 -> reshape(x)   (sums and means of floats only turn -0 into 0, so they stay)
Value* reduce_nothing(Operation& root, Rewriter& rewriter) {
  const Value* x = root.operand(0);
  bool sum = root.is(Op::reduce_sum) || root.is(Op::reduce_mean);
  if (sum && is_float(x->type.dtype)) return nullptr;
  const std::vector<int64_t>& axes = root.attributes.integers("axes");
  bool nothing = std::all_of(axes.begin(), axes.end(),
                             [&](int64_t axis) { return x->type.shape[static_cast<size_t>(axis)].is(1); });
  return nothing ? rewriter.make(Op::reshape, {root.operand(0)}, {{"shape", root.result()->type.shape}}) : nullptr;
}

constexpr Rule rules[] = {
    {Op::add, add_zero},
    {Op::add, add_negated},
    {Op::add, merge_constants},
    {Op::sub, sub_zero},
    {Op::sub, sub_itself},
    {Op::sub, sub_negated},
    {Op::mul, mul_one},
    {Op::mul, mul_zero},
    {Op::mul, merge_constants},
    {Op::div, div_one},
    {Op::div, div_power_of_two},
    {Op::pow, pow_one},
    {Op::pow, pow_zero},
    {Op::pow, pow_two},
    {Op::neg, drop_inverse},
    {Op::abs, abs_negated},
    {Op::logical_not, drop_inverse},
    {Op::cast, cast_to_itself},
    {Op::cast, merge_casts},
    {Op::logical_and, logical_neutral},
    {Op::logical_and, logical_absorbing},
    {Op::logical_and, same_operands},
    {Op::logical_or, logical_neutral},
    {Op::logical_or, logical_absorbing},
    {Op::logical_or, same_operands},
    {Op::minimum, same_operands},
    {Op::maximum, same_operands},
    {Op::equal, compare_itself},
    {Op::less, compare_itself},
    {Op::less, compare_index},
    {Op::less_equal, compare_itself},
    {Op::less_equal, compare_index},
    {Op::select, select_constant},
    {Op::select, select_same},
    {Op::select, select_negated},
    {Op::reduce_sum, reduce_nothing},
    {Op::reduce_mean, reduce_nothing},
    {Op::reduce_max, reduce_nothing},
    {Op::reduce_min, reduce_nothing},
    {Op::reduce_prod, reduce_nothing},
};

}  // namespace

std::span<const Rule> arithmetic_rules() { return rules; }

}  // namespace rtx
