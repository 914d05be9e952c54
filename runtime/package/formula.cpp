#include "runtime/package/formula.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "base/text.h"

namespace rtx::package {
namespace {

constexpr size_t largest_text = 4096;
constexpr int deepest_nesting = 64;
// Each level of nesting keeps at most a sum, a product and a first argument waiting.
constexpr size_t stack_size = 3 * (deepest_nesting + 1) + 1;

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '.'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

// A pair from x = q * y + r with the sign of y in r; y is neither 0 nor (x minimal and y -1).
int64_t floor_quotient(int64_t x, int64_t y) { return x / y - (x % y != 0 && (x < 0) != (y < 0) ? 1 : 0); }
int64_t floor_remainder(int64_t x, int64_t y) {
  const int64_t rest = x % y;
  return rest != 0 && (x < 0) != (y < 0) ? rest + y : rest;
}

}  // namespace

bool is_symbol_name(std::string_view name) {
  return !name.empty() && name.size() <= 256 && is_letter(name[0]) &&
         std::all_of(name.begin(), name.end(), [](char c) { return is_letter(c) || is_digit(c); });
}

// Recursive descent by the grammar in the header; appends to the formula's program.
class FormulaParser {
 public:
  FormulaParser(std::string_view text, std::span<const std::string> symbols) : text_(text), symbols_(symbols) {}

  Result<Formula> parse() {
    if (text_.size() > largest_text) {
      return make_error(ErrorKind::integrity, "E603", "a formula is too long")
          .with_expected(concat("at most ", largest_text, " bytes"))
          .with_got(concat(text_.size(), " bytes"));
    }
    RTX_TRY(parse_sum());
    if (peek() != '\0' || position_ != text_.size()) return error("expected an operator or the end");
    formula_.text_ = text_;
    return std::move(formula_);
  }

 private:
  using Code = Formula::Code;

  char peek() {
    while (position_ < text_.size() && text_[position_] == ' ') ++position_;
    return position_ < text_.size() ? text_[position_] : '\0';
  }
  bool accept(char c) {
    if (peek() != c || position_ == text_.size()) return false;
    ++position_;
    return true;
  }
  Diagnostic error(std::string_view what) const {
    return make_error(ErrorKind::integrity, "E603",
                      concat("formula ", quote_text(text_), ", column ", position_ + 1, ": ", what));
  }
  void emit(Code code, int64_t value = 0) { formula_.program_.push_back({code, value}); }

  Result<void> parse_sum() {
    if (++depth_ > deepest_nesting) return error(concat("nested deeper than ", deepest_nesting));
    RTX_TRY(parse_product());
    while (true) {
      const bool is_sum = accept('+');
      if (!is_sum && !accept('-')) break;
      RTX_TRY(parse_product());
      emit(is_sum ? Code::add : Code::sub);
    }
    --depth_;
    return Ok{};
  }

  Result<void> parse_product() {
    RTX_TRY(parse_factor());
    while (accept('*')) {
      RTX_TRY(parse_factor());
      emit(Code::mul);
    }
    return Ok{};
  }

  Result<void> parse_factor() {
    const char c = peek();
    if (accept('(')) {
      RTX_TRY(parse_sum());
      if (!accept(')')) return error("expected ')'");
      return Ok{};
    }
    const bool is_negative = accept('-');
    if (is_digit(is_negative ? peek() : c)) return parse_integer(is_negative);
    if (is_negative) {
      if (++depth_ > deepest_nesting) return error(concat("nested deeper than ", deepest_nesting));
      RTX_TRY(parse_factor());
      --depth_;
      emit(Code::neg);
      return Ok{};
    }
    if (is_letter(c)) return parse_name();
    return error("expected an integer, a symbol, '-' or '('");
  }

  // The sign belongs to the number, or the least int64 could not be written.
  Result<void> parse_integer(bool is_negative) {
    const size_t begin = position_;
    while (position_ < text_.size() && is_digit(text_[position_])) ++position_;
    const std::string digits = concat(is_negative ? "-" : "", text_.substr(begin, position_ - begin));
    int64_t value = 0;
    if (std::from_chars(digits.data(), digits.data() + digits.size(), value).ec != std::errc()) {
      position_ = begin;
      return error("the integer does not fit into 64 bits");
    }
    emit(Code::constant, value);
    return Ok{};
  }

