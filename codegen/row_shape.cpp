#include "codegen/row_shape.h"

#include "codegen/emit/scalar_ops.h"
#include "codegen/plan_common.h"

namespace rtx::codegen {
namespace {

constexpr int warp_threads = 32, block_threads = 256;

}  // namespace

bool is_reduction(Op op) { return spec(op).family == OpFamily::reduction; }

bool is_row_op(Op op) {
  switch (op) {
    case Op::softmax:
    case Op::log_softmax:
    case Op::layer_norm:
    case Op::rms_norm:
    case Op::reduce_sum:
    case Op::reduce_mean:
    case Op::reduce_max:
    case Op::reduce_min:
    case Op::reduce_prod:
      return true;
    default:
      return false;
  }
}

bool RowShape::along(const Shape& shape) const { return inner.is(1) && !shape.empty() && length == shape.back(); }

bool RowShape::by_warp() const { return group == warp_threads; }

std::optional<RowShape> row_shape_of(const Operation& operation, const SymbolRanges& symbols) {
  const Shape& shape = operation.operand(0)->type.shape;
  size_t first = 0, last = shape.size();
  if (is_reduction(operation.op)) {
    const std::vector<int64_t>& axes = operation.attributes.integers("axes");
    if (axes.empty() || axes.back() - axes.front() + 1 != static_cast<int64_t>(axes.size())) return std::nullopt;
    first = static_cast<size_t>(axes.front());
    last = static_cast<size_t>(axes.back()) + 1;
  } else {
    first = static_cast<size_t>(operation.attributes.integer("axis"));
    if (!operation.is(Op::layer_norm) && !operation.is(Op::rms_norm)) last = first + 1;
  }
  RowShape rows{product(shape, 0, first), product(shape, first, last), product(shape, last, shape.size())};
  const int64_t longest = rows.length.upper_bound(symbols);
  rows.group = longest <= longest_warp_row ? warp_threads : block_threads;
  const int64_t each = longest / rows.group + (longest % rows.group != 0);
  rows.kept = each <= most_kept_elements ? static_cast<int>(each) : 0;
  return rows;
}

bool stays_in_row(const Value& value, bool along_row) {
  for (const Use& use : value.uses()) {
    const Operation& user = *use.user;
    if (user.is(Op::yield)) continue;
    if (!is_scalar_op(user.op) && !(user.is(Op::rope) && along_row && use.index == 0)) return false;
    if (user.result()->type.shape != value.type.shape || !stays_in_row(*user.result(), along_row)) return false;
  }
  return true;
}

int row_passes(const Operation& operation, const RowShape& shape) {
  if (shape.kept > 0 || is_reduction(operation.op)) return 1;
  return operation.is(Op::rms_norm) ? 2 : 3;
}

}  // namespace rtx::codegen
