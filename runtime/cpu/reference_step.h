// ReferenceStep: an operation run by the IR's evaluator. For everything that has no loop of its own.
#pragma once

#include "ir/module.h"
#include "runtime/cpu/step.h"

namespace rtx::runtime::cpu {

class ReferenceStep : public Step {
 public:
  ReferenceStep(const Operation& operation, const SymbolValues& symbols, std::vector<Place> operands,
                std::vector<ConcreteType> operand_types, std::vector<Place> results,
                std::vector<ConcreteType> result_types);
  Result<void> run(const StepContext& context) override;

 private:
  const Operation& operation_;
  SymbolValues symbols_;
  std::vector<Place> operands_, results_;
  std::vector<ConcreteType> operand_types_, result_types_;
};

}  // namespace rtx::runtime::cpu
