// Planners of the gathers: blocks of contiguous elements, copied by index. A negative index counts from the end; what
// is then still outside is clamped. From an axis of length 0 the result is zeros.
#include <algorithm>
#include <cstring>

#include "ir/ops/loops.h"
#include "runtime/cpu/body_planner.h"

namespace rtx::runtime::cpu {
namespace {

constexpr int64_t task_bytes = 32 << 10;

int64_t wrap_and_clamp(int64_t index, int64_t length) {
  if (index < 0) index += length;
  return std::clamp<int64_t>(index, 0, length - 1);
}

// data [outer, length, inner], indices [count], result [outer, count, inner].
class GatherStep : public Step {
 public:
  GatherStep(const ConcreteType& data_type, const ConcreteType& index_type, size_t axis, Place data, Place indices,
             Place to)
      : index_dtype_(index_type.dtype),
        outer_(extent(data_type.shape, 0, axis)),
        length_(data_type.shape[axis]),
        inner_bytes_(extent(data_type.shape, axis + 1, data_type.shape.size()) * bit_width(data_type.dtype) / 8),
        count_(index_type.elements()),
        data_(data),
        indices_(indices),
        to_(to) {}

  Result<void> run(const StepContext& context) override {
    const std::byte* data = context.at(data_);
    const std::byte* indices = context.at(indices_);
    std::byte* to = context.at(to_);
    if (outer_ * count_ * inner_bytes_ == 0) return Ok{};
    if (length_ == 0) {
      std::memset(to, 0, static_cast<size_t>(outer_ * count_ * inner_bytes_));
      return Ok{};
    }
    const int64_t grain = std::max<int64_t>(1, task_bytes / inner_bytes_);
    context.pool.run_ranges(outer_ * count_, grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t index = wrap_and_clamp(load_i64(index_dtype_, indices, i % count_), length_);
        std::memcpy(to + i * inner_bytes_, data + (i / count_ * length_ + index) * inner_bytes_,
                    static_cast<size_t>(inner_bytes_));
      }
    });
    return Ok{};
  }

 private:
  DType index_dtype_;
  int64_t outer_, length_, inner_bytes_, count_;
  Place data_, indices_, to_;
};

// Each tuple of indices picks a block of data.
class GatherNdStep : public Step {
 public:
  GatherNdStep(const ConcreteType& data_type, const ConcreteType& index_type, size_t batch, Place data, Place indices,
               Place to)
      : index_dtype_(index_type.dtype),
        element_bytes_(bit_width(data_type.dtype) / 8),
        data_(data),
        indices_(indices),
        to_(to) {
    const size_t depth = static_cast<size_t>(index_type.shape.back());
    const std::vector<int64_t> strides = strides_of(data_type.shape);
    lengths_.assign(data_type.shape.begin() + static_cast<int64_t>(batch),
                    data_type.shape.begin() + static_cast<int64_t>(batch + depth));
    strides_.assign(strides.begin() + static_cast<int64_t>(batch),
                    strides.begin() + static_cast<int64_t>(batch + depth));
    tuples_ = extent(index_type.shape, batch, index_type.shape.size() - 1);
    count_ = extent(index_type.shape, 0, batch) * tuples_;
    batch_elems_ = extent(data_type.shape, batch, data_type.shape.size());
    inner_ = extent(data_type.shape, batch + depth, data_type.shape.size());
  }

  Result<void> run(const StepContext& context) override {
    const std::byte* data = context.at(data_);
    const std::byte* indices = context.at(indices_);
    std::byte* to = context.at(to_);
    const int64_t block_bytes = inner_ * element_bytes_, depth = static_cast<int64_t>(lengths_.size());
    if (count_ * block_bytes == 0) return Ok{};
    if (batch_elems_ == 0) {
      std::memset(to, 0, static_cast<size_t>(count_ * block_bytes));
      return Ok{};
    }
    const int64_t grain = std::max<int64_t>(1, task_bytes / (block_bytes + 8 * depth));
    context.pool.run_ranges(count_, grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        int64_t at = i / tuples_ * batch_elems_;
        for (int64_t k = 0; k < depth; ++k) {
          const size_t axis = static_cast<size_t>(k);
          at += wrap_and_clamp(load_i64(index_dtype_, indices, i * depth + k), lengths_[axis]) * strides_[axis];
        }
        std::memcpy(to + i * block_bytes, data + at * element_bytes_, static_cast<size_t>(block_bytes));
      }
    });
    return Ok{};
  }

 private:
  DType index_dtype_;
  std::vector<int64_t> lengths_, strides_;  // of the indexed axes
  int64_t element_bytes_, tuples_ = 0, count_ = 0, batch_elems_ = 0, inner_ = 0;
  Place data_, indices_, to_;
};

