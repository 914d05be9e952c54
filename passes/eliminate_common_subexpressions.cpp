#include "passes/eliminate_common_subexpressions.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <unordered_set>

namespace rtx {

namespace {

void mix(size_t& hash, size_t value) { hash = (hash ^ value) * 0x9e3779b97f4a7c15u + (hash >> 29); }

struct AttributeHash {
  size_t& hash;
  void operator()(bool value) { mix(hash, value); }
  void operator()(int64_t value) { mix(hash, static_cast<size_t>(value)); }
  void operator()(double value) { mix(hash, std::bit_cast<uint64_t>(value)); }
  void operator()(const std::string& value) { mix(hash, std::hash<std::string>{}(value)); }
  void operator()(DType value) { mix(hash, static_cast<size_t>(value)); }
  void operator()(const std::vector<int64_t>& values) {
    for (int64_t value : values) (*this)(value);
  }
  void operator()(const Dim& dim) { dim.is_constant() ? (*this)(dim.constant()) : (*this)(dim.str()); }
  void operator()(const std::vector<Dim>& dims) {
    for (const Dim& dim : dims) (*this)(dim);
  }
  void operator()(const Tensor& tensor) {
    std::string_view bytes(reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size());
    mix(hash, std::hash<std::string_view>{}(bytes));
  }
};

// The operands, the first two of a commutative operation in a fixed order. Comparing addresses only groups equal
// operations; it never decides which one survives.
std::vector<Value*> key_operands(const Operation& operation) {
  std::vector<Value*> operands = operation.operands();
  if (operation.spec().has(trait_commutative) && std::less<>{}(operands[1], operands[0])) {
    std::swap(operands[0], operands[1]);
  }
  return operands;
}

struct SameHash {
  size_t operator()(const Operation* operation) const {
    size_t hash = static_cast<size_t>(operation->op);
    for (Value* operand : key_operands(*operation)) mix(hash, std::hash<Value*>{}(operand));
    for (const auto& [name, value] : operation->attributes.entries()) std::visit(AttributeHash{hash}, value);
    return hash;
  }
};

struct SameOperation {
  bool operator()(const Operation* a, const Operation* b) const {
    return a->op == b->op && key_operands(*a) == key_operands(*b) && a->attributes == b->attributes &&
           a->result_types() == b->result_types();
  }
};

}  // namespace

bool eliminate_common_subexpressions(Block& block) {
  bool changed = false;
  std::unordered_set<Operation*, SameHash, SameOperation> seen;
  for (Operation* operation = block.size() > 0 ? block.operations().front().get() : nullptr; operation;) {
    Operation* next = block.next(operation);
    if (!operation->is(Op::yield) && !operation->body()) {
      auto [first, inserted] = seen.insert(operation);
      if (!inserted) {
        for (size_t i = 0; i < operation->result_count(); ++i) {
          Value* kept = (*first)->result(i);
          if (kept->name.empty()) kept->name = operation->result(i)->name;
          operation->result(i)->replace_all_uses_with(kept);
        }
        block.erase(operation);
        changed = true;
      }
    }
    operation = next;
  }
  return changed;
}

Result<bool> eliminate_common_subexpressions(Module& module, PassContext&) {
  bool changed = false;
  for (auto& function : module.functions) changed = eliminate_common_subexpressions(function->block) || changed;
  return changed;
}

}  // namespace rtx
