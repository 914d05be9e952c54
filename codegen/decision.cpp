#include "codegen/decision.h"

#include <algorithm>

#include "base/text.h"
#include "codegen/representative_values.h"

namespace rtx::codegen {

std::optional<int64_t> estimate_ns(std::span<const Work> launches, const SymbolRanges& symbols) {
  const SymbolValues sizes = representative_values(symbols);
  double sum = 0;
  for (const Work& work : launches) {
    const Result<int64_t> flops = work.flops.evaluate(sizes), bytes = work.bytes.evaluate(sizes);
    if (!flops || !bytes) return std::nullopt;
    sum += package::estimate_ns({work.unit, work.percent, static_cast<double>(*flops), static_cast<double>(*bytes)},
                                package::reference_gpu());
  }
  return static_cast<int64_t>(sum);
}

std::vector<Decision> OriginLog::find(const std::vector<std::string>& origins) const {
  std::vector<Decision> found;
  for (const std::string& origin : origins) {
    const auto entry = decisions_.find(origin);
    if (entry == decisions_.end()) continue;
    for (const Decision& decision : entry->second) {
      if (std::find(found.begin(), found.end(), decision) == found.end()) found.push_back(decision);
    }
  }
  return found;
}

std::string Decision::str() const {
  const auto launch = [](const Work& work) {
    return concat("{", package::to_string(work.unit), " ", work.percent, "%, flops ", work.flops.str(), ", bytes ",
                  work.bytes.str(), "}");
  };
  return concat(chosen ? "yes " : "no ", subject, operand < 0 ? "" : concat(" operand ", operand), ": ", reason,
                launches.empty() ? "" : concat(" ", join(launches, " + ", launch)));
}

}  // namespace rtx::codegen