// result[i, j, k] = data[i, indices[i, j, k], k] for the three parts of the shape around the axis, of which the outer
// axes of data may be longer than those of indices.
class GatherElementsStep : public Step {
 public:
  GatherElementsStep(const ConcreteType& data_type, const ConcreteType& index_type, size_t axis, Place data,
                     Place indices, Place to)
      : index_dtype_(index_type.dtype),
        shape_(index_type.shape),
        data_strides_(strides_of(data_type.shape)),
        axis_(axis),
        length_(data_type.shape[axis]),
        data_elems_(data_type.elements()),
        element_bytes_(bit_width(data_type.dtype) / 8),
        data_(data),
        indices_(indices),
        to_(to) {}

  Result<void> run(const StepContext& context) override {
    const std::byte* data = context.at(data_);
    const std::byte* indices = context.at(indices_);
    std::byte* to = context.at(to_);
    const int64_t count = ConcreteType{index_dtype_, shape_}.elements();
    if (data_elems_ == 0) {
      if (count > 0) std::memset(to, 0, static_cast<size_t>(count * element_bytes_));
      return Ok{};
    }
    context.pool.run_ranges(count, 2048, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        int64_t rest = i, at = wrap_and_clamp(load_i64(index_dtype_, indices, i), length_) * data_strides_[axis_];
        for (size_t k = shape_.size(); k-- > 0;) {
          if (k != axis_) at += rest % shape_[k] * data_strides_[k];
          rest /= shape_[k];
        }
        std::memcpy(to + i * element_bytes_, data + at * element_bytes_, static_cast<size_t>(element_bytes_));
      }
    });
    return Ok{};
  }

 private:
  DType index_dtype_;
  std::vector<int64_t> shape_, data_strides_;
  size_t axis_;
  int64_t length_, data_elems_, element_bytes_;
  Place data_, indices_, to_;
};

// The places of data and indices, contiguous, and of the result.
struct GatherPlaces {
  Place data, indices, to;
};
Result<GatherPlaces> places_of(BodyPlanner& planner, const Operation& operation) {
  GatherPlaces places;
  RTX_ASSIGN(places.data, planner.contiguous(operation.operand(0)));
  RTX_ASSIGN(places.indices, planner.contiguous(operation.operand(1)));
  RTX_ASSIGN(places.to, planner.define(operation.result()));
  return places;
}

bool has_addresses(BodyPlanner& planner, const Operation& operation) {
  return bit_width(planner.type(operation.operand(0)).dtype) >= 8;
}

}  // namespace

Result<bool> plan_gather(BodyPlanner& planner, const Operation& operation) {
  if (!has_addresses(planner, operation)) return false;
  RTX_ASSIGN(GatherPlaces places, places_of(planner, operation));
  planner.add<GatherStep>(planner.type(operation.operand(0)), planner.type(operation.operand(1)),
                          static_cast<size_t>(operation.attributes.integer("axis")), places.data, places.indices,
                          places.to);
  return true;
}

Result<bool> plan_gather_nd(BodyPlanner& planner, const Operation& operation) {
  if (!has_addresses(planner, operation)) return false;
  RTX_ASSIGN(GatherPlaces places, places_of(planner, operation));
  planner.add<GatherNdStep>(planner.type(operation.operand(0)), planner.type(operation.operand(1)),
                            static_cast<size_t>(operation.attributes.integer("batch_dims")), places.data,
                            places.indices, places.to);
  return true;
}

Result<bool> plan_gather_elements(BodyPlanner& planner, const Operation& operation) {
  const ConcreteType &data = planner.type(operation.operand(0)), &indices = planner.type(operation.operand(1));
  const size_t axis = static_cast<size_t>(operation.attributes.integer("axis"));
  if (!has_addresses(planner, operation)) return false;
  for (size_t i = 0; i < data.shape.size(); ++i) {
    if (i != axis && indices.shape[i] > data.shape[i]) return false;  // only the evaluator's clamping defines that
  }
  RTX_ASSIGN(GatherPlaces places, places_of(planner, operation));
  planner.add<GatherElementsStep>(data, indices, axis, places.data, places.indices, places.to);
  return true;
}

}  // namespace rtx::runtime::cpu
