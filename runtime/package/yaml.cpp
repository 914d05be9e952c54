#include "runtime/package/yaml.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <cstdio>
#include <sstream>
#include <utility>

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

// "LINE:COLUMN" of a byte of the text.
std::string place_of(std::string_view text, size_t at) {
  const std::string_view before = text.substr(0, at);
  const size_t newline = before.rfind('\n');
  return concat(1 + std::count(before.begin(), before.end(), '\n'), ":",
                at - (newline == std::string_view::npos ? 0 : newline + 1) + 1);
}

Diagnostic refusal(std::string_view what, std::string where) {
  return make_error(ErrorKind::integrity, "E601", concat("not a manifest: ", what)).with_where(std::move(where));
}

// Goes through the text before yaml-cpp sees it, whose time, memory and recursion grow with nesting and with the number
// of tokens. Needs no stack: a flow collection ends in its line, and a string starts only where YAML cannot take its
// quote for a part of a bare scalar, so brackets in strings and literal blocks are known as such. The words of YAML
// that a manifest has no use for (anchors, aliases, tags, comments, directives, single quotes, folded blocks) all start
// with characters that may not stand outside strings.
class Scan {
 public:
  explicit Scan(std::string_view text) : text_(text) {}

  Result<void> check() {
    RTX_TRY(check_characters());
    if (text_.empty() || text_.back() != '\n') return error("the file does not end with a newline");
    while (at_ < text_.size()) {
      const size_t spaces = text_.find_first_not_of(' ', at_) - at_;
      if (literal_ > 0 && (text_[at_] == '\n' || spaces >= literal_)) {
        at_ = text_.find('\n', at_) + 1;
        continue;
      }
      literal_ = 0;
      RTX_TRY(check_line(spaces));
    }
    return Ok{};
  }

 private:
  Result<void> check_characters() {
    for (at_ = 0; at_ < text_.size();) {
      const auto c = decode_utf8(text_, at_);
      if (!c) return error("bytes that are not UTF-8");
      if (!is_printable(c->code_point) && c->code_point != '\n')
        return error("a character that may not stand in a manifest");
      at_ += static_cast<size_t>(c->bytes);
    }
    at_ = 0;
    return Ok{};
  }

  Result<void> check_line(size_t spaces) {
    if (spaces > 2 * largest_yaml_depth) return error(concat("nested deeper than ", largest_yaml_depth));
    at_ += spaces;
    size_t column = spaces;
    if (text_.substr(at_).starts_with("- ")) at_ += 2, column += 2;
    int depth = 0;
    for (; text_[at_] != '\n'; ++at_) {
      const char c = text_[at_];
      if (!is_plain(c) && c != ' ' && ++values_ > largest_yaml_nodes)
        return error(concat("more than ", largest_yaml_nodes, " values"));
      const char before = at_ == 0 ? '\n' : text_[at_ - 1];
      if (c == '[' || c == '{') {
        if (++depth > largest_yaml_depth) return error(concat("nested deeper than ", largest_yaml_depth));
      } else if (c == ']' || c == '}') {
        if (--depth < 0) return error("a bracket that was not opened");
      } else if (c == '"') {
        if (before != ' ' && before != '[') return error("a string at an unexpected place");
        RTX_TRY(skip_string());
      } else if (c == ' ') {
        if (before != ':' && before != ',') return error("a space at an unexpected place");
      } else if (c == '|') {
        literal_ = column + 2;
        if (before != ' ' || text_[at_ + 1] != '\n' || text_.find_first_not_of(' ', at_ + 2) != at_ + 2 + literal_ ||
            text_[at_ + 2 + literal_] == '\n')
          return error(concat("expected a literal block, indented by ", literal_));
      } else if (!is_plain(c) && c != ':' && (c != ',' || depth == 0)) {
        return error("a character that may not stand outside a string");
      }
    }
    if (depth > 0) return error("expected a closing bracket before the end of the line");
    ++at_;
    return Ok{};
  }

  // Leaves the scan on the closing quote. There is a newline: the text ends with one.
  Result<void> skip_string() {
    const size_t begin = at_;
    while (true) {
      at_ = text_.find_first_of("\"\\\n", at_ + 1);
      if (text_[at_] == '"') return Ok{};
      if (text_[at_] == '\\' && text_[at_ + 1] != '\n') {
        ++at_;
        continue;
      }
      at_ = begin;
      return error("the string does not end in its line");
    }
  }

  Diagnostic error(std::string_view what) const { return refusal(what, place_of(text_, at_)); }