  Result<void> parse_name() {
    const size_t begin = position_;
    while (position_ < text_.size() && (is_letter(text_[position_]) || is_digit(text_[position_]))) ++position_;
    const std::string_view name = text_.substr(begin, position_ - begin);
    if (peek() == '(') return parse_call(name, begin);
    const auto found = std::find(symbols_.begin(), symbols_.end(), name);
    if (found == symbols_.end()) {
      position_ = begin;
      return error("unknown symbol");
    }
    emit(Code::symbol, found - symbols_.begin());
    return Ok{};
  }

  Result<void> parse_call(std::string_view name, size_t begin) {
    constexpr std::array<std::pair<std::string_view, Code>, 4> functions = {
        {{"floordiv", Code::floordiv}, {"mod", Code::mod}, {"min", Code::min}, {"max", Code::max}}};
    const auto function =
        std::find_if(functions.begin(), functions.end(), [&](const auto& entry) { return entry.first == name; });
    if (function == functions.end()) {
      position_ = begin;
      return error("unknown function; there are floordiv, mod, min and max");
    }
    accept('(');
    RTX_TRY(parse_sum());
    if (!accept(',')) return error("expected ','");
    RTX_TRY(parse_sum());
    if (!accept(')')) return error("expected ')'");
    emit(function->second);
    return Ok{};
  }

  std::string_view text_;
  std::span<const std::string> symbols_;
  size_t position_ = 0;
  int depth_ = 0;
  Formula formula_{Formula::Empty{}};
};

Formula::Formula(int64_t value) : text_(std::to_string(value)), program_{{Code::constant, value}} {}

Result<Formula> Formula::parse(std::string_view text, std::span<const std::string> symbols) {
  return FormulaParser(text, symbols).parse();
}

bool Formula::is_constant() const {
  return std::none_of(program_.begin(), program_.end(), [](const Instruction& i) { return i.code == Code::symbol; });
}

Result<int64_t> Formula::evaluate(std::span<const int64_t> values) const {
  std::array<int64_t, stack_size> stack;
  size_t top = 0;  // of the next free place
  auto error = [&](std::string_view what) {
    return make_error(ErrorKind::invalid, "E604", concat("formula ", quote_text(text_), " ", what));
  };
  for (const auto& [code, value] : program_) {
    if (code == Code::constant) {
      stack[top++] = value;
      continue;
    }
    if (code == Code::symbol) {
      if (static_cast<size_t>(value) >= values.size()) return error("has a symbol without a value");
      stack[top++] = values[static_cast<size_t>(value)];
      continue;
    }
    bool overflow = false;
    if (code == Code::neg) {
      overflow = __builtin_sub_overflow(int64_t{0}, stack[top - 1], &stack[top - 1]);
    } else {
      const int64_t y = stack[--top];
      int64_t& x = stack[top - 1];
      switch (code) {
        case Code::add:
          overflow = __builtin_add_overflow(x, y, &x);
          break;
        case Code::sub:
          overflow = __builtin_sub_overflow(x, y, &x);
          break;
        case Code::mul:
          overflow = __builtin_mul_overflow(x, y, &x);
          break;
        case Code::min:
          x = std::min(x, y);
          break;
        case Code::max:
          x = std::max(x, y);
          break;
        case Code::floordiv:
        case Code::mod:
          if (y == 0) return error("divides by zero");
          if (y == -1) {  // the least integer has no positive counterpart
            if (code == Code::mod) {
              x = 0;
            } else {
              overflow = __builtin_sub_overflow(int64_t{0}, x, &x);
            }
          } else {
            x = code == Code::mod ? floor_remainder(x, y) : floor_quotient(x, y);
          }
          break;
        case Code::constant:
        case Code::symbol:
        case Code::neg:
          break;
      }
    }
    if (overflow) return error("does not fit into 64 bits");
  }
  return stack[0];
}

}  // namespace rtx::package
