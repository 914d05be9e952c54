// ElementwiseStep: a graph of elementwise operations of one shape, evaluated block by block: every intermediate value
// stays in the first-level cache.
#pragma once

#include <vector>

#include "runtime/cpu/elementwise_loops.h"
#include "runtime/cpu/step.h"

namespace rtx::runtime::cpu {

class ElementwiseStep : public Step {
 public:
  ElementwiseStep(std::vector<int64_t> shape, Isa isa);

  // Each returns the register that holds the value. `strides` are in the step's shape, 0 where the value is repeated.
  int add_load(DType dtype, const View& view);
  // `round` may be null.
  int add_operation(LaneLoop loop, LaneLoop round, std::vector<int> in, Lane out);
  // To contiguous memory.
  void add_store(int reg, DType dtype, Place to);

  Result<void> run(const StepContext& context) override;

 private:
  struct Load {
    int reg, buffer;
    int64_t offset;
    // The axes of the view, outermost first, merged where they can be.
    std::vector<int64_t> lengths, strides;
    LoadLoop load;
    int64_t direct_bytes;  // size of an element if blocks are used where they lie, else 0
    bool constant;         // one element for all
  };
  struct Operation {
    LaneLoop loop, round;
    std::vector<int> in;
    int out;
  };
  struct Store {
    int reg;
    Place to;
    StoreLoop store;
    int64_t direct_bytes;
  };

  int add_register(Lane lane);
  void run_block(const StepContext& context, int64_t begin, int64_t n, std::byte* memory,
                 std::vector<std::byte*>& at) const;
  static void load_block(const Load& load, const std::byte* data, int64_t begin, int64_t n, std::byte* out,
                         int64_t lane);

  std::vector<int64_t> shape_;
  int64_t size_;
  const ElementwiseLoops& loops_;
  std::vector<Lane> registers_;
  std::vector<Load> loads_;
  std::vector<Operation> operations_;
  std::vector<Store> stores_;
};

}  // namespace rtx::runtime::cpu
