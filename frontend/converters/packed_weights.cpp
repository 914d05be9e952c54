// Weights of a few bits, packed into bytes (com.microsoft). They stay packed; each is dequantised where it is used.

#include "frontend/converters/quantization_parts.h"
#include "frontend/converters/tables.h"

namespace rtx::onnx {
namespace {

// u8 [.., bytes] -> u8 [.., bytes * 8 / bits], low bits first.
Result<Value*> unpacked(Conversion& c, Value* packed, int64_t bits) {
  if (bits == 8) return packed;
  return c.emit(Op::unpack_bits, {packed}, {{"bits", bits}});
}

Result<void> check_blocks(Conversion& c, int64_t bits, int64_t block) {
  const bool power = block > 0 && (block & (block - 1)) == 0;
  if ((bits != 2 && bits != 4 && bits != 8) || block < 16 || block > int64_t{1} << 30 || !power)
    return c.invalid("E321", concat("bits ", bits, ", block_size ", block))
        .with_expected("bits 2, 4 or 8; block_size a power of two, 16 or more");
  return Ok{};
}

struct NBits {
  int64_t bits, block, k, n, blocks;
};

// B [N, blocks, block * bits / 8], in [N, K] as A's dtype: (B - zero point) * scale. Scales [N, blocks] or flat; zero
// points packed as [N, ceil(blocks * bits / 8)] (each row padded to a byte), flat, or unpacked floats (H49).
Result<Value*> dequantized_weight(Conversion& c, const NBits& w, DType dtype) {
  RTX_ASSIGN(Value * packed, c.input(1));
  RTX_ASSIGN(packed, c.reshape(packed, {w.n, w.blocks * w.block * w.bits / 8}));
  RTX_ASSIGN(Value * weight, unpacked(c, packed, w.bits));
  Quantization by = {.axis = 1, .block_size = w.block};
  RTX_ASSIGN(by.scale, c.input(2));
  RTX_ASSIGN(by.scale, c.reshape(by.scale, {w.n, w.blocks}));
  if (!c.has(3) || c.type(3).element_count().is(0)) {
    RTX_ASSIGN(by.zero, c.scalar(DType::u8, static_cast<double>(1 << (w.bits - 1))));
  } else {
    RTX_ASSIGN(by.zero, c.input(3));
    const bool is_packed = by.zero->type.dtype == DType::u8;
    RTX_ASSIGN(by.zero, c.reshape(by.zero, {w.n, is_packed ? (w.blocks * w.bits + 7) / 8 : w.blocks}));
    if (is_packed) {
      RTX_ASSIGN(by.zero, unpacked(c, by.zero, w.bits));
      RTX_ASSIGN(by.zero, c.slice(by.zero, 1, 0, w.blocks));
    }
  }
  if (!c.has(4) || c.type(4).element_count().is(0)) {
    RTX_ASSIGN(weight, dequantized(c, weight, by, dtype));
    return c.slice(weight, 1, 0, w.k);
  }
  // g_idx: the group of each input channel, in any order. It may cover the padding of the last block.
  RTX_TRY(c.need_rank(4, 1));
  RTX_ASSIGN(weight, c.slice(weight, 1, 0, w.k));
  RTX_ASSIGN(Value * groups, c.input(4));
  RTX_ASSIGN(groups, c.slice(groups, 0, 0, w.k));
  by.block_size = 0;
  RTX_ASSIGN(by.scale, c.emit(Op::gather, {by.scale, groups}, {{"axis", int64_t{1}}}));
  if (by.zero->type.rank() > 0) {
    RTX_ASSIGN(by.zero, c.emit(Op::gather, {by.zero, groups}, {{"axis", int64_t{1}}}));
  }
  return dequantized(c, weight, by, dtype);
}

// com.microsoft.MatMulNBits: A [.., K], B, scales, zero points, g_idx, bias.
Result<void> matmul_nbits(Conversion& c) {
  NBits w = {c.integer("bits", 4), c.integer("block_size", 0), c.integer("K", 0), c.integer("N", 0), 0};
  constexpr int64_t most = int64_t{1} << 30;
  if (w.k < 1 || w.k > most || w.n < 1 || w.n > most)
    return c.invalid("E321", concat("K ", w.k, ", N ", w.n)).with_expected(concat("1 to ", most));
  RTX_TRY(check_blocks(c, w.bits, w.block));
  if (c.integer("weight_prepacked", 0) != 0) return c.unsupported("prepacked weights");
  if (c.type(1).dtype != DType::u8) return c.unsupported("weights that are not uint8");
  w.blocks = (w.k + w.block - 1) / w.block;
  RTX_ASSIGN(Value * a, c.input(0));
  const Shape shape = a->type.shape;
  if (shape.empty()) return c.invalid("E327", "A has no axis");
  Shape result = shape;
  result.back() = w.n;
  Value* y = nullptr;
  if (c.type(1).element_count().is(0)) {  // a projection left out
    RTX_ASSIGN(y, c.scalar(a->type.dtype, 0));
    RTX_ASSIGN(y, c.broadcast(y, result));
  } else {
    RTX_ASSIGN(Value * weight, dequantized_weight(c, w, a->type.dtype));
    if (shape.size() == 1) {
      RTX_ASSIGN(a, c.reshape(a, {1, shape[0]}));
    }
    RTX_ASSIGN(y, c.emit(Op::matmul, {a, weight}, {{"transpose_rhs", true}}));
    RTX_ASSIGN(y, c.reshape(y, result));
  }
  if (c.has(5)) {
    RTX_ASSIGN(Value * bias, c.input(5));
    RTX_ASSIGN(y, c.emit(Op::add, {y, bias}));
  }
  c.set(0, y);
  return Ok{};
}

// Rows of `table` on `axis`.
Result<Value*> rows(Conversion& c, Value* table, Value* indices, int axis) {
  return c.emit(Op::gather, {table, indices}, {{"axis", static_cast<int64_t>(axis)}});
}

// A scale of axes that are those of the table, or 1; `axis` has one entry for each block.
Result<Value*> full_scale(Conversion& c, Value* scale, const Shape& table, int axis) {
  RTX_TRY(c.need_rank(scale, static_cast<int>(table.size())));
  Shape shape = table;
  shape[axis] = scale->type.shape[axis];
  return c.broadcast(scale, std::move(shape));
}

// y, with zeros where the index is outside the axis of this size. y has the axes of the indices where the table had
// `axis`; `after` more follow.
Result<Value*> zeros_outside(Conversion& c, Value* y, Value* indices, const Dim& size, int after) {
  RTX_ASSIGN(indices, c.cast(indices, DType::i64));
  RTX_ASSIGN(Value * end, c.dim_scalar(size));
  RTX_ASSIGN(Value * start, c.emit(Op::neg, {end}));
  RTX_ASSIGN(Value * above, c.emit(Op::less_equal, {start, indices}));
  RTX_ASSIGN(Value * below, c.emit(Op::less, {indices, end}));
  RTX_ASSIGN(Value * inside, c.emit(Op::logical_and, {above, below}));
  Shape shape = indices->type.shape;
  shape.insert(shape.end(), after, Dim(1));
  RTX_ASSIGN(inside, c.reshape(inside, std::move(shape)));
  RTX_ASSIGN(Value * zero, c.scalar(y->type.dtype, 0));
  return c.emit(Op::select, {inside, y, zero});
}

// com.microsoft.GatherBlockQuantized: rows of a table quantised in blocks along one axis, dequantised after the lookup.
// Inputs: table, indices, scales, zero points. Bytes that pack 2 or 4 bits do so along the last axis. An index outside
// the axis gives zeros.
Result<void> gather_block_quantized(Conversion& c) {
  RTX_ASSIGN(Value * table, c.input(0));
  RTX_ASSIGN(Value * indices, c.input(1));
  const int rank = table->type.rank();
  if (rank < 1) return c.invalid("E327", "data has no axis");
  RTX_ASSIGN(const int gather_axis, c.axis(c.integer("gather_axis", 0), rank));
  RTX_ASSIGN(const int quantize_axis, c.axis(c.integer("quantize_axis", 1), rank));
  const bool bytes = table->type.dtype == DType::u8;
  const int64_t bits = bytes ? c.integer("bits", 4) : bit_width(table->type.dtype);
  Quantization by = {.axis = quantize_axis, .block_size = c.integer("block_size", 128)};
  const Dim& length = table->type.shape[quantize_axis];
  if (by.block_size == 0 && is_float(table->type.dtype) && length.is_constant()) by.block_size = length.constant();
  RTX_TRY(is_float(table->type.dtype) ? Result<void>(Ok{}) : check_blocks(c, bits, by.block_size));
  if (by.block_size < 1) return c.invalid("E321", concat("block_size ", by.block_size));
  if (bytes && bits < 8 && gather_axis == rank - 1) return c.unsupported("packed bytes along the gathered axis");

  Shape shape = table->type.shape;
  if (bytes) shape.back() = shape.back() * Dim(8 / bits);
  RTX_ASSIGN(by.scale, c.input(2));
  RTX_ASSIGN(by.scale, full_scale(c, by.scale, shape, quantize_axis));
  RTX_ASSIGN(by.zero, optional_input(c, 3));
  // What is packed stays so for the lookup.
  const bool looks_up_blocks = gather_axis == quantize_axis;
  auto look_up = [&](Value* value) -> Result<Value*> {
    return looks_up_blocks ? Result<Value*>(value) : rows(c, value, indices, gather_axis);
  };
  RTX_ASSIGN(Value * y, look_up(table));
  const Dim columns = by.scale->type.shape.back();
  RTX_ASSIGN(by.scale, look_up(by.scale));
  if (by.zero) {
    RTX_TRY(c.need_rank(by.zero, rank));
    RTX_ASSIGN(by.zero, look_up(by.zero));
  }
  if (bytes) {
    RTX_ASSIGN(y, unpacked(c, y, bits));
    if (by.zero && bits < 8) {
      RTX_ASSIGN(by.zero, unpacked(c, by.zero, bits));
      RTX_ASSIGN(by.zero, c.slice(by.zero, by.zero->type.rank() - 1, 0, columns));
    } else if (!by.zero) {
      RTX_ASSIGN(by.zero, c.scalar(DType::u8, static_cast<double>(1 << (bits - 1))));
    }
  }
  if (!looks_up_blocks && quantize_axis > gather_axis) by.axis += indices->type.rank() - 1;
  RTX_ASSIGN(y, dequantized(c, y, by, by.scale->type.dtype));
  if (looks_up_blocks) {
    RTX_ASSIGN(y, rows(c, y, indices, gather_axis));
  }
  RTX_ASSIGN(y, zeros_outside(c, y, indices, shape[gather_axis], rank - 1 - gather_axis));
  c.set(0, y);
  return Ok{};
}

constexpr std::string_view microsoft = "com.microsoft";

}  // namespace

constinit const Converter packed_weights_converters[] = {
    {"MatMulNBits", 1, matmul_nbits, never, "K N accuracy_level bits block_size weight_prepacked", 3, 6, microsoft},
    {"GatherBlockQuantized", 1, gather_block_quantized, never, "bits block_size gather_axis quantize_axis", 3, 4,
     microsoft},
};
std::span<const Converter> packed_weights_table() { return packed_weights_converters; }

}  // namespace rtx::onnx
