// CopyStep: copies a view to a strided place.
#pragma once

#include "runtime/cpu/step.h"
#include "runtime/cpu/strided_copy.h"

namespace rtx::runtime::cpu {

class CopyStep : public Step {
 public:
  // `to_strides` in elements. For 4-bit dtypes both sides must be contiguous.
  CopyStep(const ConcreteType& type, const View& from, Place to, const std::vector<int64_t>& to_strides);
  Result<void> run(const StepContext& context) override;

 private:
  StridedCopy copy_;
  Place from_, to_;
};

}  // namespace rtx::runtime::cpu
