// Dim: the exact size of an axis, an integer expression over named symbols.
//
// A Dim is a polynomial with int64 coefficients over atoms. An atom is a symbol (`batch`) or one of floordiv(a, b),
// mod(a, b), min(a, b), max(a, b) of two Dims that did not reduce further. The form is canonical: two Dims are equal
// exactly if they compare equal, whatever way they were built: `(a + b)*2 == 2*b + 2*a`. Values, not references; cheap
// to copy; immutable. Arithmetic is overflow-checked: a coefficient that leaves int64 makes the result `overflowed()`,
// which every later operation keeps and the verifier refuses.
//
// Text: `batch*seq + 2*past - 1`, `floordiv(seq, 2)`.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace rtx {

class Dim;

// The values a symbol may take, both ends included. `opt` is the size to plan for (0: none was given).
struct SymbolRange {
  int64_t min = 0;
  int64_t max = int64_t{1} << 31;
  int64_t opt = 0;
  bool operator==(const SymbolRange&) const = default;
};
// Ordered by name, so that everything printed from it has a fixed order.
using SymbolRanges = std::map<std::string, SymbolRange, std::less<>>;
using SymbolValues = std::map<std::string, int64_t, std::less<>>;

class Dim {
 public:
  Dim() : Dim(0) {}
  Dim(int64_t value) : constant_(value) {}  // implicit: an int64 is a Dim
  Dim(int value) : constant_(value) {}
  static Dim symbol(std::string name);

  bool is_constant() const { return !terms_ && !overflowed_; }
  // The value of a constant Dim; asserts is_constant().
  int64_t constant() const;
  bool is(int64_t value) const { return is_constant() && constant_ == value; }
  // The name, if the Dim is exactly one symbol.
  std::optional<std::string> as_symbol() const;
  bool overflowed() const { return overflowed_; }

  friend Dim operator+(const Dim& a, const Dim& b);
  friend Dim operator-(const Dim& a, const Dim& b);
  friend Dim operator*(const Dim& a, const Dim& b);
  friend bool operator==(const Dim& a, const Dim& b);
  // An arbitrary but fixed total order, for sorted containers; not the numeric order.
  friend bool operator<(const Dim& a, const Dim& b);

  // The quotient when `divisor` divides the polynomial exactly (as polynomials), else nullopt. Assumes divisor != 0.
  std::optional<Dim> divided_by(const Dim& divisor) const;

  // Every symbol in the expression, in name order.
  void collect_symbols(std::vector<std::string>& names) const;
  // The expression with `name` replaced by `replacement`.
  Dim substituted(std::string_view name, const Dim& replacement) const;
  // The value under a binding of every symbol; an error names an unbound symbol, an overflow or a division by zero.
  Result<int64_t> evaluate(const SymbolValues& values) const;
  // Bounds implied by the ranges, conservative (interval arithmetic, saturating at int64). A symbol that has no range
  // is taken as [0, 2^31].
  int64_t lower_bound(const SymbolRanges& ranges) const;
  int64_t upper_bound(const SymbolRanges& ranges) const;

  std::string str() const;

  // Solves `a == b` for one symbol: the name and the expression it must equal, or nullopt where no symbol occurs
  // linearly with coefficient 1 or -1 outside atoms. Prefers to eliminate the symbol whose name is last in order.
  struct Solution;
  static std::optional<Solution> solve(const Dim& a, const Dim& b);

 private:
  struct Terms;
  friend Dim floordiv(const Dim& a, const Dim& b);
  friend Dim mod(const Dim& a, const Dim& b);
  friend Dim min(const Dim& a, const Dim& b);
  friend Dim max(const Dim& a, const Dim& b);
  friend struct DimBuilder;

  int64_t constant_ = 0;  // the constant term
  bool overflowed_ = false;
  std::shared_ptr<const Terms> terms_;  // the other terms; null when there are none
};

struct Dim::Solution {
  std::string symbol;
  Dim value;
};

// Floor division and the matching remainder (the sign of the divisor). Constants fold; exact polynomial quotients
// reduce; the rest becomes an atom.
Dim floordiv(const Dim& a, const Dim& b);
Dim mod(const Dim& a, const Dim& b);
Dim ceildiv(const Dim& a, const Dim& b);
Dim min(const Dim& a, const Dim& b);
Dim max(const Dim& a, const Dim& b);

// Parses the text form; the whole of `text` must be one expression. Precedence: unary minus, *, + and -; `//` is
// accepted for floordiv and `%` for mod. Errors name the column.
Result<Dim> parse_dim(std::string_view text);

// A name that is safe as a symbol: letters, digits, '_' and '.', not starting with a digit; other bytes become '_'.
std::string sanitize_symbol(std::string_view name);

}  // namespace rtx
