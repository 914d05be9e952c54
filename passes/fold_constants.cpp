#include "passes/fold_constants.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "base/text.h"
#include "ir/evaluate.h"

namespace rtx {

namespace {

// Values of at most this many elements are written into the text; import does the same with initializers.
constexpr int64_t max_inline_elements = 16;

std::vector<int64_t> static_shape(const Type& type) {
  std::vector<int64_t> shape;
  for (const Dim& dim : type.shape) shape.push_back(dim.constant());
  return shape;
}

int64_t element_count(const Type& static_type) { return static_type.element_count().constant(); }

// Bytes of a static type; nullopt if it has symbols, a negative size or overflows.
std::optional<int64_t> static_bytes(const Type& type) {
  int64_t elements = 1;
  for (const Dim& dim : type.shape) {
    if (!dim.is_constant() || dim.constant() < 0 || __builtin_mul_overflow(elements, dim.constant(), &elements)) {
      return std::nullopt;
    }
  }
  return packed_bytes(type.dtype, elements);
}

bool has_symbols(const Operation& operation) {
  for (const auto& [name, value] : operation.attributes.entries()) {
    if (const Dim* dim = std::get_if<Dim>(&value); dim && !dim->is_constant()) return true;
    if (const auto* dims = std::get_if<std::vector<Dim>>(&value)) {
      for (const Dim& dim : *dims) {
        if (!dim.is_constant()) return true;
      }
    }
  }
  return false;
}

class Folder {
 public:
  Folder(Module& module, PassContext& context) : module_(module), context_(context) {
    for (const auto& function : module.functions) {
      for (const auto& operation : function->block.operations()) {
        if (operation->is(Op::weight)) {
          weight_uses_[operation->attributes.string("name")] += operation->result()->uses().size();
        }
      }
    }
  }

  Result<bool> run(Block& block) {
    std::vector<Operation*> folded;  // in program order
    for (const auto& operation : block.operations()) {
      RTX_ASSIGN(bool done, fold(*operation));
      if (done) folded.push_back(operation.get());
    }
    for (Operation* operation : folded) replace(*operation);
    for (auto it = folded.rbegin(); it != folded.rend(); ++it) block.erase(*it);
    values_.clear();
    return !folded.empty();
  }

 private:
  // An operand whose value is known: of a constant, of a weight with data, or folded before.
  bool is_known(const Value* value) const {
    Operation* definition = value->def();
    if (!definition || context_.kept.contains(value)) return false;
    if (definition->is(Op::weight)) return module_.weights->find(definition->attributes.string("name")) != nullptr;
    return definition->is(Op::constant) || values_.contains(value);
  }

  Result<bool> fold(Operation& operation) {
    if (operation.is(Op::constant) || operation.spec().has(trait_no_fold) || operation.unused()) return false;
    if (operation.result_count() != 1 || has_symbols(operation)) return false;
    if (!std::all_of(operation.operands().begin(), operation.operands().end(),
                     [&](const Value* operand) { return is_known(operand); })) {
      return false;
    }
    std::optional<int64_t> bytes = static_bytes(operation.result()->type);
    if (!bytes || !within_budget(operation, *bytes)) return false;

    std::vector<Tensor> loaded;
    std::vector<const Tensor*> operands;
    loaded.reserve(operation.operand_count());
    for (const Value* operand : operation.operands()) {
      Operation* definition = operand->def();
      if (definition->is(Op::constant)) {
        operands.push_back(&definition->attributes.tensor("value"));
      } else if (definition->is(Op::weight)) {
        RTX_ASSIGN(Tensor tensor, module_.weights->load(definition->attributes.string("name")));
        loaded.push_back(std::move(tensor));
        operands.push_back(&loaded.back());
      } else {
        operands.push_back(&values_.at(operand).tensor);
      }
    }
    Result<std::vector<Tensor>> results = evaluate(operation, operands, {}, module_.weights.get());
    if (!results) return false;  // what cannot be evaluated stays, and fails when it runs
    release(operation);
    values_.emplace(operation.result(),
                    Folded{std::move((*results)[0]), stem_of(operation), operation.result()->uses().size()});
    spent_bytes_ += *bytes;
    return true;
  }

