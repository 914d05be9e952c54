// Planner of conv: for each image and group the windows are laid out as the columns of a matrix [channels * window,
// positions], which the weights [outputs, channels * window] multiply; the bias is added last.
#include <algorithm>
#include <cstring>

#include "ir/ops/loops.h"
#include "runtime/cpu/body_planner.h"
#include "runtime/cpu/matmul_step.h"

namespace rtx::runtime::cpu {
namespace {

struct ConvShape {
  std::vector<int64_t> x, window, out;  // spatial sizes
  std::vector<int64_t> strides, dilations, pads_begin;
  int64_t images, groups, channels, outputs;  // channels and outputs of one group
};

// Elements of at most one row of the innermost axis at a time.
class WindowsStep : public Step {
 public:
  WindowsStep(ConvShape shape, int64_t element_bytes, Place x, Place to)
      : s_(std::move(shape)), element_bytes_(element_bytes), x_(x), to_(to) {}

  Result<void> run(const StepContext& context) override {
    const int64_t window = extent(s_.window, 0, s_.window.size());
    const int64_t rows = s_.images * s_.groups * s_.channels * window;
    context.pool.run_ranges(rows, std::max<int64_t>(1, 8192 / std::max<int64_t>(1, positions())),
                            [&](int64_t begin, int64_t end) {
                              for (int64_t row = begin; row < end; ++row) {
                                if (element_bytes_ == 8)
                                  fill_row<uint64_t>(context, row, window);
                                else if (element_bytes_ == 4)
                                  fill_row<uint32_t>(context, row, window);
                                else
                                  fill_row<uint16_t>(context, row, window);
                              }
                            });
    return Ok{};
  }

 private:
  int64_t positions() const { return extent(s_.out, 0, s_.out.size()); }

  // Row: one channel of one image at one place of the window, for every position. Outside x it is zero.
  template <typename T>
  void fill_row(const StepContext& context, int64_t row, int64_t window) const {
    const size_t rank = s_.x.size();
    const T* plane = reinterpret_cast<const T*>(context.at(x_)) + row / window * extent(s_.x, 0, rank);
    T* to = reinterpret_cast<T*>(context.at(to_)) + row * positions();
    std::vector<int64_t> shift(rank), index(rank, 0);  // of the window's element against the position times its stride
    for (size_t i = rank, rest = static_cast<size_t>(row % window); i-- > 0;) {
      shift[i] = static_cast<int64_t>(rest) % s_.window[i] * s_.dilations[i] - s_.pads_begin[i];
      rest = static_cast<size_t>(static_cast<int64_t>(rest) / s_.window[i]);
    }
    const int64_t length = s_.out[rank - 1], step = s_.strides[rank - 1], limit = s_.x[rank - 1];
    for (int64_t line = 0, lines = length == 0 ? 0 : positions() / length; line < lines; ++line, to += length) {
      bool inside = true;
      int64_t offset = 0;
      for (size_t i = 0; i + 1 < rank; ++i) {
        const int64_t at = index[i] * s_.strides[i] + shift[i];
        inside = inside && at >= 0 && at < s_.x[i];
        offset = offset * s_.x[i] + at;
      }
      const T* source = plane + offset * limit;
      for (int64_t j = 0; j < length; ++j) {
        const int64_t at = j * step + shift[rank - 1];
        to[j] = inside && at >= 0 && at < limit ? source[at] : T{0};
      }
      for (size_t i = rank - 1; i-- > 0;) {
        if (++index[i] < s_.out[i]) break;
        index[i] = 0;
      }
    }
  }

  ConvShape s_;
  int64_t element_bytes_;
  Place x_, to_;
};

}  // namespace

Result<bool> plan_conv(BodyPlanner& planner, const Operation& operation) {
  const Value *x = operation.operand(0), *w = operation.operand(1), *result = operation.result();
  const ConcreteType x_type = planner.type(x), w_type = planner.type(w), type = planner.type(result);
  ConvShape shape;
  shape.x.assign(x_type.shape.begin() + 2, x_type.shape.end());
  shape.window.assign(w_type.shape.begin() + 2, w_type.shape.end());
  shape.out.assign(type.shape.begin() + 2, type.shape.end());
  shape.strides = operation.attributes.integers("strides");
  shape.dilations = operation.attributes.integers("dilations");
  const std::vector<int64_t>& pads = operation.attributes.integers("pads");
  shape.pads_begin.assign(pads.begin(), pads.begin() + static_cast<int64_t>(shape.x.size()));
  shape.images = x_type.shape[0];
  shape.groups = operation.attributes.integer("groups");
  shape.channels = w_type.shape[1];
  shape.outputs = w_type.shape[0] / shape.groups;
  if (x_type.shape[1] != shape.channels * shape.groups) return false;

  if (type.elements() == 0) {
    RTX_TRY(planner.define(result));
    return true;
  }

  const int64_t positions = extent(shape.out, 0, shape.out.size());
  const int64_t k = shape.channels * extent(shape.window, 0, shape.window.size());
  const Lane lane = lane_of(type.dtype);
  // The sum of products is kept in the lane until the bias is added: one rounding to the dtype.
  RTX_ASSIGN(Place image, planner.contiguous_lanes(x));
  RTX_ASSIGN(Place weights, planner.contiguous_lanes(w));
  int64_t windows_bytes;
  if (__builtin_mul_overflow(shape.images * shape.groups * k, positions * lane_bytes(lane), &windows_bytes))
    return false;
  RTX_ASSIGN(Place windows, planner.scratch(windows_bytes));
  planner.add<WindowsStep>(shape, lane_bytes(lane), image, windows);

  MatmulShape product = MatmulShape::plain(lane_dtype(lane), shape.outputs, positions, k);
  product.lhs_offsets = product.rhs_offsets = product.result_offsets = {};
  for (int64_t i = 0; i < shape.images * shape.groups; ++i) {
    product.lhs_offsets.push_back(i % shape.groups * shape.outputs * k);
    product.rhs_offsets.push_back(i * k * positions);
    product.result_offsets.push_back(i * shape.outputs * positions);
  }
  RTX_ASSIGN(Place sums, planner.define_lanes(result));
  planner.add<MatmulStep>(std::move(product), planner.isa(), weights, windows, sums);
  if (operation.operand_count() > 2) {
    RTX_ASSIGN(Place bias, planner.contiguous_lanes(operation.operand(2)));
    auto step = std::make_unique<ElementwiseStep>(type.shape, planner.isa());
    std::vector<int64_t> repeat(type.shape.size(), 0);
    repeat[1] = 1;
    const DType dtype = lane_dtype(lane);
    const int sum = step->add_load(dtype, {sums.buffer, 0, strides_of(type.shape)});
    const int term = step->add_load(dtype, {bias.buffer, bias.offset_bytes / lane_bytes(lane), repeat});
    const LaneLoop add = elementwise_loops(planner.isa()).find(Op::add, 0, lane);
    step->add_store(step->add_operation(add, nullptr, {sum, term}, lane), dtype, sums);
    planner.add_step(std::move(step));
  }
  RTX_TRY(planner.store_lanes(result, sums));
  return true;
}

}  // namespace rtx::runtime::cpu
