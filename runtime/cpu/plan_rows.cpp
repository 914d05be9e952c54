// Planners of what works on rows: reductions, argmax, softmax and the normalisations.
#include <algorithm>
#include <numeric>

#include "ir/ops/loops.h"
#include "runtime/cpu/body_planner.h"
#include "runtime/cpu/copy_step.h"
#include "runtime/cpu/row_loops.h"

namespace rtx::runtime::cpu {
namespace {

// About how many elements make a task worth handing to another thread.
constexpr int64_t task_elems = 8192;

int64_t rows_per_task(int64_t length) { return std::max<int64_t>(1, task_elems / std::max<int64_t>(1, length)); }

// A loop over contiguous rows of lanes: body(row, address of the row).
struct Rows {
  Place x;
  int64_t count, length, element_bytes;

  template <typename Body>
  void run(const StepContext& context, const Body& body) const {
    const std::byte* data = context.at(x);
    context.pool.run_ranges(count, rows_per_task(length), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) body(row, data + row * length * element_bytes);
    });
  }
};

class ReduceRowsStep : public Step {
 public:
  ReduceRowsStep(const RowLoops& loops, Reduction reduction, Rows rows, int64_t start, Place to)
      : loops_(loops), reduction_(reduction), rows_(rows), start_(start), to_(to) {}
  Result<void> run(const StepContext& context) override {
    rows_.run(context, [&](int64_t row, const std::byte* x) {
      loops_.reduce(reduction_, x, rows_.length, start_, context.at(to_) + row * rows_.element_bytes);
    });
    return Ok{};
  }

 private:
  const RowLoops& loops_;
  Reduction reduction_;
  Rows rows_;
  int64_t start_;
  Place to_;
};

// x [outer, length, inner] to [outer, inner]: vectors run along the inner axis.
class ReduceColumnsStep : public Step {
 public:
  ReduceColumnsStep(const RowLoops& loops, Reduction reduction, Place x, int64_t outer, int64_t length, int64_t inner,
                    int64_t element_bytes, int64_t start, Place to)
      : loops_(loops),
        reduction_(reduction),
        x_(x),
        outer_(outer),
        length_(length),
        inner_(inner),
        element_bytes_(element_bytes),
        start_(start),
        to_(to) {}
  Result<void> run(const StepContext& context) override {
    constexpr int64_t width = 256;
    const int64_t pieces = (inner_ + width - 1) / width;
    context.pool.run(outer_ * pieces, [&](int64_t task) {
      const int64_t row = task / pieces, column = task % pieces * width, columns = std::min(width, inner_ - column);
      int64_t accumulators[width];
      loops_.reduce_columns(reduction_, context.at(x_) + (row * length_ * inner_ + column) * element_bytes_, length_,
                            inner_, columns, start_, accumulators,
                            context.at(to_) + (row * inner_ + column) * element_bytes_);
    });
    return Ok{};
  }

 private:
  const RowLoops& loops_;
  Reduction reduction_;
  Place x_;
  int64_t outer_, length_, inner_, element_bytes_, start_;
  Place to_;
};

class ArgmaxStep : public Step {
 public:
  ArgmaxStep(const RowLoops& loops, Rows rows, bool select_last, Place to)
      : loops_(loops), rows_(rows), select_last_(select_last), to_(to) {}
  Result<void> run(const StepContext& context) override {
    rows_.run(context, [&](int64_t row, const std::byte* x) {
      reinterpret_cast<int64_t*>(context.at(to_))[row] = loops_.argmax(x, rows_.length, select_last_);
    });
    return Ok{};
  }

 private:
  const RowLoops& loops_;
  Rows rows_;
  bool select_last_;
  Place to_;
};

