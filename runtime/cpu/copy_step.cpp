#include "runtime/cpu/copy_step.h"

namespace rtx::runtime::cpu {
namespace {

StridedCopy make_copy(const ConcreteType& type, const View& from, const std::vector<int64_t>& to_strides) {
  if (bit_width(type.dtype) >= 8) return {type.shape, from.strides, to_strides, bit_width(type.dtype) / 8};
  const int64_t bytes[] = {*packed_bytes(type.dtype, type.elements())}, strides[] = {1};
  return {bytes, strides, strides, 1};
}

}  // namespace

CopyStep::CopyStep(const ConcreteType& type, const View& from, Place to, const std::vector<int64_t>& to_strides)
    : copy_(make_copy(type, from, to_strides)), from_{from.buffer, from.offset * bit_width(type.dtype) / 8}, to_(to) {}

Result<void> CopyStep::run(const StepContext& context) {
  copy_.run(context.at(from_), context.at(to_), context.pool);
  return Ok{};
}

}  // namespace rtx::runtime::cpu
