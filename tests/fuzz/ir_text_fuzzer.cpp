// The parser of IR text: what it accepts prints as text that gives the same module again.

#include "ir/text.h"
#include "tests/fuzz/fuzz_target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace rtx;
  const Result<std::unique_ptr<Module>> module = parse_module(fuzz::as_text(data, size), "input");
  if (!module) {
    fuzz::require_clean(module.error());
    return 0;
  }
  const std::string printed = print(**module);
  const Result<std::unique_ptr<Module>> again = parse_module(printed, "printed");
  if (!again) fuzz::require(false, "what is printed parses", to_string(again.error().first()) + printed);
  fuzz::require(print(**again) == printed, "parse and print are inverse", print(**again) + printed);
  return 0;
}
