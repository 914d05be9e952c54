#include "passes/fold_constants.h"

#include <algorithm>

#include "base/text.h"
#include "ir/evaluate.h"

namespace rtx {

namespace {

// Constants up to this many elements stand in the text, larger ones go to the weights file.
constexpr int64_t max_inline_elements = 16;
// What may grow: a broadcast or iota of this size costs nothing, whatever it was made of.
constexpr int64_t free_bytes = 4096;

bool is_data(const Operation* op) { return op && (op->is(Op::constant) || op->is(Op::weight)); }

int64_t static_bytes(const Type& type) {
  Dim count = type.element_count();
  if (!count.is_constant()) return -1;
  std::optional<int64_t> bytes = packed_bytes(type.dtype, count.constant());
  return bytes ? *bytes : -1;
}

class Folder {
 public:
  Folder(Module& module, PassContext& context) : module_(module), context_(context) {}

  Result<bool> fold(Block& block) {
    bool changed = false;
    const auto& operations = block.operations();
    for (auto it = operations.begin(); it != operations.end();) {
      Operation* op = (it++)->get();
      if (!worth_folding(*op)) continue;
      RTX_TRY(replace(block, *op));
      changed = true;
    }
    return changed;
  }

 private:
  bool worth_folding(const Operation& op) {
    if (op.is(Op::yield) || is_data(&op) || op.body() || op.spec().has(trait_no_fold) || op.unused()) return false;
    int64_t operand_bytes = 0;
    for (const Value* operand : op.operands()) {
      if (!is_data(operand->def())) return false;
      operand_bytes += std::max<int64_t>(0, static_bytes(operand->type));
    }
    int64_t bytes = 0;
    for (const Type& type : op.result_types()) {
      int64_t result_bytes = static_bytes(type);
      if (result_bytes < 0 || result_bytes > context_.max_folded_bytes) return false;
      bytes += result_bytes;
    }
    // dim_values and the like of constant dims have no operands; the value of symbols is not known here.
    for (const auto& [name, value] : op.attributes.entries()) {
      auto constant = [](const Dim& d) { return d.is_constant(); };
      if (auto* dim = std::get_if<Dim>(&value); dim && !constant(*dim)) return false;
      if (auto* dims = std::get_if<std::vector<Dim>>(&value); dims && !std::all_of(dims->begin(), dims->end(), constant))
        return false;
    }
    if (bytes > std::max(operand_bytes, free_bytes)) return false;
    return context_.folded_bytes + bytes <= context_.max_folded_total_bytes;
  }

  Result<void> replace(Block& block, Operation& op) {
    std::vector<Tensor> operands;
    for (const Value* operand : op.operands()) {
      RTX_ASSIGN(Tensor tensor, data(*operand->def()));
      operands.push_back(std::move(tensor));
    }
    std::vector<const Tensor*> pointers;
    for (const Tensor& tensor : operands) pointers.push_back(&tensor);
    Result<std::vector<Tensor>> results = evaluate(op, pointers, {}, module_.weights.get());
    if (!results) return std::move(results).error().within(concat("folding ", join(op.origins, ", ")));
    Builder builder(block, &op);
    builder.origins = op.origins;
    for (size_t i = 0; i < results->size(); ++i) {
      Tensor& tensor = (*results)[i];
      context_.folded_bytes += static_cast<int64_t>(tensor.bytes.size());
      const std::string& name = op.result(i)->name;
      Value* folded = nullptr;
      if (tensor.element_count() <= max_inline_elements) {
        RTX_ASSIGN(folded, builder.constant(std::move(tensor)));
      } else {
        std::string weight = module_.weights->unique_name(concat(name.empty() ? "constant" : name, ".folded"));
        Shape shape(tensor.shape.begin(), tensor.shape.end());
        AttributeList attributes{{"name", weight}, {"dtype", tensor.dtype}, {"shape", std::move(shape)}};
        module_.weights->add(weight, std::move(tensor));
        RTX_ASSIGN(folded, builder.value(Op::weight, {}, std::move(attributes)));
      }
      folded->name = name;
      op.result(i)->replace_all_uses_with(folded);
    }
    block.erase(&op);
    return Ok{};
  }

  Result<Tensor> data(const Operation& op) {
    if (op.is(Op::constant)) return op.attributes.tensor("value");
    return module_.weights->load(op.attributes.string("name"));
  }

  Module& module_;
  PassContext& context_;
};

}  // namespace

Result<bool> fold_constants(Module& module, PassContext& context) {
  bool changed = false;
  for (const auto& function : module.functions) {
    RTX_ASSIGN(bool folded, Folder(module, context).fold(function->block));
    changed = changed || folded;
  }
  return changed;
}

}  // namespace rtx
