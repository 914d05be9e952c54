// Formula: an integer expression over the package's symbols, as text in the manifest and as a small program in memory.
//
//   expression := term (('+' | '-') term)*      term := factor ('*' factor)*
//   factor := integer | symbol | '-' factor | '(' expression ')'
//           | ('floordiv' | 'mod' | 'min' | 'max') '(' expression ',' expression ')'
//
// floordiv rounds toward minus infinity and mod has the sign of the divisor. The text of an ir Dim is a Formula.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace rtx::package {

class Formula {
 public:
  Formula() : Formula(0) {}
  explicit Formula(int64_t value);
  // `symbols` are the names in manifest order; a formula refers to them by index. Errors (E603) name the column.
  // Nesting above 64 and texts above 4096 bytes are refused. A name before '(' is a function, else a symbol.
  static Result<Formula> parse(std::string_view text, std::span<const std::string> symbols);

  const std::string& text() const { return text_; }
  bool is_constant() const;
  // True if the expression reads the symbol with this index.
  bool uses(size_t symbol) const {
    for (const Instruction& instruction : program_)
      if (instruction.code == Code::symbol && instruction.value == static_cast<int64_t>(symbol)) return true;
    return false;
  }
  // Exact; overflow of int64 and division by zero are errors (E604). `values` are in the order of `symbols`.
  Result<int64_t> evaluate(std::span<const int64_t> values) const;
  bool operator==(const Formula& other) const { return text_ == other.text_; }

 private:
  enum class Code : uint8_t { constant, symbol, add, sub, mul, neg, floordiv, mod, min, max };
  struct Instruction {
    Code code;
    int64_t value;  // constant or symbol index
  };
  struct Empty {};
  explicit Formula(Empty) {}
  friend class FormulaParser;
  std::string text_;
  std::vector<Instruction> program_;  // postfix
};

// Letters, digits, '_' and '.', not starting with a digit; 1 to 256 bytes.
bool is_symbol_name(std::string_view name);

}  // namespace rtx::package
