// What merge_fusions may do: each question is answered with the reason where the answer is no.
#pragma once

#include <string_view>
#include <vector>

#include "codegen/decision.h"
#include "ir/module.h"

namespace rtx::codegen {

bool is_kind(const Operation* operation, std::string_view kind);

// Whether the work of the pointwise fusion `producer` may be done by each of its readers. `readers` are fusions, with
// the number of the operand that is the result of `producer` or a reshape of it.
struct Reader {
  Operation* fusion = nullptr;
  size_t operand = 0;
  Operation* reshape = nullptr;  // between the two
};
Verdict can_move_into(const Operation& producer, const std::vector<Reader>& readers, const SymbolRanges& symbols);
// Whether `pointwise`, the only reader of the row fusion behind its operand, may be computed where the row is stored.
Verdict can_follow_row(const Operation& row, const Operation& pointwise, size_t operand, const SymbolRanges& symbols);
// Whether the row fusion `row` may compute its operand and store it as one more result for the operand's other readers.
Verdict can_be_second_result(const Operation& row, size_t operand, const SymbolRanges& symbols);
// Whether two fusions that do not depend on each other may be one kernel that does the work of both side by side.
Verdict can_be_neighbours(const Operation& a, const Operation& b, const SymbolRanges& symbols);

}  // namespace rtx::codegen
