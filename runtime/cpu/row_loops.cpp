#include "runtime/cpu/row_loops.h"

#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>

#define RTX_ISA_FILE "runtime/cpu/row_loops.inc"
#include "runtime/cpu/for_each_isa.inc"

namespace rtx::runtime::cpu {

const RowLoops& row_loops(Isa isa, Lane lane) {
  switch (isa) {
    case Isa::baseline:
      break;
    case Isa::v3:
      return v3::rows(lane);
    case Isa::v4:
      return v4::rows(lane);
  }
  return baseline::rows(lane);
}

}  // namespace rtx::runtime::cpu