  std::string_view text_;
  size_t at_ = 0;
  size_t literal_ = 0;  // spaces of the lines of the literal block, 0 outside of one
  int64_t values_ = 0;  // characters that part values, so more than there are values
};

// Builds the tree from yaml-cpp's events. Refuses by throwing: yaml-cpp passes through what its handler throws, and so
// nothing that is nested too deep goes on being parsed.
class TreeBuilder : public YAML::EventHandler {
 public:
  YamlNode root;

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents_ > 1) throw YAML::ParserException(mark, "a second document");
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t) override {
    throw YAML::ParserException(mark, "expected a value");
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override { throw YAML::ParserException(mark, "an alias"); }

  // yaml-cpp gives what has no tag of its own "!" (a scalar in quotes or a literal block) or "?".
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    check(mark, tag == "!" ? "?" : tag, anchor);
    if (expects_key()) return take_key(mark, tag, value);
    YamlNode scalar = node(mark, YamlNode::Kind::scalar);
    scalar.quoted = tag == "!";
    scalar.text = value;
    place(std::move(scalar));
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, YamlNode::Kind::sequence);
  }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, YamlNode::Kind::mapping);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapEnd() override { close(); }

 private:
  bool expects_key() const {
    return !open_.empty() && open_.back().kind == YamlNode::Kind::mapping && keys_.back().empty();
  }

  void check(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) {
    if (anchor != YAML::NullAnchor) throw YAML::ParserException(mark, "an anchor");
    if (tag != "?") throw YAML::ParserException(mark, "a tag");
    if (++nodes_ > 2 * largest_yaml_nodes)  // keys count here too
      throw YAML::ParserException(mark, concat("more than ", largest_yaml_nodes, " values"));
  }

  static YamlNode node(const YAML::Mark& mark, YamlNode::Kind kind) {
    YamlNode result;
    result.kind = kind;
    result.line = mark.line + 1;
    result.column = mark.column + 1;
    return result;
  }

  void take_key(const YAML::Mark& mark, const std::string& tag, const std::string& key) {
    if (tag != "?" || key.empty() || key.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") != key.npos)
      throw YAML::ParserException(mark, "expected a key");
    const std::vector<YamlNode>& entries = open_.back().children;
    // Also keeps the search for duplicates cheap.
    if (entries.size() >= largest_mapping)
      throw YAML::ParserException(mark, concat("more than ", largest_mapping, " keys"));
    for (const YamlNode& other : entries) {
      if (other.key == key) throw YAML::ParserException(mark, concat("the key '", key, "' stands twice"));
    }
    keys_.back() = key;
  }

  void open(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, YamlNode::Kind kind) {
    check(mark, tag, anchor);
    if (expects_key()) throw YAML::ParserException(mark, "expected a key");
    if (open_.size() > largest_yaml_depth)
      throw YAML::ParserException(mark, concat("nested deeper than ", largest_yaml_depth));
    open_.push_back(node(mark, kind));
    keys_.emplace_back();
  }

  void close() {
    YamlNode closed = std::move(open_.back());
    open_.pop_back();
    keys_.pop_back();
    place(std::move(closed));
  }

  void place(YamlNode value) {
    if (open_.empty()) {
      root = std::move(value);
      return;
    }
    value.key = std::exchange(keys_.back(), {});
    open_.back().children.push_back(std::move(value));
  }

  std::vector<YamlNode> open_;     // from the root to the collection that is being read
  std::vector<std::string> keys_;  // for each of them, the key whose value comes next
  int documents_ = 0;
  int64_t nodes_ = 0;
};

Result<YamlNode> build_tree(std::string_view text) {
  TreeBuilder builder;
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) {
    }
  } catch (const YAML::Exception& error) {
    return refusal(escape_text(error.msg, 200),
                   error.mark.is_null() ? std::string() : concat(error.mark.line + 1, ":", error.mark.column + 1));
  } catch (const std::exception& error) {
    return refusal(escape_text(error.what(), 200), {});
  }
  return std::move(builder.root);
}

}  // namespace

Result<YamlNode> parse_yaml(std::string_view text) {
  if (static_cast<int64_t>(text.size()) > largest_yaml_bytes) {
    return make_error(ErrorKind::integrity, "E601", "the manifest is too large")
        .with_expected(concat("at most ", largest_yaml_bytes, " bytes"))
        .with_got(concat(text.size(), " bytes"));
  }
  RTX_TRY(Scan(text).check());
  RTX_ASSIGN(YamlNode root, build_tree(text));
  if (root.kind != YamlNode::Kind::mapping || root.children.empty()) return refusal("expected a key", "1:1");
  return root;
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
