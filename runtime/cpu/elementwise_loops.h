// The loops of elementwise operations over lanes (runtime/cpu/lanes.h), for one instruction set each.
#pragma once

#include <cstdint>

#include "ir/op.h"
#include "runtime/cpu/isa.h"
#include "runtime/cpu/lanes.h"

namespace rtx::runtime::cpu {

// out[i] = f(in[0][i], in[1][i] ...) for i < n. `out` may be one of the inputs.
using LaneLoop = void (*)(int64_t n, const void* const* in, void* out);

// Widens elements first, first + stride, ... of packed data into `lanes`. Strides other than 0 and 1 need a bit width
// of 8 or more.
using LoadLoop = void (*)(const void* data, int64_t first, int64_t stride, int64_t n, void* lanes);

// Stores lanes that are exact in the dtype as elements first, first + 1, ...; for 4-bit dtypes `first` is even.
using StoreLoop = void (*)(const void* lanes, void* data, int64_t first, int64_t n);

struct ElementwiseLoops {
  // The loop of an op over operands of one lane; the condition of `select` and the results of comparisons are bools.
  // `variant` distinguishes forms by attribute (loop_variant). Null: there is none.
  LaneLoop (*find)(Op op, int variant, Lane lane);
  // From a lane to the lane of `to`, rounded to `to`.
  LaneLoop (*cast)(Lane from, DType to, bool saturate);
  // Rounds what a loop of find() left in the lane to the dtype; null where the lane is the dtype.
  LaneLoop (*round)(DType dtype);
  LoadLoop (*load)(DType dtype);
  StoreLoop (*store)(DType dtype);
};

const ElementwiseLoops& elementwise_loops(Isa isa);

// 1 for mod truncated and gelu by tanh, else 0.
int loop_variant(Op op, const AttributeList& attributes);

}  // namespace rtx::runtime::cpu
