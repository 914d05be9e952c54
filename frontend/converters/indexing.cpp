// Gathers, and operators that are written with them.

#include <algorithm>

#include "frontend/converters/indexing_parts.h"

namespace rtx::onnx {

Result<void> check_indices(Conversion& c, std::span<const Dim> lengths) {
  const Contents* known = c.contents(1);
  if (lengths.empty()) return Ok{};
  for (size_t i = 0; known && i < known->elements.size(); ++i) {
    const Element& element = known->elements[i];
    const Dim& length = lengths[i % lengths.size()];
    if (element.kind != Element::Kind::dim || !element.dim.is_constant() || !length.is_constant()) continue;
    int64_t index = element.dim.constant(), n = length.constant();
    if (index < -n || index >= n)
      return c.invalid("E333", concat("index ", index, " is out of range"))
          .with_expected(concat("-", n, " <= index < ", n));
  }
  return Ok{};
}

std::span<const Dim> indexed_axes(const Shape& data, const Shape& indices, size_t batch_dims) {
  if (indices.empty() || batch_dims >= data.size() || !indices.back().is_constant()) return {};
  int64_t depth = indices.back().constant();
  if (depth < 1 || depth > static_cast<int64_t>(data.size() - batch_dims)) return {};
  return std::span(data).subspan(batch_dims, static_cast<size_t>(depth));
}

namespace {

Result<void> gather(Conversion& c) {
  RTX_ASSIGN(int axis, c.axis(c.integer("axis", 0), c.rank(0)));
  RTX_TRY(check_indices(c, std::span(&c.type(0).shape[axis], 1)));
  RTX_ASSIGN(Value * data, c.input(0));
  RTX_ASSIGN(Value * indices, c.input(1));
  RTX_ASSIGN(Value * y, c.emit(Op::gather, {data, indices}, {{"axis", static_cast<int64_t>(axis)}}));
  c.set(0, y);
  return Ok{};
}

Result<void> gather_elements(Conversion& c) {
  RTX_ASSIGN(int axis, c.axis(c.integer("axis", 0), c.rank(0)));
  RTX_TRY(check_indices(c, std::span(&c.type(0).shape[axis], 1)));
  RTX_ASSIGN(Value * data, c.input(0));
  RTX_ASSIGN(Value * indices, c.input(1));
  RTX_ASSIGN(Value * y, c.emit(Op::gather_elements, {data, indices}, {{"axis", static_cast<int64_t>(axis)}}));
  c.set(0, y);
  return Ok{};
}

Result<void> gather_nd(Conversion& c) {
  size_t batch_dims = static_cast<size_t>(std::max<int64_t>(0, c.integer("batch_dims", 0)));
  RTX_TRY(check_indices(c, indexed_axes(c.type(0).shape, c.type(1).shape, batch_dims)));
  RTX_ASSIGN(Value * data, c.input(0));
  RTX_ASSIGN(Value * indices, c.input(1));
  RTX_ASSIGN(Value * y, c.emit(Op::gather_nd, {data, indices}, {{"batch_dims", c.integer("batch_dims", 0)}}));
  c.set(0, y);
  return Ok{};
}

// The cache with `update` written along one axis from a position of each batch row on; in circular mode positions wrap.
Result<void> tensor_scatter(Conversion& c) {
  RTX_ASSIGN(int axis, c.axis(c.integer("axis", -2), c.rank(0)));
  std::string mode = c.string("mode", "linear");
  if (mode != "linear" && mode != "circular") return c.invalid("E321", concat("mode '", escape_text(mode), "'"));
  int rank = c.rank(0);
  if (axis == 0) return c.invalid("E321", "TensorScatter along the batch axis");
  RTX_ASSIGN(Value * cache, c.input(0));
  RTX_ASSIGN(Value * update, c.input(1));
  RTX_TRY(c.need_rank(1, rank));
  Dim length = cache->type.shape[axis], rows = update->type.shape[axis];
  RTX_ASSIGN(Value * index, c.iota(DType::i64, rank, axis, length));
  if (c.has(2)) {
    RTX_ASSIGN(Value * start, c.input(2));
    RTX_ASSIGN(start, c.cast(start, DType::i64));
    Shape column(rank, 1);
    column[0] = start->type.element_count();
    RTX_ASSIGN(start, c.reshape(start, std::move(column)));
    RTX_ASSIGN(index, c.emit(Op::sub, {index, start}));
  }
  if (mode == "circular") {
    RTX_ASSIGN(Value * period, c.dim_scalar(length));
    RTX_ASSIGN(index, c.emit(Op::mod, {index, period}));
  }
  RTX_ASSIGN(Value * zero, c.scalar(DType::i64, 0));
  RTX_ASSIGN(Value * count, c.dim_scalar(rows));
  RTX_ASSIGN(Value * after, c.emit(Op::less_equal, {zero, index}));
  RTX_ASSIGN(Value * inside, c.emit(Op::less, {index, count}));
  RTX_ASSIGN(inside, c.emit(Op::logical_and, {after, inside}));
  RTX_ASSIGN(index, c.emit(Op::maximum, {index, zero}));
  RTX_ASSIGN(index, c.broadcast(index, cache->type.shape));
  RTX_ASSIGN(Value * fresh, c.emit(Op::gather_elements, {update, index}, {{"axis", static_cast<int64_t>(axis)}}));
  RTX_ASSIGN(Value * y, c.emit(Op::select, {inside, fresh, cache}));
  c.set(0, y);
  return Ok{};
}

// The first `lengths[b]` elements of each sequence in reverse, the rest as they are.
Result<void> reverse_sequence(Conversion& c) {
  int rank = c.rank(0);
  RTX_ASSIGN(int time, c.axis(c.integer("time_axis", 0), rank));
  RTX_ASSIGN(int batch, c.axis(c.integer("batch_axis", 1), rank));
  if (time == batch) return c.invalid("E321", "time_axis and batch_axis are one axis");
  RTX_TRY(c.need_rank(1, 1));
  RTX_ASSIGN(Value * x, c.input(0));
  RTX_ASSIGN(Value * lengths, c.input(1));
  RTX_ASSIGN(lengths, c.cast(lengths, DType::i64));
  Shape column(rank, 1);
  column[batch] = lengths->type.shape[0];
  RTX_ASSIGN(lengths, c.reshape(lengths, std::move(column)));
  RTX_ASSIGN(Value * index, c.iota(DType::i64, rank, time, x->type.shape[time]));
  RTX_ASSIGN(Value * inside, c.emit(Op::less, {index, lengths}));
  RTX_ASSIGN(Value * one, c.scalar(DType::i64, 1));
  RTX_ASSIGN(Value * last, c.emit(Op::sub, {lengths, one}));
  RTX_ASSIGN(Value * mirrored, c.emit(Op::sub, {last, index}));
  RTX_ASSIGN(index, c.emit(Op::select, {inside, mirrored, index}));
  RTX_ASSIGN(index, c.broadcast(index, x->type.shape));
  RTX_ASSIGN(Value * y, c.emit(Op::gather_elements, {x, index}, {{"axis", static_cast<int64_t>(time)}}));
  c.set(0, y);
  return Ok{};
}

// values = [off, on]; the new axis of size `depth` stands at `axis` of the output.
Result<void> one_hot(Conversion& c) {
  int rank = c.rank(0) + 1;
  RTX_ASSIGN(int axis, c.axis(c.integer("axis", -1), rank));
  const Contents* known = c.contents(1);
  if (!known || known->elements.size() != 1 || !known->all_known()) return c.depends_on_data(1);
  auto depth = known->elements[0].as_dim();
  if (!depth) return c.invalid("E327", "depth must be a whole number");
  RTX_ASSIGN(Value * indices, c.input(0));
  RTX_ASSIGN(indices, c.cast(indices, DType::i64));
  RTX_ASSIGN(Value * size, c.dim_scalar(*depth));
  RTX_ASSIGN(Value * zero, c.scalar(DType::i64, 0));
  RTX_ASSIGN(Value * negative, c.emit(Op::less, {indices, zero}));
  RTX_ASSIGN(Value * wrapped, c.emit(Op::add, {indices, size}));
  RTX_ASSIGN(indices, c.emit(Op::select, {negative, wrapped, indices}));
  Shape shape = indices->type.shape;
  shape.insert(shape.begin() + axis, 1);
  RTX_ASSIGN(indices, c.reshape(indices, std::move(shape)));
  RTX_ASSIGN(Value * positions, c.iota(DType::i64, rank, axis, *depth));
  RTX_ASSIGN(Value * hit, c.emit(Op::equal, {indices, positions}));
  RTX_TRY(c.need_rank(2, 1));
  RTX_ASSIGN(Value * values, c.input(2));
  RTX_ASSIGN(Value * off, c.slice(values, 0, 0, 1));
  RTX_ASSIGN(Value * on, c.slice(values, 0, 1, 1));
  RTX_ASSIGN(off, c.reshape(off, {}));
  RTX_ASSIGN(on, c.reshape(on, {}));
  RTX_ASSIGN(Value * y, c.emit(Op::select, {hit, on, off}));
  c.set(0, y);
  return Ok{};
}

}  // namespace

constinit const Converter indexing_converters[] = {
    {"Gather", 1, gather, moves_first, "axis", 2, 2},
    {"GatherElements", 11, gather_elements, moves_first, "axis", 2, 2},
    {"GatherND", 11, gather_nd, moves_first, "", 2, 2},
    {"GatherND", 12, gather_nd, moves_first, "batch_dims", 2, 2},
    {"TensorScatter", 24, tensor_scatter, never, "axis mode", 2, 3},
    {"ReverseSequence", 10, reverse_sequence, never, "batch_axis time_axis", 2, 2},
    {"OneHot", 9, one_hot, fold, "axis", 3, 3},
};
std::span<const Converter> indexing_table() { return indexing_converters; }

}  // namespace rtx::onnx
