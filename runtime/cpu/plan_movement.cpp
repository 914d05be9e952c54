// Planners of the ops that move elements. Reshape, transpose, broadcast and slice become views; concat, pad and iota
// write their result. Elements of 4 bits have no addresses and are left to the evaluator.
#include <algorithm>

#include "base/text.h"
#include "ir/ops/loops.h"
#include "runtime/cpu/body_planner.h"
#include "runtime/cpu/copy_step.h"

namespace rtx::runtime::cpu {
namespace {

bool has_addresses(DType dtype) { return bit_width(dtype) >= 8; }

// Fills contiguous memory with one element.
class FillStep : public Step {
 public:
  FillStep(const ConcreteType& type, Place value, Place to) : type_(type), value_(value), to_(to) {}
  Result<void> run(const StepContext& context) override {
    const std::vector<int64_t> repeat(type_.shape.size(), 0);
    StridedCopy(type_.shape, repeat, strides_of(type_.shape), bit_width(type_.dtype) / 8)
        .run(context.at(value_), context.at(to_), context.pool);
    return Ok{};
  }

 private:
  ConcreteType type_;
  Place value_, to_;
};

// The index along an axis, seen as [outer, length, inner].
class IotaStep : public Step {
 public:
  IotaStep(const ConcreteType& type, size_t axis, Place to)
      : dtype_(type.dtype),
        length_(type.shape[axis]),
        inner_(extent(type.shape, axis + 1, type.shape.size())),
        outer_(extent(type.shape, 0, axis)),
        to_(to) {}

  Result<void> run(const StepContext& context) override {
    if (outer_ * length_ * inner_ == 0) return Ok{};
    const int64_t bytes = bit_width(dtype_) / 8;
    // One period is written element by element and then repeated.
    for (int64_t i = 0; i < length_ * inner_; ++i) {
      if (is_float(dtype_))
        store_f64(dtype_, context.at(to_), i, static_cast<double>(i / inner_));
      else
        store_i64(dtype_, context.at(to_), i, i / inner_);
    }
    if (outer_ == 1) return Ok{};
    const int64_t shape[] = {outer_ - 1, length_ * inner_}, from[] = {0, 1}, to[] = {length_ * inner_, 1};
    StridedCopy(shape, from, to, bytes).run(context.at(to_), context.at(to_) + length_ * inner_ * bytes, context.pool);
    return Ok{};
  }

