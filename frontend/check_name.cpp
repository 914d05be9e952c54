#include "frontend/check_name.h"

#include "base/text.h"
#include "base/utf8.h"

namespace rtx::onnx {

std::string name_flaw(std::string_view name) {
  for (size_t i = 0; i < name.size();) {
    const auto character = decode_utf8(name, i);
    if (!character) return concat("invalid UTF-8 at byte ", i);
    const char32_t c = character->code_point;
    if (c < 0x20 || (c >= 0x7f && c <= 0x9f)) return concat("control character at byte ", i);
    i += static_cast<size_t>(character->bytes);
  }
  return {};
}

}  // namespace rtx::onnx
