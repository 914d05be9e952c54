// Names of an untrusted file, before they reach a message, a text file or a map.
#pragma once

#include <string>
#include <string_view>

namespace rtx::onnx {

// Why `name` is not acceptable as a name: invalid UTF-8 or control characters. Empty if it is. The empty name is fine.
std::string name_flaw(std::string_view name);

}  // namespace rtx::onnx
