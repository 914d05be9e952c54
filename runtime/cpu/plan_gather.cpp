// Planner of gather: blocks of contiguous elements, copied by index.
#include <algorithm>
#include <cstring>

#include "ir/ops/loops.h"
#include "runtime/cpu/body_planner.h"

namespace rtx::runtime::cpu {
namespace {

// data [outer, length, inner], indices [count], result [outer, count, inner].
class GatherStep : public Step {
 public:
  GatherStep(const ConcreteType& data_type, const ConcreteType& index_type, size_t axis, Place data, Place indices, Place to)
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
    const int64_t grain = std::max<int64_t>(1, (32 << 10) / inner_bytes_);
    context.pool.run_ranges(outer_ * count_, grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        int64_t index = load_i64(index_dtype_, indices, i % count_);
        if (index < 0) index += length_;
        index = std::clamp<int64_t>(index, 0, length_ - 1);
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

}  // namespace

Result<bool> plan_gather(BodyPlanner& planner, const Operation& operation) {
  const Value *data = operation.operand(0), *indices = operation.operand(1);
  if (bit_width(planner.type(data).dtype) < 8) return false;
  RTX_ASSIGN(Place from, planner.contiguous(data));
  RTX_ASSIGN(Place which, planner.contiguous(indices));
  RTX_ASSIGN(Place to, planner.define(operation.result()));
  planner.add<GatherStep>(planner.type(data), planner.type(indices),
                          static_cast<size_t>(operation.attributes.integer("axis")), from, which, to);
  return true;
}

}  // namespace rtx::runtime::cpu
