#include "passes/recover_composites.h"

#include "passes/eliminate_dead_values.h"
#include "passes/recover_rules.h"

namespace rtx {

namespace {

class Recovery {
 public:
  Recovery(Module& module, std::vector<NearMatch>& near_matches)
      : module_(module), near_matches_(near_matches), rules_(all_ops().size()) {
    for (std::span<const Rule> family :
         {activation_recoveries(), norm_recoveries(), rope_recoveries(), attention_recoveries()}) {
      for (const Rule& rule : family) rules_[static_cast<size_t>(rule.root)].push_back(rule.apply);
    }
  }

  // In program order: a root comes after everything that its rule looks at, and what one rule makes stands before the
  // roots that build on it.
  bool run(Block& block) {
    bool changed = false;
    for (Operation* operation = block.operations().front().get(); operation;) {
      Operation* next = block.next(operation);
      for (auto* rule : rules_[static_cast<size_t>(operation->op)]) {
        Rewriter rewriter(module_, *operation);
        Value* recovered = rule(*operation, rewriter);
        if (!recovered || recovered->type != operation->result()->type) {
          if (!recovered && rewriter.near_match()) near_matches_.push_back(*rewriter.near_match());
          continue;
        }
        recovered->name = operation->result()->name;
        operation->result()->replace_all_uses_with(recovered);
        block.erase(operation);
        changed = true;
        next = recovered->def();  // it may be the root of another rule
        break;
      }
      operation = next;
    }
    return changed;
  }

 private:
  Module& module_;
  std::vector<NearMatch>& near_matches_;
  std::vector<std::vector<Value* (*)(Operation&, Rewriter&)>> rules_;
};

}  // namespace

Result<bool> recover_composites(Module& module, PassContext& context) {
  Recovery recovery(module, context.near_matches);
  bool changed = false;
  for (auto& function : module.functions) changed = recovery.run(function->block) || changed;
  RTX_TRY(eliminate_dead_values(module, context));  // the pieces, and what attempts left behind
  return changed;
}

}  // namespace rtx
