// What decodes the YAML of a manifest: strict, with the place of the first error.
#pragma once

#include <charconv>
#include <limits>
#include <set>

#include "base/text.h"
#include "runtime/package/manifest.h"
#include "runtime/package/yaml.h"

namespace rtx::package {

inline constexpr int64_t int64_max = std::numeric_limits<int64_t>::max();
inline constexpr int64_t int32_max = std::numeric_limits<int32_t>::max();

// Decodes values; keeps the first error and then gives defaults, so that decoding code reads as a list of fields.
// A null node stands for a value that is missing, for which there is an error already.
class Decoder {
 public:
  explicit Decoder(std::string_view file) : file_(file) {}

  std::vector<std::string> symbols;
  std::optional<Diagnostic> error;

  void fail(const YamlNode& node, Diagnostic diagnostic) {
    if (error) return;
    diagnostic.with_where(concat(file_, ":", node.line, ":", node.column));
    error = std::move(diagnostic);
  }
  void fail(const YamlNode& node, std::string message) {
    fail(node, make_error(ErrorKind::integrity, "E601", concat("not a manifest: ", message)));
  }

  std::string string(const YamlNode* node) {
    if (node == nullptr) return {};
    if (node->kind != YamlNode::Kind::scalar || !node->quoted)
      fail(*node, concat(name(*node), " is not a quoted string"));
    return node->text;
  }
  // A string for which `is_valid` holds.
  std::string string(const YamlNode* node, bool (*is_valid)(std::string_view), std::string_view what) {
    std::string text = string(node);
    if (node != nullptr && !is_valid(text))
      fail(*node, concat(name(*node), " is ", quote_text(text, 80), ", not ", what));
    return text;
  }

  // A bare word.
  std::string_view word(const YamlNode* node) {
    if (node == nullptr) return {};
    if (node->kind != YamlNode::Kind::scalar || node->quoted) {
      fail(*node, concat(name(*node), " is not a bare word or number"));
      return {};
    }
    return node->text;
  }

  int64_t integer(const YamlNode* node, int64_t min, int64_t max) {
    const std::string_view text = word(node);
    int64_t value = 0;
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool is_canonical = code == std::errc() && end == text.data() + text.size() && std::to_string(value) == text;
    if (node != nullptr && (!is_canonical || value < min || value > max)) {
      fail(*node, max < min ? concat(name(*node), " is ", escape_text(text, 40), ", but there is nothing to refer to")
                            : concat(name(*node), " is ", escape_text(text, 40), ", expected an integer from ", min,
                                     " to ", max));
      return 0;
    }
    return value;
  }

  double fraction(const YamlNode* node) {
    const std::string_view text = word(node);
    double value = 0;
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (node != nullptr && (code != std::errc() || end != text.data() + text.size() || !(value >= 0 && value <= 1))) {
      fail(*node, concat(name(*node), " is not a number from 0 to 1"));
      return 0;
    }
    return value;
  }

  bool boolean(const YamlNode* node) {
    const std::string_view text = word(node);
    if (node != nullptr && text != "true" && text != "false") fail(*node, concat(name(*node), " is not true or false"));
    return text == "true";
  }

  // One of the words that `parse` knows.
  template <typename T>
  T keyword(const YamlNode* node, std::optional<T> (*parse)(std::string_view)) {
    const std::string_view text = word(node);
    const std::optional<T> value = parse(text);
    if (node != nullptr && !value) fail(*node, concat(name(*node), " has the unknown value ", quote_text(text, 80)));
    return value.value_or(T{});
  }

  Formula formula(const YamlNode* node) {
    if (node == nullptr) return {};
    if (!node->quoted) return Formula(integer(node, 0, int64_max));
    auto parsed = Formula::parse(node->text, symbols);
    if (parsed) return std::move(parsed).value();
    fail(*node, parsed.error().first());
    return {};
  }

  // Every item of a sequence through `decode(node)`.
  template <typename Decode>
  auto list(const YamlNode* node, Decode decode) -> std::vector<decltype(decode(node))> {
    std::vector<decltype(decode(node))> items;
    if (node == nullptr) return items;
    if (node->kind != YamlNode::Kind::sequence) {
      fail(*node, concat(name(*node), " is not a list"));
      return items;
    }
    items.reserve(node->children.size());
    for (const YamlNode& child : node->children) items.push_back(decode(&child));
    return items;
  }

  // The names in a list must differ.
  template <typename T, typename ToName>
  void check_unique(const YamlNode* node, const std::vector<T>& items, ToName to_name) {
    std::set<std::string_view> seen;
    for (size_t i = 0; node != nullptr && i < items.size() && i < node->children.size(); ++i) {
      if (!seen.insert(to_name(items[i])).second) {
        fail(node->children[i], concat("the name ", quote_text(to_name(items[i])), " stands twice in ", name(*node)));
      }
    }
  }

  static std::string name(const YamlNode& node) {
    return node.key.empty() ? std::string("an item of the list") : concat("'", node.key, "'");
  }

 private:
  std::string_view file_;
};

// The entries of one mapping, each of which must be asked for.
class Fields {
 public:
  Fields(Decoder& decoder, const YamlNode& node) : decoder_(decoder), node_(node), taken_(node.children.size(), false) {
    if (node.kind != YamlNode::Kind::mapping) decoder.fail(node, concat(Decoder::name(node), " is not a mapping"));
  }
  // Null and an error if there is no such entry.
  const YamlNode* operator[](std::string_view key) {
    const YamlNode* const found = find(key);
    if (found == nullptr && node_.kind == YamlNode::Kind::mapping)
      decoder_.fail(node_, concat("the key '", key, "' is missing"));
    return found;
  }
  // Null if there is no such entry.
  const YamlNode* find(std::string_view key) {
    for (size_t i = 0; node_.kind == YamlNode::Kind::mapping && i < node_.children.size(); ++i) {
      if (node_.children[i].key != key) continue;
      taken_[i] = true;
      return &node_.children[i];
    }
    return nullptr;
  }
  // After the last entry was asked for.
  void finish() {
    for (size_t i = 0; node_.kind == YamlNode::Kind::mapping && i < node_.children.size(); ++i) {
      if (!taken_[i]) decoder_.fail(node_.children[i], concat("unknown key '", node_.children[i].key, "'"));
    }
  }

 private:
  Decoder& decoder_;
  const YamlNode& node_;
  std::vector<bool> taken_;
};

// A decision; its formulas are over the symbols of the decoder.
Decision decode_decision(Decoder& decoder, const YamlNode& node);
// Positions in a list of `count` decisions, each once.
std::vector<uint32_t> decode_decision_list(Decoder& decoder, const YamlNode* node, size_t count);

// A program; `manifest` holds all that stands before the programs.
Program decode_program(Decoder& decoder, const YamlNode& node, const Manifest& manifest);

// Variants follow their general programs and differ from them and from one another in sizes alone.
void check_variants(Decoder& decoder, const YamlNode& node, const std::vector<Program>& programs);

}  // namespace rtx::package
