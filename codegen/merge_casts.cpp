#include "codegen/merge_casts.h"

#include <algorithm>

#include "codegen/plan_kernel.h"

namespace rtx::codegen {
namespace {

// The results of a row or pointwise kernel; more are not worth their parameters.
constexpr size_t most_results = 4;

// The cast of a fusion that does nothing else.
const Operation* lone_cast(const Operation& fusion) {
  if (!fusion.is(Op::fusion) || fusion.body()->size() != 2 || fusion.body()->argument_count() != 1) return nullptr;
  const Operation* cast = fusion.body()->operations().front().get();
  const bool floats =
      cast->is(Op::cast) && is_float(cast->result()->type.dtype) && is_float(cast->operand(0)->type.dtype);
  return floats && cast->result() == fusion.body()->terminator()->operand(0) ? cast : nullptr;
}

// A product without an epilogue is a call of a library.
bool may_take(const Operation& producer) {
  return producer.is(Op::fusion) && producer.result_count() < most_results &&
         !(producer.attributes.string("kind") == "contract" && producer.body()->size() == 2);
}

class CastMerger {
 public:
  CastMerger(Block& block, const PlanContext& context) : block_(block), context_(context) {}

  bool move(Operation& fusion, bool to_half) {
    const Operation* cast = lone_cast(fusion);
    if (!cast || (to_half && bit_width(cast->result()->type.dtype) != 16)) return false;
    Value* value = fusion.operand(0);
    bool alone = value->has_one_use();
    Operation* reshape = value->def() && value->def()->is(Op::reshape) ? value->def() : nullptr;
    if (reshape) {
      value = reshape->operand(0);
      alone = alone && value->has_one_use();
    }
    Operation* producer = value->def();
    if (!producer || !may_take(*producer)) return false;

    Operation* joined = join(*producer, *cast, value->index(), alone);
    if (!plan_kernel(producer->attributes.string("kind"), *joined->body(), context_)) {
      block_.erase(joined);
      return false;
    }
    replace(*producer, *joined, fusion, reshape, value->index(), alone);
    return true;
  }

 private:
  // The producer with the cast of its result `index` as a further result, or in its place.
  Operation* join(const Operation& producer, const Operation& cast, size_t index, bool alone) {
    std::vector<Type> types = producer.result_types();
    const Type type{cast.result()->type.dtype, types[index].shape};
    alone ? void(types[index] = type) : types.push_back(type);
    Operation* joined = block_.insert(block_.next(const_cast<Operation*>(&producer)), Op::fusion, producer.operands(),
                                      producer.attributes, std::move(types));
    Block& body = *joined->body();
    std::vector<Value*> arguments;
    for (const Value* operand : producer.operands()) arguments.push_back(body.add_argument(operand->type));
    std::vector<Value*> results = inline_block(*producer.body(), body, nullptr, arguments);
    Value* result = body.insert(nullptr, Op::cast, {results[index]}, cast.attributes, {type})->result();
    alone ? void(results[index] = result) : results.push_back(result);
    body.insert(nullptr, Op::yield, std::move(results), {}, {});
    joined->origins = producer.origins;
    return joined;
  }

  void replace(Operation& producer, Operation& joined, Operation& fusion, Operation* reshape, size_t index,
               bool alone) {
    const size_t added = alone ? index : producer.result_count();
    Value* result = joined.result(added);
    result->name = fusion.result()->name;
    for (const std::string& origin : fusion.origins) {
      if (std::find(joined.origins.begin(), joined.origins.end(), origin) == joined.origins.end())
        joined.origins.push_back(origin);
    }
    if (reshape) {
      result = block_
                   .insert(&fusion, Op::reshape, {result}, reshape->attributes,
                           {Type{result->type.dtype, reshape->result()->type.shape}})
                   ->result();
    }
    fusion.result()->replace_all_uses_with(result);
    block_.erase(&fusion);
    if (reshape && reshape->unused()) block_.erase(reshape);
    for (size_t i = 0; i < producer.result_count(); ++i) {
      if (alone && i == index) continue;
      joined.result(i)->name = producer.result(i)->name;
      producer.result(i)->replace_all_uses_with(joined.result(i));
    }
    block_.erase(&producer);
  }

  Block& block_;
  const PlanContext& context_;
};

}  // namespace

bool merge_casts(Block& block, const PlanContext& context, bool to_half) {
  CastMerger merger(block, context);
  bool changed = false;
  for (Operation* operation = block.operations().front().get(); operation;) {
    Operation* next = block.next(operation);
    if (operation->is(Op::fusion)) changed = merger.move(*operation, to_half) || changed;
    operation = next;
  }
  return changed;
}

}  // namespace rtx::codegen
