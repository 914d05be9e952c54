// docs/ir_ops.md, written from the records.
#pragma once

#include <string>

namespace rtx {

// Markdown: one table of all ops by family, operands with their dtypes, attributes with their defaults.
std::string ops_markdown();

}  // namespace rtx
