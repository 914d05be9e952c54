#include "runtime/cpu/body_planner.h"

namespace rtx::runtime::cpu {
namespace {

constexpr int64_t bytes_at_once = 16384;

class UnpackBitsStep : public Step {
 public:
  UnpackBitsStep(int64_t bytes, int bits, Place from, Place to) : bytes_(bytes), bits_(bits), from_(from), to_(to) {}

  Result<void> run(const StepContext& context) override {
    const auto* from = reinterpret_cast<const uint8_t*>(context.at(from_));
    auto* to = reinterpret_cast<uint8_t*>(context.at(to_));
    context.pool.run_ranges(bytes_, bytes_at_once, [&](int64_t begin, int64_t end) {
      if (bits_ == 4) {
        for (int64_t i = begin; i < end; ++i) {
          to[2 * i] = from[i] & 15;
          to[2 * i + 1] = from[i] >> 4;
        }
      } else {
        for (int64_t i = begin; i < end; ++i) {
          for (int field = 0; field < 4; ++field) to[4 * i + field] = from[i] >> (2 * field) & 3;
        }
      }
    });
    return Ok{};
  }

 private:
  int64_t bytes_;
  int bits_;
  Place from_, to_;
};

}  // namespace

Result<bool> plan_unpack_bits(BodyPlanner& planner, const Operation& operation) {
  RTX_ASSIGN(Place from, planner.contiguous(operation.operand(0)));
  RTX_ASSIGN(Place to, planner.define(operation.result()));
  planner.add<UnpackBitsStep>(planner.type(operation.operand(0)).elements(),
                              static_cast<int>(operation.attributes.integer("bits")), from, to);
  return true;
}

}  // namespace rtx::runtime::cpu
