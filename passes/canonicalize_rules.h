// What the rewrite rules of canonicalize share.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "ir/module.h"
#include "passes/pass.h"

namespace rtx {

// Creates the operations of a rewrite in front of its root, with the origins of the root.
class Rewriter {
 public:
  Rewriter(const Module& module, Operation& root) : module_(module), root_(root), builder_(*root.block(), &root) {
    builder_.origins = root.origins;
  }

  // The result of a new operation; null if its operands do not allow it, which makes the rule not apply.
  Value* make(Op op, std::vector<Value*> operands, AttributeList attributes = {});
  // `value` everywhere, in the given type: a scalar constant, broadcast if the type has axes.
  Value* filled(const Type& type, double value);
  // For rules that recover composites: the root is nearly one, but for this reason. Null; the first reason counts.
  Value* miss(std::string_view composite, std::string reason) {
    if (!near_match_) near_match_ = NearMatch{std::string(composite), std::move(reason), root_.origins};
    return nullptr;
  }
  const std::optional<NearMatch>& near_match() const { return near_match_; }
  const SymbolRanges& symbols() const { return module_.symbols; }
  const std::vector<Operation*>& created() const { return created_; }

 private:
  const Module& module_;
  Operation& root_;
  Builder builder_;
  std::vector<Operation*> created_;
  std::optional<NearMatch> near_match_;
};

// A rule looks at one operation and returns the value that replaces its result, the result itself if it changed the
// operation in place, or null if it does not apply. The driver refuses a replacement of another type.
struct Rule {
  Op root;
  Value* (*apply)(Operation& root, Rewriter& rewriter);
};

std::span<const Rule> arithmetic_rules();
std::span<const Rule> movement_rules();

// The tensor of a `constant`, else null.
const Tensor* constant_tensor(const Value* value);
// The one number that a `constant` holds in all its elements, compared by bits (so -0 is not 0), else nullopt.
std::optional<double> constant_number(const Value* value);
// True for a constant with this value in all elements; `value` 0 means +0.
bool is_constant(const Value* value, double number);
// The operation behind a value if it is of this kind, else null.
Operation* defined_by(const Value* value, Op op);

}  // namespace rtx
