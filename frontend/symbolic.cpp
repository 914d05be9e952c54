#include "frontend/symbolic.h"

#include <cmath>

namespace rtx::onnx {
namespace {

using Operands = std::span<const Element>;

Element boolean(bool value) { return Element::of(Dim(value ? 1 : 0)); }

std::optional<bool> less(const Dim& a, const Dim& b, const SymbolRanges& ranges) {
  Dim difference = b - a;
  if (difference.overflowed()) return std::nullopt;
  if (difference.lower_bound(ranges) > 0) return true;
  if (difference.upper_bound(ranges) <= 0) return false;
  return std::nullopt;
}

std::optional<bool> equal(const Dim& a, const Dim& b, const SymbolRanges& ranges) {
  if (a == b) return true;
  Dim difference = b - a;
  if (difference.overflowed()) return std::nullopt;
  if (difference.lower_bound(ranges) > 0 || difference.upper_bound(ranges) < 0) return false;
  return std::nullopt;
}

std::optional<bool> truth(const Element& element) {
  if (!element.is_constant()) return std::nullopt;
  return element.kind == Element::Kind::real ? element.real != 0 : !element.dim.is(0);
}

// Both operands as integer expressions, or nothing.
struct Pair {
  Dim a, b;
};
std::optional<Pair> dims(Operands operands) {
  auto a = operands[0].as_dim(), b = operands[1].as_dim();
  if (!a || !b) return std::nullopt;
  return Pair{*a, *b};
}

Element checked(Dim value) { return value.overflowed() ? Element{} : Element::of(std::move(value)); }

Element compared(std::optional<bool> result) { return result ? boolean(*result) : Element{}; }

}  // namespace

Element Element::of(Dim value) {
  Element element;
  element.kind = Kind::dim;
  element.dim = std::move(value);
  return element;
}

Element Element::of_real(double value) {
  Element element;
  element.kind = Kind::real;
  element.real = value;
  return element;
}

std::optional<Dim> Element::as_dim() const {
  if (kind == Kind::dim) return dim;
  constexpr double exact = 9007199254740992.0;  // 2^53
  if (kind == Kind::real && std::trunc(real) == real && std::abs(real) <= exact) return Dim(static_cast<int64_t>(real));
  return std::nullopt;
}

bool Contents::all_known() const {
  for (const Element& element : elements)
    if (!element.known()) return false;
  return true;
}

bool Contents::all_constant() const {
  for (const Element& element : elements)
    if (!element.is_constant()) return false;
  return true;
}

void Contents::substitute(std::string_view symbol, const Dim& value) {
  for (Element& element : elements)
    if (element.kind == Element::Kind::dim && !element.dim.is_constant())
      element.dim = element.dim.substituted(symbol, value);
}

bool may_have_contents(DType dtype, int64_t element_count) {
  if (dtype == DType::i64 || dtype == DType::i32 || dtype == DType::boolean)
    return element_count <= max_integer_contents;
  return (dtype == DType::f32 || dtype == DType::f64 || dtype == DType::f16 || dtype == DType::bf16) &&
         element_count <= max_float_contents;
}

Contents contents_of(const Tensor& tensor) {
  Contents contents{tensor.dtype, tensor.shape, {}};
  int64_t count = tensor.element_count();
  contents.elements.reserve(count);
  for (int64_t i = 0; i < count; ++i)
    contents.elements.push_back(is_float(tensor.dtype) ? Element::of_real(tensor.f64(i)) : Element::of(tensor.i64(i)));
  return contents;
}

Tensor tensor_of(const Contents& contents) {
  Tensor tensor(contents.dtype, contents.shape);
  for (size_t i = 0; i < contents.elements.size(); ++i) {
    const Element& element = contents.elements[i];
    assert(element.is_constant());
    if (element.kind == Element::Kind::real)
      tensor.set_f64(i, element.real);
    else if (is_float(contents.dtype))
      tensor.set_f64(i, static_cast<double>(element.dim.constant()));
    else
      tensor.set_i64(i, element.dim.constant());
  }
  return tensor;
}

std::optional<Contents> apply(Arithmetic arithmetic, std::span<const Contents* const> operands,
                              const ArithmeticContext& context) {
  size_t rank = 0;
  for (const Contents* operand : operands) rank = std::max(rank, operand->shape.size());
  Contents result{context.result, std::vector<int64_t>(rank, 1), {}};
  for (const Contents* operand : operands) {
    size_t offset = rank - operand->shape.size();
    for (size_t axis = 0; axis < operand->shape.size(); ++axis) {
      int64_t size = operand->shape[axis];
      int64_t& merged = result.shape[offset + axis];
      if (size != 1 && merged != 1 && size != merged) return std::nullopt;
      if (size != 1) merged = size;
    }
  }
  int64_t count = 1;
  for (int64_t size : result.shape) {
    if (__builtin_mul_overflow(count, size, &count)) return std::nullopt;
    if (count > max_integer_contents) return std::nullopt;
  }
  std::vector<Element> elements(operands.size());
  for (int64_t i = 0; i < count; ++i) {
    for (size_t k = 0; k < operands.size(); ++k) {
      const std::vector<int64_t>& shape = operands[k]->shape;
      int64_t rest = i, index = 0, stride = 1;
      for (size_t axis = rank; axis-- > 0;) {
        int64_t coordinate = rest % result.shape[axis];
        rest /= result.shape[axis];
        if (axis + shape.size() < rank) continue;
        int64_t size = shape[axis + shape.size() - rank];
        if (size != 1) index += coordinate * stride;
        stride *= size;
      }
      elements[k] = operands[k]->elements[index];
    }
    result.elements.push_back(arithmetic(elements, context));
  }
  return result;
}

Element symbolic_add(Operands operands, const ArithmeticContext&) {
  auto pair = dims(operands);
  return pair ? checked(pair->a + pair->b) : Element{};
}

Element symbolic_sub(Operands operands, const ArithmeticContext&) {
  auto pair = dims(operands);
  return pair ? checked(pair->a - pair->b) : Element{};
}

Element symbolic_mul(Operands operands, const ArithmeticContext&) {
  auto pair = dims(operands);
  return pair ? checked(pair->a * pair->b) : Element{};
}

Element symbolic_div(Operands operands, const ArithmeticContext& context) {
  auto pair = dims(operands);
  if (!pair || pair->b.is(0)) return Element{};
  const auto& [a, b] = *pair;
  if (auto exact = a.divided_by(b)) return checked(*exact);
  if (is_float(context.result)) return Element{};
  if (a.is_constant() && b.is_constant()) return Element::of(a.constant() / b.constant());
  // Truncation and floor agree where neither operand is negative.
  if (a.lower_bound(context.ranges) >= 0 && b.lower_bound(context.ranges) >= 0) return checked(floordiv(a, b));
  return Element{};
}

Element symbolic_mod(Operands operands, const ArithmeticContext&) {
  auto pair = dims(operands);
  if (!pair || pair->b.is(0)) return Element{};
  return checked(mod(pair->a, pair->b));
}

Element symbolic_neg(Operands operands, const ArithmeticContext&) {
  auto a = operands[0].as_dim();
  return a ? checked(Dim(0) - *a) : Element{};
}

Element symbolic_abs(Operands operands, const ArithmeticContext& context) {
  auto a = operands[0].as_dim();
  if (!a) return Element{};
  if (a->lower_bound(context.ranges) >= 0) return Element::of(*a);
  if (a->upper_bound(context.ranges) <= 0) return checked(Dim(0) - *a);
  return Element{};
}

Element symbolic_sign(Operands operands, const ArithmeticContext& context) {
  auto a = operands[0].as_dim();
  if (!a) return Element{};
  if (a->is(0)) return Element::of(0);
  if (a->lower_bound(context.ranges) > 0) return Element::of(1);
  if (a->upper_bound(context.ranges) < 0) return Element::of(-1);
  return Element{};
}

Element symbolic_min(Operands operands, const ArithmeticContext& context) {
  auto result = operands[0].as_dim();
  for (size_t i = 1; result && i < operands.size(); ++i) {
    auto next = operands[i].as_dim();
    if (!next) return Element{};
    result = min_in_ranges(*result, *next, context.ranges);
  }
  return result ? checked(*result) : Element{};
}

Element symbolic_max(Operands operands, const ArithmeticContext& context) {
  auto result = operands[0].as_dim();
  for (size_t i = 1; result && i < operands.size(); ++i) {
    auto next = operands[i].as_dim();
    if (!next) return Element{};
    result = max_in_ranges(*result, *next, context.ranges);
  }
  return result ? checked(*result) : Element{};
}

Element symbolic_clip(Operands operands, const ArithmeticContext& context) {
  if (operands.size() != 3) return Element{};
  const Element low[] = {operands[0], operands[1]};
  const Element high[] = {symbolic_max(low, context), operands[2]};
  return high[0].known() ? symbolic_min(high, context) : Element{};
}

Element symbolic_identity(Operands operands, const ArithmeticContext&) {
  auto a = operands[0].as_dim();
  return a ? Element::of(*a) : Element{};
}

Element symbolic_cast(Operands operands, const ArithmeticContext& context) {
  if (context.result == DType::boolean) {
    auto a = operands[0].as_dim();
    auto is_zero = a ? equal(*a, Dim(0), context.ranges) : std::nullopt;
    return is_zero ? boolean(!*is_zero) : Element{};
  }
  // Sizes fit every type that shape arithmetic is done in: i64, i32 and the float types, whose rounding of large sizes
  // is left out on purpose.
  auto a = operands[0].as_dim();
  return a ? Element::of(*a) : Element{};
}

Element symbolic_equal(Operands operands, const ArithmeticContext& context) {
  auto pair = dims(operands);
  return pair ? compared(equal(pair->a, pair->b, context.ranges)) : Element{};
}

Element symbolic_less(Operands operands, const ArithmeticContext& context) {
  auto pair = dims(operands);
  return pair ? compared(less(pair->a, pair->b, context.ranges)) : Element{};
}

Element symbolic_less_equal(Operands operands, const ArithmeticContext& context) {
  auto pair = dims(operands);
  return pair ? compared(less(pair->a, pair->b + Dim(1), context.ranges)) : Element{};
}

Element symbolic_greater(Operands operands, const ArithmeticContext& context) {
  const Element swapped[] = {operands[1], operands[0]};
  return symbolic_less(swapped, context);
}

Element symbolic_greater_equal(Operands operands, const ArithmeticContext& context) {
  const Element swapped[] = {operands[1], operands[0]};
  return symbolic_less_equal(swapped, context);
}

Element symbolic_and(Operands operands, const ArithmeticContext&) {
  auto a = truth(operands[0]), b = truth(operands[1]);
  if ((a && !*a) || (b && !*b)) return boolean(false);
  return a && b ? boolean(true) : Element{};
}

Element symbolic_or(Operands operands, const ArithmeticContext&) {
  auto a = truth(operands[0]), b = truth(operands[1]);
  if ((a && *a) || (b && *b)) return boolean(true);
  return a && b ? boolean(false) : Element{};
}

Element symbolic_not(Operands operands, const ArithmeticContext&) {
  auto a = truth(operands[0]);
  return a ? boolean(!*a) : Element{};
}

Element symbolic_where(Operands operands, const ArithmeticContext&) {
  auto condition = truth(operands[0]);
  if (condition) return operands[*condition ? 1 : 2];
  return operands[1] == operands[2] ? operands[1] : Element{};
}

Dim min_in_ranges(const Dim& a, const Dim& b, const SymbolRanges& ranges) {
  Dim difference = a - b;
  if (difference.upper_bound(ranges) <= 0) return a;
  if (difference.lower_bound(ranges) >= 0) return b;
  return min(a, b);
}

Dim max_in_ranges(const Dim& a, const Dim& b, const SymbolRanges& ranges) {
  Dim difference = a - b;
  if (difference.lower_bound(ranges) >= 0) return a;
  if (difference.upper_bound(ranges) <= 0) return b;
  return max(a, b);
}

}  // namespace rtx::onnx
