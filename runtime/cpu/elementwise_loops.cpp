#include "runtime/cpu/elementwise_loops.h"

#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>

#define RTX_ISA_FILE "runtime/cpu/elementwise_loops.inc"
#include "runtime/cpu/for_each_isa.inc"

namespace rtx::runtime::cpu {

const ElementwiseLoops& elementwise_loops(Isa isa) {
  switch (isa) {
    case Isa::baseline:
      break;
    case Isa::v3:
      return v3::elementwise;
    case Isa::v4:
      return v4::elementwise;
  }
  return baseline::elementwise;
}

int loop_variant(Op op, const AttributeList& attributes) {
  if (op == Op::mod) return attributes.boolean("truncated") ? 1 : 0;
  if (op == Op::gelu) return attributes.string("approximate") == "tanh" ? 1 : 0;
  return 0;
}

}  // namespace rtx::runtime::cpu
