// What merging fusions is made of: who reads whom, and a fusion that takes others in.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "codegen/merge_rules.h"
#include "ir/module.h"

namespace rtx::codegen {

// What stands behind an operand of a fusion: another fusion, maybe behind a reshape.
struct Source {
  Operation* fusion = nullptr;  // null if something else
  Operation* reshape = nullptr;
};
Source source_of(const Value* operand);

// The fusions that read `value`, maybe behind a reshape; none if something else reads it too.
std::optional<std::vector<Reader>> readers_of(const Value* value);

// Builds a fusion in `block`, before `before`, that does the work of others. What it takes stays where it is.
class JoinedFusion {
 public:
  // `attributes` must outlive finish().
  JoinedFusion(Block& block, Operation* before, const AttributeList& attributes)
      : block_(block), before_(before), attributes_(attributes), body_(std::make_unique<Block>()) {}

  // The results of `fusion` in this body; its operand `index` is `known`.
  std::vector<Value*> take(const Operation& fusion, size_t index = SIZE_MAX, Value* known = nullptr);
  // `value` of this body as `reshape` has it; as it is if that is null.
  Value* reshaped(const Operation* reshape, Value* value);
  // The fusion, with these values of its body as results. What its body computes twice is computed once.
  Operation* finish(const std::vector<Value*>& results);

 private:
  Value* argument(Value* operand);

  Block& block_;
  Operation* before_;
  const AttributeList& attributes_;
  std::unique_ptr<Block> body_;
  std::vector<Value*> operands_;
  std::map<const Value*, Value*> arguments_;
  std::vector<const Operation*> taken_;
};

}  // namespace rtx::codegen