// x [outer, length, inner], along the middle.
class CumsumStep : public Step {
 public:
  CumsumStep(const RowLoops& loops, Place x, int64_t outer, int64_t length, int64_t inner, int64_t element_bytes,
             bool exclusive, bool reverse, Place to)
      : loops_(loops),
        x_(x),
        outer_(outer),
        length_(length),
        inner_(inner),
        element_bytes_(element_bytes),
        exclusive_(exclusive),
        reverse_(reverse),
        to_(to) {}
  Result<void> run(const StepContext& context) override {
    context.pool.run_ranges(outer_ * inner_, rows_per_task(length_), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const int64_t at = (row / inner_ * length_ * inner_ + row % inner_) * element_bytes_;
        loops_.cumsum(context.at(x_) + at, length_, inner_, exclusive_, reverse_, context.at(to_) + at);
      }
    });
    return Ok{};
  }

 private:
  const RowLoops& loops_;
  Place x_;
  int64_t outer_, length_, inner_, element_bytes_;
  bool exclusive_, reverse_;
  Place to_;
};

class SoftmaxStep : public Step {
 public:
  SoftmaxStep(const RowLoops& loops, Rows rows, bool logarithm, Place to)
      : loops_(loops), rows_(rows), logarithm_(logarithm), to_(to) {}
  Result<void> run(const StepContext& context) override {
    rows_.run(context, [&](int64_t row, const std::byte* x) {
      loops_.softmax(x, rows_.length, logarithm_, context.at(to_) + row * rows_.length * rows_.element_bytes);
    });
    return Ok{};
  }

 private:
  const RowLoops& loops_;
  Rows rows_;
  bool logarithm_;
  Place to_;
};

class NormStep : public Step {
 public:
  NormStep(const RowLoops& loops, Rows rows, Place scale, std::optional<Place> bias, double epsilon, bool subtract_mean,
           Place to)
      : loops_(loops),
        rows_(rows),
        scale_(scale),
        bias_(bias),
        epsilon_(epsilon),
        subtract_mean_(subtract_mean),
        to_(to) {}
  Result<void> run(const StepContext& context) override {
    rows_.run(context, [&](int64_t row, const std::byte* x) {
      loops_.norm({x, context.at(scale_), bias_ ? context.at(*bias_) : nullptr,
                   context.at(to_) + row * rows_.length * rows_.element_bytes, rows_.length, epsilon_, subtract_mean_});
    });
    return Ok{};
  }

 private:
  const RowLoops& loops_;
  Rows rows_;
  Place scale_;
  std::optional<Place> bias_;
  double epsilon_;
  bool subtract_mean_;
  Place to_;
};

// The value as lanes with its axes in the order `perm`; a copy, unless that is how it lies.
Result<Place> permuted_lanes(BodyPlanner& planner, const Value* value, const std::vector<int64_t>& perm) {
  const ConcreteType type = planner.type(value);
  RTX_ASSIGN(Place lanes, planner.contiguous_lanes(value));
  const std::vector<int64_t> strides = strides_of(type.shape);
  ConcreteType moved = {lane_dtype(lane_of(type.dtype)), {}};
  View view = {lanes.buffer, lanes.offset_bytes / lane_bytes(lane_of(type.dtype)), {}};
  for (int64_t axis : perm) {
    moved.shape.push_back(type.shape[static_cast<size_t>(axis)]);
    view.strides.push_back(strides[static_cast<size_t>(axis)]);
  }
  if (is_contiguous(moved.shape, view.strides)) return lanes;
  return planner.copied(moved, view);
}

// All axes but `last` in order, then `last`.
std::vector<int64_t> move_to_end(size_t rank, const std::vector<int64_t>& last) {
  std::vector<int64_t> perm;
  for (size_t i = 0; i < rank; ++i) {
    if (!std::binary_search(last.begin(), last.end(), static_cast<int64_t>(i))) perm.push_back(static_cast<int64_t>(i));
  }
  perm.insert(perm.end(), last.begin(), last.end());
  return perm;
}

// Whether loops over rows know the lane.
bool has_row_loops(DType dtype) { return number_dtype(dtype); }

