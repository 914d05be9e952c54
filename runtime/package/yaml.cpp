#include "runtime/package/yaml.h"

#include <algorithm>
#include <cstdio>

#include "base/text.h"
#include "base/utf8.h"

namespace rtx::package {
namespace {

constexpr size_t largest_mapping = 64;

// What may stand in the file as it is. The rest is only allowed as an escape in quotes.
bool is_printable(char32_t c) {
  return (c >= 0x20 && c < 0x7F) ||
         (c >= 0xA0 && c != 0x2028 && c != 0x2029 && c != 0xFEFF && c != 0xFFFE && c != 0xFFFF);
}

bool is_plain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
         c == '+' || c == '-';
}

void append_utf8(std::string& out, uint32_t c) {
  auto tail = [&](int shift) { out += static_cast<char>(0x80 | (c >> shift & 0x3F)); };
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xC0 | c >> 6);
    tail(0);
  } else if (c < 0x10000) {
    out += static_cast<char>(0xE0 | c >> 12);
    tail(6), tail(0);
  } else {
    out += static_cast<char>(0xF0 | c >> 18);
    tail(12), tail(6), tail(0);
  }
}

class YamlParser {
 public:
  explicit YamlParser(std::string_view text) : text_(text) {}

  Result<YamlNode> parse() {
    RTX_TRY(check_characters());
    if (text_.empty() || text_.back() != '\n') return error("the file does not end with a newline");
    YamlNode root = node(YamlNode::Kind::mapping);
    RTX_TRY(parse_mapping(root, 0));
    if (position_ != text_.size()) return error("expected a key at the start of the line");
    return root;
  }

 private:
  Result<void> check_characters() {
    for (size_t i = 0; i < text_.size();) {
      const auto c = decode_utf8(text_, i);
      if (!c || !(is_printable(c->code_point) || c->code_point == '\n')) {
        position_ = i;
        line_ = 1 + static_cast<int>(std::count(text_.begin(), text_.begin() + static_cast<std::ptrdiff_t>(i), '\n'));
        const size_t newline = text_.rfind('\n', i);
        line_start_ = newline == std::string_view::npos ? 0 : std::min(newline + 1, i);
        return error(c ? "a character that may not stand in a manifest" : "bytes that are not UTF-8");
      }
      i += static_cast<size_t>(c->bytes);
    }
    return Ok{};
  }

  char peek(size_t ahead = 0) const { return position_ + ahead < text_.size() ? text_[position_ + ahead] : '\0'; }
  bool accept(std::string_view token) {
    if (!text_.substr(position_).starts_with(token)) return false;
    position_ += token.size();
    return true;
  }
  int column() const { return static_cast<int>(position_ - line_start_) + 1; }
  Diagnostic error(std::string_view what) const {
    return make_error(ErrorKind::integrity, "E601", concat("not a manifest: ", what))
        .with_where(concat(line_, ":", column()));
  }
  YamlNode node(YamlNode::Kind kind) {
    ++nodes_;
    YamlNode result;
    result.kind = kind;
    result.line = line_;
    result.column = column();
    return result;
  }
  Result<void> end_line() {
    if (!accept("\n")) return error("expected the end of the line");
    ++line_;
    line_start_ = position_;
    return Ok{};
  }
  // Spaces at the start of the current line.
  size_t indent() const {
    size_t spaces = 0;
    while (peek(spaces) == ' ') ++spaces;
    return spaces;
  }
  Result<void> check_limits(size_t depth) const {
    if (depth > largest_yaml_depth) return error(concat("nested deeper than ", largest_yaml_depth));
    if (nodes_ > largest_yaml_nodes) return error(concat("more than ", largest_yaml_nodes, " values"));
    return Ok{};
  }

  // Entries of a block mapping, each at `spaces`; the parser stands after the spaces of the first one, or at the start
  // of its line when `spaces` is 0.
  Result<void> parse_mapping(YamlNode& mapping, size_t spaces) {
    do {
      RTX_ASSIGN(std::string key, parse_key(mapping));
      RTX_ASSIGN(YamlNode value, parse_value(spaces));
      value.key = std::move(key);
      mapping.children.push_back(std::move(value));
    } while (next_line(spaces));
    return Ok{};
  }

  // Goes over the spaces of a line that continues a block at `spaces`.
  bool next_line(size_t spaces) {
    if (position_ == text_.size() || indent() != spaces || peek(spaces) == '-') return false;
    position_ += spaces;
    return true;
  }

