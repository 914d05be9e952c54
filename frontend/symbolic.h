// What the importer knows about the elements of a small tensor, and arithmetic on it.
//
// Shape arithmetic of a model (Shape, Gather, Mul, Concat, ...) is never emitted: its tensors are carried as Contents,
// each element a dim expression, and end up in the attributes of reshape, broadcast and slice.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "ir/dim.h"
#include "ir/tensor.h"

namespace rtx::onnx {

// One element: not known, an exact integer expression, or a floating-point constant. A float tensor may hold dims too
// (Cast of a size to float), as long as they stay integer-valued expressions.
struct Element {
  enum class Kind : uint8_t { unknown, dim, real };
  Kind kind = Kind::unknown;
  Dim dim;
  double real = 0;

  static Element of(Dim value);
  static Element of_real(double value);
  bool known() const { return kind != Kind::unknown; }
  bool is_constant() const { return kind == Kind::real || (kind == Kind::dim && dim.is_constant()); }
  // As an integer expression; a real only if it is a whole number.
  std::optional<Dim> as_dim() const;
  bool operator==(const Element&) const = default;
};

struct Contents {
  DType dtype = DType::i64;
  std::vector<int64_t> shape;
  std::vector<Element> elements;

  bool all_known() const;
  bool all_constant() const;
  void substitute(std::string_view symbol, const Dim& value);
};

// Integers and bool are followed up to this many elements, floats only where they can be scalars of shape arithmetic:
// a larger float tensor is data.
inline constexpr int64_t max_integer_contents = 1024;
inline constexpr int64_t max_float_contents = 16;
// True if a tensor of this type may carry contents at all.
bool may_have_contents(DType dtype, int64_t element_count);

Contents contents_of(const Tensor& tensor);
// The tensor of contents that are all constant.
Tensor tensor_of(const Contents& contents);

// Elementwise arithmetic on elements of which at least one is not constant. `result` is the element type of the result.
struct ArithmeticContext {
  DType result;
  const SymbolRanges& ranges;
};
using Arithmetic = Element (*)(std::span<const Element> operands, const ArithmeticContext& context);

// Applies it with numpy broadcasting; nullopt when the shapes do not broadcast or the result is too large.
std::optional<Contents> apply(Arithmetic arithmetic, std::span<const Contents* const> operands,
                              const ArithmeticContext& context);

Element symbolic_add(std::span<const Element>, const ArithmeticContext&);
Element symbolic_sub(std::span<const Element>, const ArithmeticContext&);
Element symbolic_mul(std::span<const Element>, const ArithmeticContext&);
// Integers truncate toward zero; a float quotient is known only where it is exact.
Element symbolic_div(std::span<const Element>, const ArithmeticContext&);
Element symbolic_mod(std::span<const Element>, const ArithmeticContext&);  // the sign of the divisor
Element symbolic_neg(std::span<const Element>, const ArithmeticContext&);
Element symbolic_abs(std::span<const Element>, const ArithmeticContext&);
Element symbolic_sign(std::span<const Element>, const ArithmeticContext&);
Element symbolic_min(std::span<const Element>, const ArithmeticContext&);  // any number of operands
Element symbolic_max(std::span<const Element>, const ArithmeticContext&);
Element symbolic_clip(std::span<const Element>, const ArithmeticContext&);      // x, low, high
Element symbolic_identity(std::span<const Element>, const ArithmeticContext&);  // floor, ceil, round of integers
Element symbolic_cast(std::span<const Element>, const ArithmeticContext&);
// Comparisons and logic give 0 or 1, or unknown where the ranges leave it open.
Element symbolic_equal(std::span<const Element>, const ArithmeticContext&);
Element symbolic_less(std::span<const Element>, const ArithmeticContext&);
Element symbolic_less_equal(std::span<const Element>, const ArithmeticContext&);
Element symbolic_greater(std::span<const Element>, const ArithmeticContext&);
Element symbolic_greater_equal(std::span<const Element>, const ArithmeticContext&);
Element symbolic_and(std::span<const Element>, const ArithmeticContext&);
Element symbolic_or(std::span<const Element>, const ArithmeticContext&);
Element symbolic_not(std::span<const Element>, const ArithmeticContext&);
Element symbolic_where(std::span<const Element>, const ArithmeticContext&);

// min and max of two dims, without an atom where the ranges decide.
Dim min_in_ranges(const Dim& a, const Dim& b, const SymbolRanges& ranges);
Dim max_in_ranges(const Dim& a, const Dim& b, const SymbolRanges& ranges);

}  // namespace rtx::onnx
