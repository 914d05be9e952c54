#include "runtime/cpu/reference_step.h"

#include <cstring>

#include "ir/evaluate.h"

namespace rtx::runtime::cpu {

ReferenceStep::ReferenceStep(const Operation& operation, const SymbolValues& symbols, std::vector<Place> operands,
                             std::vector<ConcreteType> operand_types, std::vector<Place> results,
                             std::vector<ConcreteType> result_types)
    : operation_(operation),
      symbols_(symbols),
      operands_(std::move(operands)),
      results_(std::move(results)),
      operand_types_(std::move(operand_types)),
      result_types_(std::move(result_types)) {}

Result<void> ReferenceStep::run(const StepContext& context) {
  std::vector<Tensor> tensors;
  std::vector<const Tensor*> pointers;
  for (size_t i = 0; i < operands_.size(); ++i) {
    tensors.emplace_back(operand_types_[i].dtype, operand_types_[i].shape);
    if (!tensors.back().bytes.empty()) {
      std::memcpy(tensors.back().bytes.data(), context.at(operands_[i]), tensors.back().bytes.size());
    }
  }
  for (const Tensor& tensor : tensors) pointers.push_back(&tensor);
  RTX_ASSIGN(std::vector<Tensor> results, rtx::evaluate(operation_, pointers, symbols_, nullptr));
  for (size_t i = 0; i < results_.size(); ++i) {
    if (!results[i].bytes.empty())
      std::memcpy(context.at(results_[i]), results[i].bytes.data(), results[i].bytes.size());
  }
  return Ok{};
}

}  // namespace rtx::runtime::cpu
