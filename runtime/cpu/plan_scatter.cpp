// Planners of the scatters without a reduction: a copy of the data, then each update to its place, one after the other,
// so that of several for one place the last one stays. A negative index counts from the end; what is then outside is
// dropped. Reductions run on the evaluator.
#include <cstring>

#include "ir/ops/loops.h"
#include "runtime/cpu/body_planner.h"
#include "runtime/cpu/copy_step.h"

namespace rtx::runtime::cpu {
namespace {

// The index counted from the front; -1 if it is outside.
int64_t wrapped(int64_t index, int64_t length) {
  if (index < 0) index += length;
  return index >= 0 && index < length ? index : -1;
}

struct ScatterPlaces {
  Place indices, updates, to;
};

// Tuples of indices [count, depth], updates [count, block_bytes].
class ScatterNdStep : public Step {
 public:
  ScatterNdStep(const ConcreteType& data, const ConcreteType& indices, ScatterPlaces places)
      : index_dtype_(indices.dtype), places_(places) {
    const size_t depth = static_cast<size_t>(indices.shape.back());
    const int64_t element_bytes = bit_width(data.dtype) / 8;
    const std::vector<int64_t> strides = strides_of(data.shape);
    lengths_.assign(data.shape.begin(), data.shape.begin() + static_cast<int64_t>(depth));
    for (size_t k = 0; k < depth; ++k) stride_bytes_.push_back(strides[k] * element_bytes);
    count_ = extent(indices.shape, 0, indices.shape.size() - 1);
    block_bytes_ = extent(data.shape, depth, data.shape.size()) * element_bytes;
  }

  Result<void> run(const StepContext& context) override {
    const std::byte *indices = context.at(places_.indices), *updates = context.at(places_.updates);
    std::byte* to = context.at(places_.to);
    const int64_t depth = static_cast<int64_t>(lengths_.size());
    for (int64_t i = 0; block_bytes_ > 0 && i < count_; ++i) {
      int64_t at = 0;
      bool inside = true;
      for (int64_t k = 0; inside && k < depth; ++k) {
        const size_t axis = static_cast<size_t>(k);
        const int64_t index = wrapped(load_i64(index_dtype_, indices, i * depth + k), lengths_[axis]);
        inside = index >= 0;
        at += index * stride_bytes_[axis];
      }
      if (inside) std::memcpy(to + at, updates + i * block_bytes_, static_cast<size_t>(block_bytes_));
    }
    return Ok{};
  }

 private:
  DType index_dtype_;
  std::vector<int64_t> lengths_, stride_bytes_;  // of the indexed axes
  int64_t count_ = 0, block_bytes_ = 0;
  ScatterPlaces places_;
};

class ScatterElementsStep : public Step {
 public:
  ScatterElementsStep(const ConcreteType& data, const ConcreteType& indices, size_t axis, ScatterPlaces places)
      : index_dtype_(indices.dtype),
        shape_(indices.shape),
        data_shape_(data.shape),
        strides_(strides_of(data.shape)),
        axis_(axis),
        element_bytes_(bit_width(data.dtype) / 8),
        places_(places) {}

  Result<void> run(const StepContext& context) override {
    const std::byte *indices = context.at(places_.indices), *updates = context.at(places_.updates);
    std::byte* to = context.at(places_.to);
    int64_t i = -1;
    for_each_index(shape_, [&](const std::vector<int64_t>& index) {
      ++i;
      int64_t at = 0;
      for (size_t k = 0; k < index.size(); ++k) {
        const int64_t place = k == axis_ ? wrapped(load_i64(index_dtype_, indices, i), data_shape_[k]) : index[k];
        if (place < 0 || place >= data_shape_[k]) return;
        at += place * strides_[k];
      }
      std::memcpy(to + at * element_bytes_, updates + i * element_bytes_, static_cast<size_t>(element_bytes_));
    });
    return Ok{};
  }

 private:
  DType index_dtype_;
  std::vector<int64_t> shape_, data_shape_, strides_;
  size_t axis_;
  int64_t element_bytes_;
  ScatterPlaces places_;
};

bool has_step(BodyPlanner& planner, const Operation& operation) {
  return operation.attributes.string("reduction") == "none" && bit_width(planner.type(operation.operand(0)).dtype) >= 8;
}

// With a copy of the data as the result.
Result<ScatterPlaces> places_of(BodyPlanner& planner, const Operation& operation) {
  ScatterPlaces places;
  RTX_ASSIGN(places.indices, planner.contiguous(operation.operand(1)));
  RTX_ASSIGN(places.updates, planner.contiguous(operation.operand(2)));
  RTX_ASSIGN(places.to, planner.define(operation.result()));
  const Value* data = operation.operand(0);
  planner.add<CopyStep>(planner.type(data), planner.view(data), places.to, strides_of(planner.type(data).shape));
  return places;
}

}  // namespace

Result<bool> plan_scatter_nd(BodyPlanner& planner, const Operation& operation) {
  if (!has_step(planner, operation)) return false;
  RTX_ASSIGN(ScatterPlaces places, places_of(planner, operation));
  planner.add<ScatterNdStep>(planner.type(operation.operand(0)), planner.type(operation.operand(1)), places);
  return true;
}

Result<bool> plan_scatter_elements(BodyPlanner& planner, const Operation& operation) {
  if (!has_step(planner, operation)) return false;
  RTX_ASSIGN(ScatterPlaces places, places_of(planner, operation));
  planner.add<ScatterElementsStep>(planner.type(operation.operand(0)), planner.type(operation.operand(1)),
                                   static_cast<size_t>(operation.attributes.integer("axis")), places);
  return true;
}

}  // namespace rtx::runtime::cpu
