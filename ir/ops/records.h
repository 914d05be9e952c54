// Declares the record of every op. The family files define them; ir/op.cpp builds the table.
#pragma once

#include "ir/op.h"

namespace rtx {

#define RTX_OP(name, family) extern const OpSpec op_##name;
#include "ir/op_list.def"
#undef RTX_OP

}  // namespace rtx
