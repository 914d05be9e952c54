#include "passes/eliminate_dead_values.h"

namespace rtx {

namespace {

// From last to first, so that one walk finds chains of dead operations.
bool sweep(Block& block) {
  bool changed = false;
  auto& operations = block.operations();
  for (auto it = operations.end(); it != operations.begin();) {
    --it;
    Operation* operation = it->get();
    if (operation->body()) changed = sweep(*operation->body()) || changed;
    if (operation->is(Op::yield) || !operation->unused()) continue;
    ++it;  // erase invalidates the iterator to the operation itself
    block.erase(operation);
    changed = true;
  }
  return changed;
}

}  // namespace

Result<bool> eliminate_dead_values(Module& module, PassContext&) {
  bool changed = false;
  for (auto& function : module.functions) changed = sweep(function->block) || changed;
  return changed;
}

}  // namespace rtx
