#include "runtime/cpu/elementwise_step.h"

#include <algorithm>

namespace rtx::runtime::cpu {
namespace {

constexpr int64_t block_elems = 1024;
constexpr int64_t register_bytes = block_elems * 8;
constexpr int64_t task_elems = 8 * block_elems;

}  // namespace

ElementwiseStep::ElementwiseStep(std::vector<int64_t> shape, Isa isa)
    : shape_(std::move(shape)), size_(ConcreteType{DType::f32, shape_}.elements()), loops_(elementwise_loops(isa)) {}

int ElementwiseStep::add_register(Lane lane) {
  registers_.push_back(lane);
  return static_cast<int>(registers_.size()) - 1;
}

int ElementwiseStep::add_load(DType dtype, const View& view) {
  Load load = {add_register(lane_of(dtype)), view.buffer, view.offset, {}, {}, loops_.load(dtype), 0, false};
  for (size_t i = 0; i < shape_.size(); ++i) {
    if (shape_[i] == 1) continue;
    if (!load.lengths.empty() && load.strides.back() == view.strides[i] * shape_[i]) {
      load.lengths.back() *= shape_[i];
      load.strides.back() = view.strides[i];
    } else {
      load.lengths.push_back(shape_[i]);
      load.strides.push_back(view.strides[i]);
    }
  }
  if (load.lengths.empty()) {
    load.lengths.push_back(1);
    load.strides.push_back(0);
  }
  load.constant = load.lengths.size() == 1 && load.strides[0] == 0;
  const bool contiguous = load.lengths.size() == 1 && load.strides[0] == 1;
  if (contiguous && is_lane_form(dtype)) load.direct_bytes = bit_width(dtype) / 8;
  loads_.push_back(std::move(load));
  return loads_.back().reg;
}

int ElementwiseStep::add_operation(LaneLoop loop, LaneLoop round, std::vector<int> in, Lane out) {
  operations_.push_back({loop, round, std::move(in), add_register(out)});
  return operations_.back().out;
}

void ElementwiseStep::add_store(int reg, DType dtype, Place to) {
  Store store = {reg, to, loops_.store(dtype), 0};
  // The operation writes straight to memory, unless another store has taken the register, or it is a load's.
  const bool is_load = std::any_of(loads_.begin(), loads_.end(), [&](const Load& load) { return load.reg == reg; });
  const bool taken = std::any_of(stores_.begin(), stores_.end(), [&](const Store& other) { return other.reg == reg; });
  if (is_lane_form(dtype) && !is_load && !taken) store.direct_bytes = bit_width(dtype) / 8;
  stores_.push_back(store);
}

void ElementwiseStep::load_block(const Load& load, const std::byte* data, int64_t begin, int64_t n, std::byte* out,
                                 int64_t lane) {
  // The index of `begin` in each axis, then row by row.
  int64_t index[64];
  int64_t rest = begin, first = load.offset;
  const size_t rank = load.lengths.size();
  for (size_t i = rank; i-- > 0;) {
    index[i] = rest % load.lengths[i];
    rest /= load.lengths[i];
    first += index[i] * load.strides[i];
  }
  const int64_t length = load.lengths[rank - 1], stride = load.strides[rank - 1];
  while (n > 0) {
    const int64_t run = std::min(n, length - index[rank - 1]);
    load.load(data, first, stride, run, out);
    n -= run;
    out += run * lane;
    if (n == 0) return;
    first -= index[rank - 1] * stride;
    index[rank - 1] = 0;
    for (size_t i = rank - 1; i-- > 0;) {
      first += load.strides[i];
      if (++index[i] < load.lengths[i]) break;
      first -= load.strides[i] * load.lengths[i];
      index[i] = 0;
    }
  }
}

void ElementwiseStep::run_block(const StepContext& context, int64_t begin, int64_t n, std::byte* memory,
                                std::vector<std::byte*>& at) const {
  for (size_t i = 0; i < registers_.size(); ++i) at[i] = memory + static_cast<int64_t>(i) * register_bytes;
  for (const Store& store : stores_) {
    if (store.direct_bytes > 0) at[store.reg] = context.at(store.to) + begin * store.direct_bytes;
  }
  for (const Load& load : loads_) {
    std::byte* data = context.buffers[load.buffer];
    if (load.direct_bytes > 0)
      at[load.reg] = data + (load.offset + begin) * load.direct_bytes;
    else if (!load.constant)
      load_block(load, data, begin, n, at[load.reg], lane_bytes(registers_[load.reg]));
  }
  for (const Operation& operation : operations_) {
    const void* in[8];
    for (size_t i = 0; i < operation.in.size(); ++i) in[i] = at[operation.in[i]];
    operation.loop(n, in, at[operation.out]);
    if (operation.round) {
      const void* value = at[operation.out];
      operation.round(n, &value, at[operation.out]);
    }
  }
  for (const Store& store : stores_) {
    if (store.direct_bytes == 0) store.store(at[store.reg], context.at(store.to), begin, n);
  }
}

Result<void> ElementwiseStep::run(const StepContext& context) {
  if (size_ == 0) return Ok{};
  const int64_t slot_bytes = static_cast<int64_t>(registers_.size()) * register_bytes;
  const int64_t tasks = (size_ + task_elems - 1) / task_elems;
  RTX_TRY(context.workspace.slots.reserve(slot_bytes * context.pool.thread_count()));
  std::byte* const memory = context.workspace.slots.data();
  const int64_t slots = std::min<int64_t>(tasks, context.pool.thread_count());
  for (const Load& load : loads_) {
    if (!load.constant) continue;
    for (int64_t slot = 0; slot < slots; ++slot) {
      load.load(context.buffers[load.buffer], load.offset, 0, std::min(size_, block_elems),
                memory + slot * slot_bytes + load.reg * register_bytes);
    }
  }
  context.pool.run_slotted(tasks, [&](int64_t task, int64_t slot) {
    std::vector<std::byte*> at(registers_.size());
    const int64_t end = std::min(size_, (task + 1) * task_elems);
    for (int64_t begin = task * task_elems; begin < end; begin += block_elems) {
      run_block(context, begin, std::min(block_elems, end - begin), memory + slot * slot_bytes, at);
    }
  });
  return Ok{};
}

}  // namespace rtx::runtime::cpu