 private:
  DType dtype_;
  int64_t length_, inner_, outer_;
  Place to_;
};

}  // namespace

Result<bool> plan_reshape(BodyPlanner& planner, const Operation& operation) {
  const Value* x = operation.operand(0);
  if (planner.type(x).elements() != planner.type(operation.result()).elements())
    return false;  // the evaluator says why
  RTX_ASSIGN(Place place, planner.contiguous(x));
  const View view = planner.view(x);
  planner.alias(operation.result(), {place.buffer, view.offset, strides_of(planner.type(operation.result()).shape)});
  return true;
}

Result<bool> plan_transpose(BodyPlanner& planner, const Operation& operation) {
  const Value* x = operation.operand(0);
  if (!has_addresses(planner.type(x).dtype)) return false;
  View view = planner.view(x);
  const std::vector<int64_t> strides = view.strides;
  const std::vector<int64_t>& perm = operation.attributes.integers("perm");
  for (size_t i = 0; i < perm.size(); ++i) view.strides[i] = strides[static_cast<size_t>(perm[i])];
  planner.alias(operation.result(), std::move(view));
  return true;
}

Result<bool> plan_broadcast(BodyPlanner& planner, const Operation& operation) {
  const Value* x = operation.operand(0);
  const std::vector<int64_t>&from = planner.type(x).shape, &to = planner.type(operation.result()).shape;
  if (!has_addresses(planner.type(x).dtype)) return false;
  View view = planner.view(x);
  std::vector<int64_t> strides(to.size(), 0);
  const size_t missing = to.size() - from.size();
  for (size_t i = 0; i < from.size(); ++i) {
    if (from[i] != 1 && from[i] != to[missing + i]) return false;
    if (from[i] != 1) strides[missing + i] = view.strides[i];
  }
  view.strides = std::move(strides);
  planner.alias(operation.result(), std::move(view));
  return true;
}

Result<bool> plan_slice(BodyPlanner& planner, const Operation& operation) {
  const Value* x = operation.operand(0);
  if (!has_addresses(planner.type(x).dtype)) return false;
  const std::vector<int64_t>&from = planner.type(x).shape, &to = planner.type(operation.result()).shape;
  const std::vector<int64_t>& steps = operation.attributes.integers("steps");
  RTX_ASSIGN(std::vector<int64_t> starts, planner.evaluate(operation.attributes.dims("starts")));
  View view = planner.view(x);
  if (planner.type(operation.result()).elements() > 0) {
    for (size_t i = 0; i < from.size(); ++i) {
      // __int128: the product of a step and a size may leave int64.
      const __int128 last = starts[i] + static_cast<__int128>(to[i] - 1) * steps[i];
      if (starts[i] < 0 || starts[i] >= from[i] || last < 0 || last >= from[i]) {
        return make_error(ErrorKind::invalid, "slice_c4", concat("slice: axis ", i, " is read outside its bounds"))
            .with_expected(concat("indices in [0, ", from[i], ")"))
            .with_got(concat("start ", starts[i], ", size ", to[i], ", step ", steps[i]));
      }
      view.offset += starts[i] * view.strides[i];
      view.strides[i] = to[i] == 1 ? 0 : view.strides[i] * steps[i];
    }
  }
  planner.alias(operation.result(), std::move(view));
  return true;
}

Result<bool> plan_concat(BodyPlanner& planner, const Operation& operation) {
  const ConcreteType type = planner.type(operation.result());
  if (!has_addresses(type.dtype)) return false;
  const size_t axis = static_cast<size_t>(operation.attributes.integer("axis"));
  const std::vector<int64_t> strides = strides_of(type.shape);
  RTX_ASSIGN(Place to, planner.define(operation.result()));
  for (const Value* part : operation.operands()) {
    const ConcreteType part_type = planner.type(part);
    planner.add<CopyStep>(part_type, planner.view(part), to, strides);
    to.offset_bytes += part_type.shape[axis] * strides[axis] * bit_width(type.dtype) / 8;
  }
  return true;
}

Result<bool> plan_pad(BodyPlanner& planner, const Operation& operation) {
  const Value* x = operation.operand(0);
  const ConcreteType type = planner.type(operation.result());
  if (!has_addresses(type.dtype)) return false;
  RTX_ASSIGN(std::vector<int64_t> low, planner.evaluate(operation.attributes.dims("low")));
  const View value = planner.view(operation.operand(1));
  const int64_t bytes = bit_width(type.dtype) / 8;
  RTX_ASSIGN(Place to, planner.define(operation.result()));
  planner.add<FillStep>(type, Place{value.buffer, value.offset * bytes}, to);
  // What remains of x: negative amounts crop.
  ConcreteType inside = planner.type(x);
  View from = planner.view(x);
  const std::vector<int64_t> strides = strides_of(type.shape);
  for (size_t i = 0; i < low.size(); ++i) {
    const int64_t length = inside.shape[i];
    if (low[i] <= -length || low[i] >= type.shape[i]) {
      inside.shape[i] = 0;  // all cropped; no further arithmetic on what may be huge
      continue;
    }
    const int64_t begin = std::max<int64_t>(0, -low[i]), end = std::min(length, type.shape[i] - low[i]);
    inside.shape[i] = std::max<int64_t>(0, end - begin);
    from.offset += begin * from.strides[i];
    to.offset_bytes += (begin + low[i]) * strides[i] * bytes;
  }
  planner.add<CopyStep>(inside, from, to, strides);
  return true;
}

Result<bool> plan_iota(BodyPlanner& planner, const Operation& operation) {
  const ConcreteType type = planner.type(operation.result());
  if (!has_addresses(type.dtype)) return false;
  RTX_ASSIGN(Place to, planner.define(operation.result()));
  planner.add<IotaStep>(type, static_cast<size_t>(operation.attributes.integer("axis")), to);
  return true;
}

}  // namespace rtx::runtime::cpu