Reduction reduction_of(Op op) {
  if (op == Op::reduce_mean) return Reduction::mean;
  if (op == Op::reduce_max) return Reduction::max;
  if (op == Op::reduce_min) return Reduction::min;
  if (op == Op::reduce_prod) return Reduction::prod;
  return Reduction::sum;
}

}  // namespace

Result<bool> plan_reduce(BodyPlanner& planner, const Operation& operation) {
  const Value *x = operation.operand(0), *result = operation.result();
  const ConcreteType type = planner.type(x);
  if (!has_row_loops(type.dtype)) return false;
  const std::vector<int64_t>& axes = operation.attributes.integers("axes");
  const Lane lane = lane_of(type.dtype);
  const RowLoops& loops = row_loops(planner.isa(), lane);
  const Reduction reduction = reduction_of(operation.op);
  int64_t start = 0;
  if (rtx::is_integer(type.dtype)) {
    start = reduction == Reduction::max ? lowest_integer(type.dtype) : highest_integer(type.dtype);
  }
  int64_t length = 1;
  for (int64_t axis : axes) length *= type.shape[static_cast<size_t>(axis)];
  const int64_t count = planner.type(result).elements();

  // Neighbouring axes with others behind them need no copy.
  const bool neighbours = !axes.empty() && axes.back() - axes.front() + 1 == static_cast<int64_t>(axes.size());
  const size_t after = axes.empty() ? 0 : static_cast<size_t>(axes.back()) + 1;
  const int64_t inner = neighbours ? extent(type.shape, after, type.shape.size()) : 1;
  if (neighbours && inner > 1) {
    RTX_ASSIGN(Place lanes, planner.contiguous_lanes(x));
    RTX_ASSIGN(Place to, planner.define_lanes(result));
    planner.add<ReduceColumnsStep>(loops, reduction, lanes, count / inner, length, inner, lane_bytes(lane), start, to);
    RTX_TRY(planner.store_lanes(result, to));
    return true;
  }
  RTX_ASSIGN(Place lanes, permuted_lanes(planner, x, move_to_end(type.shape.size(), axes)));
  RTX_ASSIGN(Place to, planner.define_lanes(result));
  planner.add<ReduceRowsStep>(loops, reduction, Rows{lanes, count, length, lane_bytes(lane)}, start, to);
  RTX_TRY(planner.store_lanes(result, to));
  return true;
}

Result<bool> plan_argmax(BodyPlanner& planner, const Operation& operation) {
  const Value* x = operation.operand(0);
  const ConcreteType type = planner.type(x);
  const int64_t axis = operation.attributes.integer("axis");
  if (!has_row_loops(type.dtype)) return false;
  const Lane lane = lane_of(type.dtype);
  RTX_ASSIGN(Place lanes, permuted_lanes(planner, x, move_to_end(type.shape.size(), {axis})));
  const int64_t count = planner.type(operation.result()).elements();
  RTX_ASSIGN(Place to, planner.define(operation.result()));
  planner.add<ArgmaxStep>(row_loops(planner.isa(), lane),
                          Rows{lanes, count, type.shape[static_cast<size_t>(axis)], lane_bytes(lane)},
                          operation.attributes.boolean("select_last"), to);
  return true;
}

Result<bool> plan_cumsum(BodyPlanner& planner, const Operation& operation) {
  const Value *x = operation.operand(0), *result = operation.result();
  const ConcreteType type = planner.type(x);
  const size_t axis = static_cast<size_t>(operation.attributes.integer("axis"));
  if (!has_row_loops(type.dtype)) return false;
  const Lane lane = lane_of(type.dtype);
  RTX_ASSIGN(Place lanes, planner.contiguous_lanes(x));
  RTX_ASSIGN(Place to, planner.define_lanes(result));
  planner.add<CumsumStep>(row_loops(planner.isa(), lane), lanes, extent(type.shape, 0, axis), type.shape[axis],
                          extent(type.shape, axis + 1, type.shape.size()), lane_bytes(lane),
                          operation.attributes.boolean("exclusive"), operation.attributes.boolean("reverse"), to);
  RTX_TRY(planner.store_lanes(result, to));
  return true;
}

