#include "codegen/representative_values.h"

#include <algorithm>

namespace rtx::codegen {

SymbolValues representative_values(const SymbolRanges& symbols) {
  SymbolValues values;
  for (const auto& [name, range] : symbols) {
    values[name] = range.opt ? range.opt : std::clamp<int64_t>(128, range.min, std::max(range.min, range.max));
  }
  return values;
}

}  // namespace rtx::codegen
