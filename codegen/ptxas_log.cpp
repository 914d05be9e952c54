#include "codegen/ptxas_log.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/text.h"

namespace rtx::codegen {
namespace {

// The number just before `unit` in the line: number_before("Used 32 registers, ...", " registers") is 32.
std::optional<int> number_before(std::string_view line, std::string_view unit) {
  const size_t end = line.find(unit);
  if (end == std::string_view::npos) return std::nullopt;
  size_t begin = end;
  while (begin > 0 && line[begin - 1] >= '0' && line[begin - 1] <= '9') --begin;
  int value = 0;
  if (std::from_chars(line.data() + begin, line.data() + end, value).ec != std::errc()) return std::nullopt;
  return value;
}

}  // namespace

Result<package::Resources> parse_ptxas_log(std::string_view log, std::string_view arch) {
  package::Resources resources;
  resources.arch = arch;
  bool has_registers = false;
  for (size_t begin = 0; begin < log.size();) {
    const size_t end = std::min(log.find('\n', begin), log.size());
    const std::string_view line = log.substr(begin, end - begin);
    begin = end + 1;
    // "    16 bytes stack frame, 8 bytes spill stores, 8 bytes spill loads"
    if (const auto stack = number_before(line, " bytes stack frame")) {
      resources.stack_bytes = std::max(resources.stack_bytes, *stack);
      resources.spill_bytes += number_before(line, " bytes spill stores").value_or(0);
      resources.spill_bytes += number_before(line, " bytes spill loads").value_or(0);
    }
    // "ptxas info    : Used 32 registers, used 1 barriers, 4096 bytes smem, 400 bytes cmem[0]"
    if (const auto registers = number_before(line, " registers");
        registers && line.find("Used ") != std::string_view::npos) {
      has_registers = true;
      resources.registers = std::max(resources.registers, *registers);
      resources.shared_bytes = std::max(resources.shared_bytes, number_before(line, " bytes smem").value_or(0));
    }
  }
  if (!has_registers) {
    return make_error(ErrorKind::internal, "E726", "the compiler's log does not have the resources of the kernel")
        .with_note(escape_text(log, 2000));
  }
  return resources;
}

}  // namespace rtx::codegen
