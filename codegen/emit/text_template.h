// Generated text that is mostly fixed: fill("$type$ x = 0;", {{"type", "float"}}).
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

namespace rtx::codegen {

// `text` with each $name$ replaced by its value; every name in it must be listed.
std::string fill(std::string_view text, std::initializer_list<std::pair<std::string_view, std::string_view>> values);

}  // namespace rtx::codegen
