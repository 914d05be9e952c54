#include "codegen/emit/text_template.h"

#include <algorithm>
#include <cassert>

namespace rtx::codegen {

std::string fill(std::string_view text, std::initializer_list<std::pair<std::string_view, std::string_view>> values) {
  std::string out;
  for (size_t at; (at = text.find('$')) != std::string_view::npos;) {
    out += text.substr(0, at);
    text.remove_prefix(at + 1);
    const size_t end = text.find('$');
    const auto value =
        std::find_if(values.begin(), values.end(), [&](const auto& v) { return v.first == text.substr(0, end); });
    assert(end != std::string_view::npos && value != values.end());
    out += value->second;
    text.remove_prefix(end + 1);
  }
  out += text;
  return out;
}

}  // namespace rtx::codegen
