// What the planners share.
#pragma once

#include <functional>

#include "codegen/emit/element_emitter.h"
#include "codegen/emit/kernel_writer.h"
#include "codegen/kernel_plan.h"

namespace rtx::codegen {

// A planner's refusal: E441, unsupported.
Diagnostic refuse(std::string_view kind, std::string_view reason);

// The only operation of the body beside `yield` for which `wanted` holds; null if there is none or more than one.
const Operation* find_only(const Block& body, bool (*wanted)(Op));

// A refusal unless every operation but `except` can be computed element by element, and each thread can store its
// elements of every result on its own: 4-bit elements share bytes.
Result<void> check_elementwise(std::string_view kind, const Block& body, const Operation* except,
                               bool allow_4_bit = false);
// The same for every operation but those for which `except` holds.
Result<void> check_elementwise_but(std::string_view kind, const Block& body, bool (*except)(Op));

// Bytes of a value in memory.
Dim byte_count(const Type& type);
// Every operand read once, every result written once. A table that is only gathered or sliced from counts as what is
// taken out of it.
Dim traffic_bytes(const Block& body);
// Elementwise operations of the body.
Dim elementwise_flops(const Block& body);

Dim product(const Shape& shape, size_t from, size_t to);

// Completes the launch: function name, text, scalars. The workspace and the counters of the launch, where there are
// any, become parameters of the kernel: `workspace` (unsigned char*), `counters` (unsigned int*).
void finish_launch(KernelPlan& plan, KernelWriter& writer, const Block& body);

// How a reduction holds and combines partial results.
struct Combination {
  DType dtype;          // of partial results: f32 (f64 for f64), i64 for integers
  std::string initial;  // over no elements
  std::string step;     // an expression of `a` and `b`
};
DType partial_dtype(DType operand);
Combination combination_of(KernelWriter& writer, Op reduction, DType operand);

// A value in the type of partial results as a register of `dtype`.
std::string from_partial(KernelWriter& writer, DType dtype, const std::string& value);

// Writes the statements that store `value` (a register) as element `index` of result `result`.
void store_result(KernelWriter& writer, size_t result, DType dtype, const std::string& index, const std::string& value);

// The work of several kernels in one launch: blocks [0, blocks[0]) do that of the first, the next ones that of the
// second, and so on. `emit(i, block)` writes it; `block` is the number of the block within it. Returns the grid.
Dim emit_side_by_side(KernelWriter& writer, const std::vector<Dim>& blocks,
                      const std::function<void(size_t, const std::string&)>& emit);

// One thread an element of a space of `count` elements: blocks of 256, `const int i = ...; if (i >= count) return;`.
// Returns the name of the index.
std::string begin_thread_per_element(KernelPlan& plan, KernelWriter& writer, const Dim& count);

}  // namespace rtx::codegen
