// Ranges of dims from the command line: --dim, --fix-dim, and the shapes of trtexec.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "cli/import_options.h"
#include "ir/dim.h"
#include "ir/type.h"

namespace rtx::cli {

using Ranges = std::map<std::string, SymbolRange>;

// Of --dim and --fix-dim, by name. E001: malformed, not ordered, given twice.
Result<Ranges> dim_ranges(const OnnxOptions& options);

// Of "NAME=N,NAME=N", one for each --specialize; names as symbols of the module are written. E001: malformed, a dim
// twice.
Result<std::vector<SymbolValues>> parse_specializations(const std::vector<std::string>& arguments);

// Adds the ranges that --minShapes, --optShapes and --maxShapes give the symbols of `inputs`. Of the three, one that is
// not given for an input is taken from the others: min and max from opt, opt from max. E001: malformed, not ordered, no
// such input, another rank or size than the input has, or two sizes for one dim; the message then names both places.
Result<void> add_shape_ranges(const OnnxOptions& options, const std::map<std::string, Shape>& inputs, Ranges& ranges);

}  // namespace rtx::cli
