// The text form of a Dim. Untrusted input: depth and numbers are bounded.
#include <string>

#include "base/text.h"
#include "ir/dim.h"

namespace rtx {

namespace {

class DimParser {
 public:
  explicit DimParser(std::string_view text) : text_(text) {}

  Result<Dim> parse() {
    RTX_ASSIGN(Dim value, sum());
    skip_space();
    if (position_ != text_.size()) return unexpected("an operator or the end");
    if (value.overflowed()) return make_error(ErrorKind::limit, "E511", "dim expression leaves int64");
    return value;
  }

 private:
  static constexpr int max_depth = 64;

  void skip_space() {
    while (position_ < text_.size() && (text_[position_] == ' ' || text_[position_] == '\t')) ++position_;
  }
  bool accept(std::string_view token) {
    skip_space();
    if (text_.substr(position_, token.size()) != token) return false;
    position_ += token.size();
    return true;
  }
  Diagnostic unexpected(std::string_view expected) {
    std::string got = position_ < text_.size() ? escape_text(text_.substr(position_, 16)) : "the end";
    return make_error(ErrorKind::invalid, "E333", concat("bad dim expression at column ", position_ + 1))
        .with_expected(std::string(expected))
        .with_got(std::move(got));
  }

  Result<Dim> sum() {
    if (++depth_ > max_depth) return make_error(ErrorKind::limit, "E333", "dim expression is nested too deep");
    RTX_ASSIGN(Dim value, product());
    while (true) {
      if (accept("+")) {
        RTX_ASSIGN(Dim right, product());
        value = value + right;
      } else if (accept("-")) {
        RTX_ASSIGN(Dim right, product());
        value = value - right;
      } else {
        --depth_;
        return value;
      }
    }
  }

  Result<Dim> product() {
    RTX_ASSIGN(Dim value, factor());
    while (true) {
      if (accept("**")) return unexpected("a product: powers are written out");
      if (accept("*")) {
        RTX_ASSIGN(Dim right, factor());
        value = value * right;
      } else if (accept("//")) {
        RTX_ASSIGN(Dim right, factor());
        value = floordiv(value, right);
      } else if (accept("%")) {
        RTX_ASSIGN(Dim right, factor());
        value = mod(value, right);
      } else {
        return value;
      }
    }
  }

  Result<Dim> factor() {
    if (accept("-")) {
      if (++depth_ > max_depth) return make_error(ErrorKind::limit, "E333", "dim expression is nested too deep");
      RTX_ASSIGN(Dim value, factor());
      --depth_;
      return Dim(0) - value;
    }
    if (accept("(")) {
      RTX_ASSIGN(Dim value, sum());
      if (!accept(")")) return unexpected("')'");
      return value;
    }
    skip_space();
    if (position_ >= text_.size()) return unexpected("a number, a name or '('");
    char c = text_[position_];
    if (c >= '0' && c <= '9') return number();
    size_t start = position_;
    while (position_ < text_.size() && is_name_char(text_[position_])) ++position_;
    std::string name(text_.substr(start, position_ - start));
    if (name.empty()) return unexpected("a number, a name or '('");
    if (accept("(")) return call(name);
    return Dim::symbol(std::move(name));
  }

  Result<Dim> number() {
    int64_t value = 0;
    while (position_ < text_.size() && text_[position_] >= '0' && text_[position_] <= '9') {
      if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, text_[position_] - '0', &value))
        return make_error(ErrorKind::limit, "E511", "number in a dim expression leaves int64");
      ++position_;
    }
    return Dim(value);
  }

  Result<Dim> call(const std::string& name) {
    RTX_ASSIGN(Dim a, sum());
    if (!accept(",")) return unexpected("','");
    RTX_ASSIGN(Dim b, sum());
    if (!accept(")")) return unexpected("')'");
    if (name == "floordiv") return floordiv(a, b);
    if (name == "mod") return mod(a, b);
    if (name == "min" || name == "Min") return min(a, b);
    if (name == "max" || name == "Max") return max(a, b);
    return make_error(ErrorKind::invalid, "E333",
                      concat("unknown function '", escape_text(name), "' in a dim expression"))
        .with_expected("floordiv, mod, min or max");
  }

  static bool is_name_char(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
  }

  std::string_view text_;
  size_t position_ = 0;
  int depth_ = 0;
};

}  // namespace

Result<Dim> parse_dim(std::string_view text) { return DimParser(text).parse(); }

std::string sanitize_symbol(std::string_view name) {
  std::string out;
  for (char c : name) {
    bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
    bool digit = (c >= '0' && c <= '9') || c == '.';
    if (out.empty() && digit) out += '_';
    out += letter || digit ? c : '_';
  }
  return out.empty() ? "_" : out;
}

}  // namespace rtx