  bool within_budget(const Operation& operation, int64_t bytes) const {
    if (bytes > context_.max_folded_value_bytes || spent_bytes_ + bytes > context_.max_folded_total_bytes) return false;
    if (multiplies(operation) > static_cast<double>(context_.max_folded_multiplies)) return false;
    // Operands are read whole, however small the result.
    for (const Value* operand : operation.operands()) {
      std::optional<int64_t> operand_bytes = static_bytes(operand->type);
      if (!operand_bytes || *operand_bytes > context_.max_folded_value_bytes) return false;
    }
    const bool compact = operation.spec().has(trait_keep_compact);
    if (bytes <= context_.small_bytes && (!compact || element_count(operation.result()->type) <= max_inline_elements))
      return true;
    int64_t operand_bytes = 0;
    for (const Value* operand : operation.operands()) {
      if (Operation* weight = operand->def(); weight->is(Op::weight)) {
        if (weight_uses_.at(weight->attributes.string("name")) > 1) return false;
      }
      operand_bytes += static_bytes(operand->type).value_or(0);
    }
    return bytes <= operand_bytes;
  }

  // Of a matmul or conv, 0 for others. In f64: only compared with a limit.
  static double multiplies(const Operation& operation) {
    if (!operation.is(Op::matmul) && !operation.is(Op::conv)) return 0;
    double count = 1;
    for (int64_t dim : static_shape(operation.result()->type)) count *= static_cast<double>(dim);
    std::vector<int64_t> operand = static_shape(operation.operand(operation.is(Op::conv) ? 1 : 0)->type);
    if (operation.is(Op::conv)) {
      for (size_t i = 1; i < operand.size(); ++i) count *= static_cast<double>(operand[i]);
      return count;
    }
    bool transposed = operation.attributes.boolean("transpose_lhs");
    return count * static_cast<double>(operand[operand.size() - (transposed ? 2 : 1)]);
  }

  // Drops tensors that have no further use, so that long chains hold one tensor at a time.
  void release(const Operation& operation) {
    for (const Value* operand : operation.operands()) {
      auto found = values_.find(operand);
      if (found != values_.end() && --found->second.open_uses == 0) found->second.tensor = Tensor();
    }
  }

  std::string stem_of(const Operation& operation) const {
    for (const Value* operand : operation.operands()) {
      if (operand->def()->is(Op::weight)) {
        return concat(operand->def()->attributes.string("name"), ".", to_string(operation.op));
      }
      if (auto found = values_.find(operand); found != values_.end() && found->second.stem != "folded") {
        return concat(found->second.stem, ".", to_string(operation.op));
      }
    }
    return "folded";
  }

  // Gives the uses that were not folded a constant or weight in place of the operation.
  void replace(Operation& operation) {
    Folded& folded = values_.at(operation.result());
    if (folded.open_uses == 0) return;
    Block& block = *operation.block();
    Operation* created = nullptr;
    const Type& type = operation.result()->type;
    if (folded.tensor.element_count() <= max_inline_elements) {
      created = block.insert(&operation, Op::constant, {}, {{"value", std::move(folded.tensor)}}, {type});
    } else {
      std::string name = unique_name(folded.stem);
      module_.weights->add(name, std::move(folded.tensor));
      created = block.insert(&operation, Op::weight, {}, {{"name", name}, {"dtype", type.dtype}, {"shape", type.shape}},
                             {type});
    }
    created->origins = operation.origins;
    created->result()->name = operation.result()->name;
    // Uses by folded operations go along; those are erased next.
    operation.result()->replace_all_uses_with(created->result());
  }

  std::string unique_name(const std::string& stem) {
    if (!module_.weights->find(stem)) return stem;
    while (true) {
      std::string name = concat(stem, ".", ++name_counts_[stem]);
      if (!module_.weights->find(name)) return name;
    }
  }

  struct Folded {
    Tensor tensor;
    std::string stem;      // of the name, should it become a weight
    size_t open_uses = 0;  // by operations that are not folded
  };

  Module& module_;
  PassContext& context_;
  std::unordered_map<const Value*, Folded> values_;
  std::map<std::string, size_t, std::less<>> weight_uses_;
  std::map<std::string, int64_t> name_counts_;
  int64_t spent_bytes_ = 0;
};

}  // namespace

Result<bool> fold_constants(Module& module, PassContext& context) {
  Folder folder(module, context);
  bool changed = false;
  for (auto& function : module.functions) {
    RTX_ASSIGN(bool function_changed, folder.run(function->block));
    changed = changed || function_changed;
  }
  return changed;
}

}  // namespace rtx
