#include "runtime/cpu/strided_copy.h"

#include <algorithm>
#include <cstring>

namespace rtx::runtime::cpu {
namespace {

// How many bytes make a task worth handing to another thread.
constexpr int64_t task_bytes = 64 << 10;

template <typename T>
void copy_row(const std::byte* from, int64_t from_stride, std::byte* to, int64_t to_stride, int64_t length) {
  constexpr int64_t size = sizeof(T);
  if (from_stride == size && to_stride == size) {
    std::memcpy(to, from, static_cast<size_t>(length * size));
  } else if (from_stride == 0 && to_stride == size) {
    std::fill_n(reinterpret_cast<T*>(to), length, *reinterpret_cast<const T*>(from));
  } else {
    for (int64_t i = 0; i < length; ++i) {
      *reinterpret_cast<T*>(to + i * to_stride) = *reinterpret_cast<const T*>(from + i * from_stride);
    }
  }
}

}  // namespace

StridedCopy::StridedCopy(std::span<const int64_t> shape, std::span<const int64_t> from_strides,
                         std::span<const int64_t> to_strides, int64_t element_bytes)
    : element_bytes_(element_bytes) {
  std::vector<Axis> axes;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 0) empty_ = true;
    if (shape[i] == 1) continue;
    const Axis axis = {shape[i], from_strides[i] * element_bytes, to_strides[i] * element_bytes};
    // Neighbours that are one axis in both arrangements become one.
    if (!axes.empty() && axes.back().from == axis.from * axis.length && axes.back().to == axis.to * axis.length) {
      axes.back() = {axes.back().length * axis.length, axis.from, axis.to};
    } else {
      axes.push_back(axis);
    }
  }
  if (!axes.empty()) {
    inner_ = axes.back();
    axes.pop_back();
  }
  // The second loop is the axis that is contiguous in the source, if the inner one is not: a tile of both then uses
  // every cache line it touches whole.
  auto chosen = axes.end();
  if (inner_.from != element_bytes) {
    chosen = std::find_if(axes.begin(), axes.end(), [&](const Axis& axis) { return axis.from == element_bytes; });
  }
  if (chosen == axes.end() && !axes.empty()) chosen = axes.end() - 1;
  if (chosen != axes.end()) {
    middle_ = *chosen;
    axes.erase(chosen);
  }
  outer_ = std::move(axes);
}

template <typename T>
void StridedCopy::run_typed(const std::byte* from, std::byte* to, ThreadPool& pool) const {
  int64_t outer = 1;
  for (const Axis& axis : outer_) outer *= axis.length;
  const bool tiled = middle_.from == sizeof(T) && inner_.from != sizeof(T) && inner_.from != 0 && inner_.length > 1;
  const int64_t row_bytes = inner_.length * static_cast<int64_t>(sizeof(T));
  int64_t rows = std::clamp<int64_t>(task_bytes / row_bytes, 1, middle_.length);  // of the middle axis in a task
  if (tiled) rows = std::min<int64_t>((rows + 15) / 16 * 16, middle_.length);
  const int64_t pieces = (middle_.length + rows - 1) / rows;
  // Several outer indices make a task where one is small.
  const int64_t group = std::max<int64_t>(1, task_bytes / (row_bytes * middle_.length));

  const auto piece = [&](int64_t index, int64_t part) {
    const std::byte* source = from;
    std::byte* target = to;
    for (size_t i = outer_.size(); i-- > 0;) {
      const int64_t position = index % outer_[i].length;
      index /= outer_[i].length;
      source += position * outer_[i].from;
      target += position * outer_[i].to;
    }
    const int64_t begin = part * rows, end = std::min(begin + rows, middle_.length);
    if (!tiled) {
      for (int64_t i = begin; i < end; ++i) {
        copy_row<T>(source + i * middle_.from, inner_.from, target + i * middle_.to, inner_.to, inner_.length);
      }
      return;
    }
    for (int64_t top = begin; top < end; top += 16) {
      const int64_t bottom = std::min<int64_t>(top + 16, end);
      for (int64_t left = 0; left < inner_.length; left += 16) {
        const int64_t right = std::min<int64_t>(left + 16, inner_.length);
        for (int64_t i = top; i < bottom; ++i) {
          copy_row<T>(source + i * middle_.from + left * inner_.from, inner_.from,
                      target + i * middle_.to + left * inner_.to, inner_.to, right - left);
        }
      }
    }
  };
  pool.run((outer + group - 1) / group * pieces, [&](int64_t task) {
    const int64_t first = task / pieces * group;
    for (int64_t index = first; index < std::min(first + group, outer); ++index) piece(index, task % pieces);
  });
}

void StridedCopy::run(const std::byte* from, std::byte* to, ThreadPool& pool) const {
  if (empty_) return;
  switch (element_bytes_) {
    case 1:
      return run_typed<uint8_t>(from, to, pool);
    case 2:
      return run_typed<uint16_t>(from, to, pool);
    case 4:
      return run_typed<uint32_t>(from, to, pool);
    default:
      return run_typed<uint64_t>(from, to, pool);
  }
}

}  // namespace rtx::runtime::cpu
