#include "passes/normalize_layouts.h"

#include "passes/canonicalize_rules.h"
#include "passes/eliminate_dead_values.h"

namespace rtx {
namespace {

// transpose(norm(x)) -> norm(transpose(x))   (a transpose that keeps the normalised axes)
Value* transpose_before_norm(Operation& root, Rewriter& rewriter) {
  Operation* norm = root.operand(0)->def();
  if (!norm || !(norm->is(Op::layer_norm) || norm->is(Op::rms_norm)) || !root.operand(0)->has_one_use()) return nullptr;
  const std::vector<int64_t>& perm = root.attributes.integers("perm");
  for (int64_t axis = norm->attributes.integer("axis"); axis < static_cast<int64_t>(perm.size()); ++axis) {
    if (perm[static_cast<size_t>(axis)] != axis) return nullptr;
  }
  std::vector<Value*> operands = norm->operands();
  operands[0] = rewriter.make(Op::transpose, {operands[0]}, root.attributes);
  Value* value = operands[0] ? rewriter.make(norm->op, std::move(operands), norm->attributes) : nullptr;
  if (value) value->def()->origins = norm->origins;
  return value;
}

// matmul([.., m, 1], [.., 1, n]) -> mul
Value* outer_product(Operation& root, Rewriter& rewriter) {
  if (!is_float(root.result()->type.dtype)) return nullptr;
  std::vector<Value*> operands = root.operands();
  for (size_t i = 0; i < 2; ++i) {
    const bool transposed = root.attributes.boolean(i == 0 ? "transpose_lhs" : "transpose_rhs");
    Shape shape = operands[i]->type.shape;
    const size_t rows = shape.size() - 2, columns = shape.size() - 1;
    if (!shape[(i == 0) != transposed ? columns : rows].is(1)) return nullptr;
    if (!transposed) continue;
    std::swap(shape[rows], shape[columns]);  // one of them is 1, so elements keep their order
    operands[i] = rewriter.make(Op::reshape, {operands[i]}, {{"shape", std::move(shape)}});
    if (!operands[i]) return nullptr;
  }
  return rewriter.make(Op::mul, std::move(operands));
}

bool run(Module& module, Block& block) {
  bool changed = false;
  for (Operation* operation = block.operations().front().get(); operation;) {
    Operation* next = block.next(operation);
    auto* rule = operation->is(Op::transpose) ? transpose_before_norm
                 : operation->is(Op::matmul)  ? outer_product
                                              : nullptr;
    Rewriter rewriter(module, *operation);
    Value* value = rule ? rule(*operation, rewriter) : nullptr;
    if (value && value->type == operation->result()->type) {
      value->name = operation->result()->name;
      operation->result()->replace_all_uses_with(value);
      block.erase(operation);
      changed = true;
    }
    operation = next;
  }
  return changed;
}

}  // namespace

Result<bool> normalize_layouts(Module& module, PassContext& context) {
  bool changed = false;
  for (auto& function : module.functions) changed = run(module, function->block) || changed;
  if (changed) RTX_TRY(eliminate_dead_values(module, context));  // what the rules replaced
  return changed;
}

}  // namespace rtx
