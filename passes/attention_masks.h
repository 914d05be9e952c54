// Takes masks apart into what attention knows: causal and sliding-window limits, bool masks, additive biases.
#pragma once

#include <optional>
#include <vector>

#include "passes/canonicalize_rules.h"

namespace rtx {

class AttentionMasks {
 public:
  explicit AttentionMasks(Rewriter& rewriter) : rewriter_(rewriter) {}

  // A float that is added to the scores; rank 4 or less.
  void add_bias(Value* bias);
  // Scores where `keep` is false (true, if not `when`) become `fill`, or get it added. False if an earlier mask has
  // another fill: nothing was added.
  bool add_mask(Value* keep, bool when, double fill);

  // Sets the attributes causal, offset, window and fill. To be called last: a limit that is not one after all becomes
  // an operand.
  void describe(AttributeList& attributes);
  const std::vector<Value*>& operands() const { return operands_; }

 private:
  void split_mask(Value* keep, bool when);
  bool add_limits(Value* keep, bool when);
  void add_condition(Value* keep, bool when);
  bool accepts(double fill);

  Rewriter& rewriter_;
  std::optional<double> fill_;
  std::optional<Dim> upper_;  // key j <= query i + upper
  std::optional<Dim> lower_;  // key j >= query i - lower
  Value* lower_mask_ = nullptr;
  bool lower_when_ = true;
  std::vector<Value*> operands_;
};

}  // namespace rtx