Result<bool> plan_softmax(BodyPlanner& planner, const Operation& operation) {
  const Value *x = operation.operand(0), *result = operation.result();
  const ConcreteType type = planner.type(x);
  const int64_t axis = operation.attributes.integer("axis");
  const Lane lane = lane_of(type.dtype);
  const RowLoops& loops = row_loops(planner.isa(), lane);
  const bool logarithm = operation.is(Op::log_softmax);
  const int64_t length = type.shape[static_cast<size_t>(axis)], count = length == 0 ? 0 : type.elements() / length;
  const std::vector<int64_t> perm = move_to_end(type.shape.size(), {axis});
  RTX_ASSIGN(Place lanes, permuted_lanes(planner, x, perm));
  const Rows rows = {lanes, count, length, lane_bytes(lane)};
  RTX_ASSIGN(Place to, planner.define_lanes(result));
  if (axis + 1 == static_cast<int64_t>(type.shape.size())) {
    planner.add<SoftmaxStep>(loops, rows, logarithm, to);
  } else {
    // Rows are written one after the other and then moved back.
    RTX_ASSIGN(Place moved, planner.scratch(type.elements() * lane_bytes(lane)));
    planner.add<SoftmaxStep>(loops, rows, logarithm, moved);
    ConcreteType moved_type = {lane_dtype(lane), {}};
    std::vector<int64_t> to_strides;
    for (int64_t i : perm) {
      moved_type.shape.push_back(type.shape[static_cast<size_t>(i)]);
      to_strides.push_back(strides_of(type.shape)[static_cast<size_t>(i)]);
    }
    planner.add<CopyStep>(moved_type, View{moved.buffer, 0, strides_of(moved_type.shape)}, to, to_strides);
  }
  RTX_TRY(planner.store_lanes(result, to));
  return true;
}

Result<bool> plan_norm(BodyPlanner& planner, const Operation& operation) {
  const Value *x = operation.operand(0), *result = operation.result();
  const ConcreteType type = planner.type(x);
  const size_t axis = static_cast<size_t>(operation.attributes.integer("axis"));
  const std::vector<int64_t> row_shape(type.shape.begin() + static_cast<int64_t>(axis), type.shape.end());
  const Lane lane = lane_of(type.dtype);
  const int64_t length = extent(row_shape, 0, row_shape.size());
  // Scale and bias as a whole row each; one that varies from row to row is left to the evaluator.
  std::vector<Place> factors;
  for (size_t i = 1; i < operation.operand_count(); ++i) {
    if (planner.type(operation.operand(i)).shape.size() > row_shape.size()) return false;
  }
  for (size_t i = 1; i < operation.operand_count(); ++i) {
    const Value* operand = operation.operand(i);
    const std::vector<int64_t> shape = planner.type(operand).shape;
    RTX_ASSIGN(Place lanes, planner.contiguous_lanes(operand));
    const std::vector<int64_t> strides = broadcast_strides(shape, row_shape);
    if (!is_contiguous(row_shape, strides)) {
      const View view = {lanes.buffer, lanes.offset_bytes / lane_bytes(lane), strides};
      RTX_ASSIGN(lanes, planner.copied({lane_dtype(lane), row_shape}, view));
    }
    factors.push_back(lanes);
  }
  RTX_ASSIGN(Place lanes, planner.contiguous_lanes(x));
  RTX_ASSIGN(Place to, planner.define_lanes(result));
  planner.add<NormStep>(row_loops(planner.isa(), lane),
                        Rows{lanes, length == 0 ? 0 : type.elements() / length, length, lane_bytes(lane)}, factors[0],
                        factors.size() > 1 ? std::optional<Place>(factors[1]) : std::nullopt,
                        operation.attributes.real("epsilon"), operation.is(Op::layer_norm), to);
  RTX_TRY(planner.store_lanes(result, to));
  return true;
}

}  // namespace rtx::runtime::cpu
