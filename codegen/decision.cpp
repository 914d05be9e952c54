#include "codegen/decision.h"

#include "base/text.h"

namespace rtx::codegen {

std::string Decision::str() const {
  return concat(chosen ? "yes " : "no ", subject, operand < 0 ? "" : concat(" operand ", operand), ": ", reason);
}

}  // namespace rtx::codegen
