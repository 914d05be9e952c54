#include "codegen/add_machine_code.h"

namespace rtx::codegen {

Result<void> add_machine_code(const ModulePlan&, const BuildOptions&, const std::string&, package::Manifest&) {
  return make_error(ErrorKind::internal, "E993", "machine code is not wired yet");
}

}  // namespace rtx::codegen