  Result<std::string> parse_key(const YamlNode& mapping) {
    const size_t begin = position_;
    while ((peek() >= 'a' && peek() <= 'z') || (peek() >= '0' && peek() <= '9') || peek() == '_') ++position_;
    std::string key(text_.substr(begin, position_ - begin));
    if (key.empty()) return error("expected a key");
    // Also keeps the search for duplicates cheap.
    if (mapping.children.size() >= largest_mapping) return error(concat("more than ", largest_mapping, " keys"));
    for (const YamlNode& other : mapping.children) {
      if (other.key == key) {
        position_ = begin;
        return error(concat("the key '", key, "' stands twice"));
      }
    }
    if (!accept(":")) return error("expected ':' after the key");
    return key;
  }

  // What follows "key:" of a mapping at `spaces`, up to and with the end of its last line.
  Result<YamlNode> parse_value(size_t spaces) {
    RTX_TRY(check_limits(spaces / 2));
    if (peek() == '\n') {
      RTX_TRY(end_line());
      const size_t inner = spaces + 2;
      if (indent() != inner) return error(concat("expected a value, indented by ", inner));
      position_ += inner;
      return parse_block(inner);
    }
    if (!accept(" ")) return error("expected a space or the end of the line after ':'");
    if (accept("|\n")) return parse_literal(spaces + 2);
    return parse_line_value();
  }

  // A scalar or flow collection that ends its line.
  Result<YamlNode> parse_line_value() {
    RTX_ASSIGN(YamlNode value, parse_flow(0));
    RTX_TRY(end_line());
    return value;
  }

  // A block sequence or mapping whose first line stands after its spaces.
  Result<YamlNode> parse_block(size_t spaces) {
    if (peek() != '-') {
      YamlNode mapping = node(YamlNode::Kind::mapping);
      RTX_TRY(parse_mapping(mapping, spaces));
      return mapping;
    }
    YamlNode sequence = node(YamlNode::Kind::sequence);
    while (true) {
      if (!accept("- ")) return error("expected '- '");
      RTX_TRY(check_limits(spaces / 2));
      const bool is_entry = (peek() >= 'a' && peek() <= 'z') && is_key_ahead();
      if (is_entry) {
        YamlNode mapping = node(YamlNode::Kind::mapping);
        RTX_TRY(parse_mapping(mapping, spaces + 2));
        sequence.children.push_back(std::move(mapping));
      } else {
        RTX_ASSIGN(YamlNode item, parse_line_value());
        sequence.children.push_back(std::move(item));
      }
      if (position_ == text_.size() || indent() != spaces || peek(spaces) != '-') return sequence;
      position_ += spaces;
    }
  }

  bool is_key_ahead() const {
    size_t i = 0;
    while (is_plain(peek(i))) ++i;
    return peek(i) == ':';
  }

  // The lines of a literal block, each at `spaces` or empty; the last newline belongs to the text.
  Result<YamlNode> parse_literal(size_t spaces) {
    ++line_;
    line_start_ = position_;
    YamlNode scalar = node(YamlNode::Kind::scalar);
    scalar.quoted = true;
    while (position_ < text_.size()) {
      const size_t end = text_.find('\n', position_);
      if (end != position_) {
        if (indent() < spaces) break;
        position_ += spaces;
      }
      scalar.text += text_.substr(position_, end + 1 - position_);
      position_ = end;
      RTX_TRY(end_line());
    }
    if (scalar.text.empty() || scalar.text[0] == ' ' || scalar.text[0] == '\n' || scalar.text.ends_with("\n\n")) {
      return error("a literal block is empty, starts with a space or an empty line, or ends with an empty line");
    }
    return scalar;
  }

  Result<YamlNode> parse_flow(size_t depth) {
    RTX_TRY(check_limits(depth));
    switch (peek()) {
      case '[':
        return parse_flow_sequence(depth);
      case '{':
        return parse_flow_mapping(depth);
      case '"':
        return parse_quoted();
      default:
        break;
    }
    YamlNode scalar = node(YamlNode::Kind::scalar);
    const size_t begin = position_;
    while (is_plain(peek())) ++position_;
    scalar.text = text_.substr(begin, position_ - begin);
    if (scalar.text.empty()) return error("expected a value");
    return scalar;
  }

  Result<YamlNode> parse_flow_sequence(size_t depth) {
    YamlNode sequence = node(YamlNode::Kind::sequence);
    accept("[");
    if (accept("]")) return sequence;
    do {
      RTX_ASSIGN(YamlNode item, parse_flow(depth + 1));
      sequence.children.push_back(std::move(item));
    } while (accept(", "));
    if (!accept("]")) return error("expected ', ' or ']'");
    return sequence;
  }

