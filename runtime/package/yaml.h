// The YAML that a manifest is written in, read into a tree by yaml-cpp. docs/package_format.md says what may stand in
// it.
//
// What a manifest does not need (anchors, aliases, tags, comments, directives, further documents, duplicate keys,
// single quotes, empty values) is refused, and so is what exceeds a limit: before yaml-cpp sees it, where a scan over
// the characters can tell.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace rtx::package {

inline constexpr int64_t largest_yaml_bytes = int64_t{8} << 20;
inline constexpr int largest_yaml_depth = 16;
inline constexpr int64_t largest_yaml_nodes = 1'000'000;

struct YamlNode {
  enum class Kind : uint8_t { scalar, sequence, mapping };
  Kind kind = Kind::scalar;
  bool quoted = false;  // a scalar in double quotes or a literal block; never a number or a keyword
  int line = 0;         // from 1
  int column = 0;       // from 1, in bytes
  std::string key;      // of an entry of a mapping
  std::string text;     // of a scalar
  std::vector<YamlNode> children;
};

// The tree of one document, whose root is a mapping that is not empty. Errors are E601 (integrity); their place is
// "LINE:COLUMN".
Result<YamlNode> parse_yaml(std::string_view text);

// The text in double quotes, with escapes for everything that is not printable; bytes that are not UTF-8 become U+FFFD.
std::string quote_yaml(std::string_view text);

// The value of a mapping entry at `indent` spaces: a literal block where the text can be read as one, else quoted.
std::string literal_yaml(std::string_view text, int indent);

}  // namespace rtx::package
