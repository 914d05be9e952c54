// Weights of a few bits, packed into bytes (com.microsoft).

#include "frontend/converters/quantization_parts.h"
#include "frontend/converters/tables.h"

namespace rtx::onnx {
namespace {

// u8 [.., bytes] -> i32 [.., bytes * 8 / bits], low bits first.
Result<Value*> unpacked(Conversion& c, Value* packed, int64_t bits) {
  RTX_ASSIGN(Value * whole, c.cast(packed, DType::i32));
  if (bits == 8) return whole;
  int64_t per_byte = 8 / bits;
  Shape column = whole->type.shape;
  column.push_back(1);
  RTX_ASSIGN(Value * modulus, c.scalar(DType::i32, static_cast<double>(1 << bits)));
  std::vector<Value*> parts;
  for (int64_t i = 0; i < per_byte; ++i) {
    Value* part = whole;
    if (i > 0) {
      RTX_ASSIGN(Value * divisor, c.scalar(DType::i32, static_cast<double>(1 << (bits * i))));
      RTX_ASSIGN(part, c.emit(Op::div, {part, divisor}));
    }
    RTX_ASSIGN(part, c.emit(Op::mod, {part, modulus}));
    RTX_ASSIGN(part, c.reshape(part, column));
    parts.push_back(part);
  }
  RTX_ASSIGN(Value * joined, c.emit(Op::concat, parts, {{"axis", static_cast<int64_t>(column.size() - 1)}}));
  Shape shape = whole->type.shape;
  shape.back() = shape.back() * Dim(per_byte);
  return c.reshape(joined, std::move(shape));
}

// com.microsoft.MatMulNBits: A [.., K], B u8 [N, blocks, block * bits / 8], scales [N, blocks] or flat, zero points
// packed, flat or as floats, g_idx, bias (H49).
Result<void> matmul_nbits(Conversion& c) {
  int64_t bits = c.integer("bits", 4), block = c.integer("block_size", 0), k = c.integer("K", 0), n = c.integer("N", 0);
  constexpr int64_t most = int64_t{1} << 30;
  if ((bits != 2 && bits != 4 && bits != 8) || block < 16 || block > most || k < 1 || k > most || n < 1 || n > most)
    return c.invalid("E321", concat("bits ", bits, ", block_size ", block, ", K ", k, ", N ", n));
  if (c.integer("weight_prepacked", 0) != 0) return c.unsupported("prepacked weights");
  if (c.has(4)) return c.unsupported("g_idx");
  if (c.type(1).dtype != DType::u8) return c.unsupported("weights that are not uint8");
  int64_t blocks = (k + block - 1) / block;
  RTX_ASSIGN(Value * a, c.input(0));
  RTX_ASSIGN(Value * packed, c.input(1));
  RTX_ASSIGN(packed, c.reshape(packed, {n, blocks * block * bits / 8}));
  RTX_ASSIGN(Value * scales, c.input(2));
  DType dtype = scales->type.dtype;
  RTX_ASSIGN(scales, c.reshape(scales, {n, blocks, 1}));
  RTX_ASSIGN(Value * weight, unpacked(c, packed, bits));
  RTX_ASSIGN(weight, c.reshape(weight, {n, blocks, block}));
  RTX_ASSIGN(weight, c.cast(weight, dtype));
  Value* zero = nullptr;
  if (!c.has(3)) {
    RTX_ASSIGN(zero, c.scalar(dtype, static_cast<double>(1 << (bits - 1))));
  } else if (c.type(3).dtype == DType::u8) {
    RTX_ASSIGN(zero, c.input(3));
    int64_t row_bytes = (blocks * bits + 7) / 8;
    RTX_ASSIGN(zero, c.reshape(zero, {n, row_bytes}));
    RTX_ASSIGN(zero, unpacked(c, zero, bits));
    RTX_ASSIGN(zero, c.slice(zero, 1, 0, blocks));
    RTX_ASSIGN(zero, c.reshape(zero, {n, blocks, 1}));
  } else {
    RTX_ASSIGN(zero, c.input(3));
    RTX_ASSIGN(zero, c.reshape(zero, {n, blocks, 1}));
  }
  RTX_ASSIGN(zero, c.cast(zero, dtype));
  RTX_ASSIGN(weight, c.emit(Op::sub, {weight, zero}));
  RTX_ASSIGN(weight, c.emit(Op::mul, {weight, scales}));
  RTX_ASSIGN(weight, c.reshape(weight, {n, blocks * block}));
  RTX_ASSIGN(weight, c.slice(weight, 1, 0, k));
  RTX_ASSIGN(weight, c.cast(weight, a->type.dtype));
  Value* y = nullptr;
  if (a->type.rank() == 1) {
    RTX_ASSIGN(a, c.reshape(a, {1, k}));
    RTX_ASSIGN(y, c.emit(Op::matmul, {a, weight}, {{"transpose_rhs", true}}));
    RTX_ASSIGN(y, c.reshape(y, {n}));
  } else {
    RTX_ASSIGN(y, c.emit(Op::matmul, {a, weight}, {{"transpose_rhs", true}}));
  }
  if (c.has(5)) {
    RTX_ASSIGN(Value * bias, c.input(5));
    RTX_ASSIGN(y, c.emit(Op::add, {y, bias}));
  }
  c.set(0, y);
  return Ok{};
}

// com.microsoft.GatherBlockQuantized: rows of a table quantised in blocks along one axis, dequantised after the lookup.
Result<void> gather_block_quantized(Conversion& c) {
  int64_t bits = c.integer("bits", 4), block = c.integer("block_size", 128);
  if ((bits != 2 && bits != 4 && bits != 8) || block < 16 || block > int64_t{1} << 30)
    return c.invalid("E321", concat("bits ", bits, ", block_size ", block));
  RTX_ASSIGN(Value * data, c.input(0));
  RTX_ASSIGN(Value * indices, c.input(1));
  RTX_ASSIGN(Value * scales, c.input(2));
  int rank = data->type.rank();
  RTX_TRY(c.need_rank(2, rank));
  RTX_ASSIGN(int gather_axis, c.axis(c.integer("gather_axis", 0), rank));
  RTX_ASSIGN(int quantize_axis, c.axis(c.integer("quantize_axis", 1), rank));
  DType dtype = scales->type.dtype;
  bool packed = data->type.dtype == DType::u8 && bits < 8;
  if (packed && quantize_axis != rank - 1) return c.unsupported("packed bytes on another axis than the last");
  Value* zero = nullptr;
  if (c.has(3)) {
    RTX_ASSIGN(zero, c.input(3));
    if (packed) {
      RTX_ASSIGN(zero, unpacked(c, zero, bits));
      RTX_ASSIGN(zero, c.slice(zero, rank - 1, 0, scales->type.shape[rank - 1]));
    }
  } else if (data->type.dtype == DType::u8) {
    RTX_ASSIGN(zero, c.scalar(DType::i32, static_cast<double>(1 << (bits - 1))));
  }
  Value* whole = nullptr;
  if (packed) {
    RTX_ASSIGN(whole, unpacked(c, data, bits));
  } else {
    RTX_ASSIGN(whole, c.cast(data, DType::i32));
  }
  Shape shape = whole->type.shape;
  if (zero) {
    RTX_ASSIGN(zero, spread(c, zero, shape, quantize_axis, zero->type.rank() == 0 ? 0 : block));
  }
  RTX_ASSIGN(whole, without_zero(c, whole, zero));
  RTX_ASSIGN(whole, c.cast(whole, dtype));
  RTX_ASSIGN(scales, spread(c, scales, shape, quantize_axis, block));
  RTX_ASSIGN(whole, c.emit(Op::mul, {whole, scales}));
  RTX_ASSIGN(Value * y, c.emit(Op::gather, {whole, indices}, {{"axis", static_cast<int64_t>(gather_axis)}}));
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