  Result<YamlNode> parse_flow_mapping(size_t depth) {
    YamlNode mapping = node(YamlNode::Kind::mapping);
    accept("{");
    do {
      RTX_ASSIGN(std::string key, parse_key(mapping));
      if (!accept(" ")) return error("expected a space after ':'");
      RTX_ASSIGN(YamlNode value, parse_flow(depth + 1));
      value.key = std::move(key);
      mapping.children.push_back(std::move(value));
    } while (accept(", "));
    if (!accept("}")) return error("expected ', ' or '}'");
    return mapping;
  }

  Result<YamlNode> parse_quoted() {
    YamlNode scalar = node(YamlNode::Kind::scalar);
    scalar.quoted = true;
    accept("\"");
    while (!accept("\"")) {
      const size_t end = text_.find_first_of("\"\\\n", position_);
      scalar.text += text_.substr(position_, end - position_);  // there is a newline: the file ends with one
      position_ = end;
      if (peek() == '\n') return error("expected '\"' before the end of the line");
      if (peek() == '\\') {
        RTX_TRY(parse_escape(scalar.text));
      }
    }
    return scalar;
  }

  Result<void> parse_escape(std::string& out) {
    const char kind = peek(1);
    if (kind == '"' || kind == '\\' || kind == 'n') {
      out += kind == 'n' ? '\n' : kind;
      position_ += 2;
      return Ok{};
    }
    const size_t digits = kind == 'x' ? 2 : kind == 'u' ? 4 : kind == 'U' ? 8 : 0;
    uint32_t code = 0;
    const std::string_view hex = text_.substr(std::min(position_ + 2, text_.size()), digits);
    const auto [end, status] = std::from_chars(hex.data(), hex.data() + hex.size(), code, 16);
    if (digits == 0 || status != std::errc() || end != hex.data() + digits || code > 0x10FFFF ||
        (code >= 0xD800 && code <= 0xDFFF)) {
      return error("an unknown escape");
    }
    append_utf8(out, code);
    position_ += 2 + digits;
    return Ok{};
  }

  std::string_view text_;
  size_t position_ = 0;
  size_t line_start_ = 0;
  int line_ = 1;
  int64_t nodes_ = 0;
};

}  // namespace

Result<YamlNode> parse_yaml(std::string_view text) {
  if (static_cast<int64_t>(text.size()) > largest_yaml_bytes) {
    return make_error(ErrorKind::integrity, "E601", "the manifest is too large")
        .with_expected(concat("at most ", largest_yaml_bytes, " bytes"))
        .with_got(concat(text.size(), " bytes"));
  }
  return YamlParser(text).parse();
}

std::string quote_yaml(std::string_view text) {
  std::string out = "\"";
  for (size_t i = 0; i < text.size();) {
    const auto c = decode_utf8(text, i);
    const char32_t code = c ? c->code_point : 0xFFFD;
    if (code == '"' || code == '\\') {
      out += '\\';
      out += static_cast<char>(code);
    } else if (code == '\n') {
      out += "\\n";
    } else if (is_printable(code)) {
      append_utf8(out, code);
    } else {
      char escape[16];
      std::snprintf(escape, sizeof escape, code < 0x100 ? "\\x%02x" : code < 0x10000 ? "\\u%04x" : "\\U%08x", code);
      out += escape;
    }
    i += c ? static_cast<size_t>(c->bytes) : 1;
  }
  return out + '"';
}

std::string literal_yaml(std::string_view text, int indent) {
  bool is_readable = text.size() > 1 && text[0] != ' ' && text[0] != '\n' && text.back() == '\n' &&
                     !text.ends_with("\n\n") && text.find(" \n") == std::string_view::npos;
  for (size_t i = 0; is_readable && i < text.size();) {
    const auto c = decode_utf8(text, i);
    is_readable = c && (is_printable(c->code_point) || c->code_point == '\n');
    if (c) i += static_cast<size_t>(c->bytes);
  }
  if (!is_readable) return quote_yaml(text);
  std::string out = "|";
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = text.find('\n', begin);
    out += '\n';
    if (end != begin) out.append(static_cast<size_t>(indent) + 2, ' ');
    out += text.substr(begin, end - begin);
    begin = end + 1;
  }
  return out;
}

}  // namespace rtx::package
