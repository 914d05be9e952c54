#include "ir/expand.h"

#include <iterator>

namespace rtx {

Result<void> expand(Operation& operation) {
  Builder builder(*operation.block(), &operation);
  builder.origins = operation.origins;
  RTX_ASSIGN(Value * value, operation.spec().expand(operation, builder));
  if (value->def()) value->name = operation.result()->name;
  operation.result()->replace_all_uses_with(value);
  operation.block()->erase(&operation);
  return Ok{};
}

size_t count_core_operations(const Block& block) {
  Block copy;
  std::vector<Value*> arguments;
  for (size_t i = 0; i < block.argument_count(); ++i) arguments.push_back(copy.add_argument(block.argument(i)->type));
  copy.insert(nullptr, Op::yield, inline_block(block, copy, nullptr, arguments), {}, {});
  size_t count = 0;
  for (Operation* operation = copy.operations().front().get(); operation;) {
    Operation* before = operation;
    // What an expansion makes stands before it and may hold composites again.
    if (operation->spec().expand) {
      auto place = copy.operations().begin();
      while (place->get() != operation) ++place;
      Operation* previous = place == copy.operations().begin() ? nullptr : std::prev(place)->get();
      if (expand(*operation)) {
        operation = previous ? copy.next(previous) : copy.operations().front().get();
        continue;
      }
    }
    const bool counts =
        !before->is(Op::constant) && !before->is(Op::weight) && !before->is(Op::reshape) && !before->is(Op::yield);
    count += counts ? 1 : 0;
    operation = copy.next(before);
  }
  return count;
}

}  // namespace rtx
