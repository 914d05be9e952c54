// MatmulStep: a matrix product as a step of a body.
#pragma once

#include "runtime/cpu/matmul.h"
#include "runtime/cpu/step.h"

namespace rtx::runtime::cpu {

class MatmulStep : public Step {
 public:
  MatmulStep(MatmulShape shape, Isa isa, Place lhs, Place rhs, Place to)
      : shape_(std::move(shape)), isa_(isa), lhs_(lhs), rhs_(rhs), to_(to) {}
  Result<void> run(const StepContext& context) override {
    return matmul(shape_, isa_, context.at(lhs_), context.at(rhs_), context.at(to_), context.pool, context.workspace);
  }

 private:
  MatmulShape shape_;
  Isa isa_;
  Place lhs_, rhs_, to_;
};

}  // namespace rtx::runtime::cpu
