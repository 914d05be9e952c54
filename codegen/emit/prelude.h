// The small device functions that generated kernels may call. A kernel's text holds those it uses, and nothing else.
#pragma once

#include <span>
#include <string_view>

namespace rtx::codegen {

struct PreludeFunction {
  std::string_view name;
  std::string_view uses;  // names of others it calls, separated by spaces; they come earlier in the list
  std::string_view text;  // one definition; one line where it holds inline PTX
};

// In an order in which every function follows those it uses.
std::span<const PreludeFunction> prelude_functions();

}  // namespace rtx::codegen
