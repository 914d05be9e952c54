#include "passes/mark_canonical.h"

#include "base/text.h"

namespace rtx {

Result<bool> mark_canonical(Module& module, PassContext&) {
  if (module.stage == Stage::canonical) return false;
  if (module.stage != Stage::imported) {
    return make_error(ErrorKind::usage, "E011",
                      concat("a module of stage ", to_string(module.stage), " cannot become canonical"))
        .with_expected("stage imported");
  }
  module.stage = Stage::canonical;
  return true;
}

}  // namespace rtx
