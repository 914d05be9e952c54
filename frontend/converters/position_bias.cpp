// com.microsoft: biases of relative positions (T5, WavLM), and the inverse of small matrices.

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "frontend/converters/attention_parts.h"
#include "frontend/converters/tables.h"

namespace rtx::onnx {
namespace {

// ---- RelativePositionBias: bias_table [buckets, heads], query_length, key_length -> [1, heads, queries, keys]

// The bucket of each distance up to `max_distance`, from which on all share the last one: half of the buckets are
// exact, the others grow as the logarithm (https://arxiv.org/abs/1910.10683, section 2.1). In f32, as T5 computes it.
Tensor distance_buckets(int64_t buckets, int64_t max_distance) {
  const int64_t exact = buckets / 2;
  Tensor table(DType::i64, {max_distance + 1});
  for (int64_t distance = 0; distance <= max_distance; ++distance) {
    int64_t bucket = distance;
    if (distance >= exact) {
      const float ratio = std::log(static_cast<float>(distance) / static_cast<float>(exact)) /
                          std::log(static_cast<float>(max_distance) / static_cast<float>(exact));
      bucket = exact + static_cast<int64_t>(ratio * static_cast<float>(buckets - exact));
    }
    table.set_i64(distance, std::min(bucket, buckets - 1));
  }
  return table;
}

Result<void> relative_position_bias(Conversion& c) {
  constexpr int64_t most_distance = 1 << 16;
  const bool both_ways = c.integer("is_bidirectional", 0) != 0;
  const int64_t max_distance = c.integer("max_distance", 0);
  RTX_TRY(c.need_rank(size_t{0}, 2));
  RTX_ASSIGN(Value * table, c.input(0));
  const Dim &rows = table->type.shape[0], heads = table->type.shape[1];
  if (!rows.is_constant() || rows.constant() < (both_ways ? 4 : 2))
    return c.invalid("E327", "the table needs more buckets").with_got(table->type.str());
  const int64_t buckets = both_ways ? rows.constant() / 2 : rows.constant();
  if (max_distance <= buckets / 2 || max_distance > most_distance)
    return c.invalid("E321", concat("max_distance ", max_distance, " with ", buckets, " buckets"));
  Dim lengths[2];
  for (size_t i = 0; i < 2; ++i) {
    RTX_ASSIGN(std::vector<Dim> given, c.dims(i + 1));
    if (given.size() != 1) return c.invalid("E327", concat("input ", i + 1, " must have one element"));
    lengths[i] = given[0];
  }
  RTX_ASSIGN(Value * query, c.iota(DType::i64, 2, 0, lengths[0]));
  RTX_ASSIGN(Value * key, c.iota(DType::i64, 2, 1, lengths[1]));
  RTX_ASSIGN(Value * ahead, c.emit(Op::sub, {key, query}));
  RTX_ASSIGN(Value * distance, c.emit(Op::sub, {query, key}));
  RTX_ASSIGN(Value * zero, c.scalar(DType::i64, 0));
  RTX_ASSIGN(distance, both_ways ? c.emit(Op::abs, {distance}) : c.emit(Op::maximum, {distance, zero}));
  RTX_ASSIGN(Value * farthest, c.scalar(DType::i64, static_cast<double>(max_distance)));
  RTX_ASSIGN(distance, c.emit(Op::minimum, {distance, farthest}));
  RTX_ASSIGN(Value * by_distance, c.constant(distance_buckets(buckets, max_distance)));
  RTX_ASSIGN(Value * bucket, c.emit(Op::gather, {by_distance, distance}, {{"axis", int64_t{0}}}));
  if (both_ways) {
    // Keys after the query have the upper half of the table.
    RTX_ASSIGN(Value * half, c.scalar(DType::i64, static_cast<double>(buckets)));
    RTX_ASSIGN(Value * is_after, c.emit(Op::less, {zero, ahead}));
    RTX_ASSIGN(Value * offset, c.emit(Op::select, {is_after, half, zero}));
    RTX_ASSIGN(bucket, c.emit(Op::add, {bucket, offset}));
  }
  // "Column-major": the buckets of one head follow one another.
  RTX_ASSIGN(table, c.reshape(table, {heads, rows}));
  RTX_ASSIGN(Value * y, c.emit(Op::gather, {table, bucket}, {{"axis", int64_t{1}}}));
  RTX_ASSIGN(y, c.reshape(y, {1, heads, lengths[0], lengths[1]}));
  c.set(0, y);
  return Ok{};
}

// ---- GatedRelativePositionBias: query_layer, query_bias, rel_pos, weight, bias, eco_a, token_offset
//
// u, r = sigmoid(sums of the two halves of (q * weight + bias)); y = (u * (r * eco_a - 1) + 2) * rel_pos

Result<void> gated_relative_position_bias(Conversion& c) {
  const int64_t heads = c.integer("num_heads", 0);
  if (heads < 1) return c.invalid("E324", "attribute 'num_heads' is missing");
  if (c.has(6)) return c.unsupported("token_offset, which packs the tokens without padding");
  for (size_t i = 0; i < 6; ++i) RTX_TRY(c.need_rank(i, std::array{3, 1, 4, 2, 1, 4}[i]));
  Value* inputs[6];
  for (size_t i = 0; i < 6; ++i) {
    RTX_ASSIGN(inputs[i], c.input(i));
  }
  auto [x, query_bias, positions, weight, bias, scale] = inputs;
  RTX_ASSIGN(Value * q, c.emit(Op::add, {x, query_bias}));
  RTX_ASSIGN(q, split_heads(c, q, heads));
  RTX_ASSIGN(Value * gates, c.emit(Op::matmul, {q, weight}));
  RTX_ASSIGN(gates, c.emit(Op::add, {gates, bias}));
  const Shape shape = gates->type.shape;
  auto half = shape[3].divided_by(2);
  if (!half) return c.invalid("E327", "the weight needs an even number of columns").with_got(weight->type.str());
  Value* parts[2];
  for (int i = 0; i < 2; ++i) {
    RTX_ASSIGN(parts[i], c.slice(gates, 3, *half * Dim(i), *half));
    RTX_ASSIGN(parts[i], c.reduce(Op::reduce_sum, parts[i], {3}, true));
    RTX_ASSIGN(parts[i], c.emit(Op::sigmoid, {parts[i]}));
  }
  RTX_ASSIGN(Value * one, c.scalar(x->type.dtype, 1));
  RTX_ASSIGN(Value * two, c.scalar(x->type.dtype, 2));
  RTX_ASSIGN(Value * y, c.emit(Op::mul, {parts[1], scale}));
  RTX_ASSIGN(y, c.emit(Op::sub, {y, one}));
  RTX_ASSIGN(y, c.emit(Op::mul, {parts[0], y}));
  RTX_ASSIGN(y, c.emit(Op::add, {y, two}));
  RTX_ASSIGN(y, c.emit(Op::mul, {y, positions}));
  c.set(0, y);
  return Ok{};
}

// ---- Inverse: the adjugate over the determinant, in f64

// Determinants of the square parts of one matrix, each computed once.
class Minors {
 public:
  Minors(Conversion& c, Value* matrix) : c_(c), matrix_(matrix) {}

  // Of the rows and columns whose bits are set (equally many, at least one), expanded along the first row. [..., 1, 1]
  Result<Value*> determinant(unsigned rows, unsigned columns) {
    if (Value* known = known_[{rows, columns}]) return known;
    const int row = first(rows);
    Value* sum = nullptr;
    bool is_minus = false;
    for (int column = 0; columns >> column != 0; ++column) {
      if (!(columns >> column & 1)) continue;
      RTX_ASSIGN(Value * term, element(row, column));
      if (const unsigned rest = rows & ~(1u << row)) {
        RTX_ASSIGN(Value * minor, determinant(rest, columns & ~(1u << column)));
        RTX_ASSIGN(term, c_.emit(Op::mul, {term, minor}));
      }
      if (sum) {
        RTX_ASSIGN(sum, c_.emit(is_minus ? Op::sub : Op::add, {sum, term}));
      } else {
        sum = term;
      }
      is_minus = !is_minus;
    }
    known_[{rows, columns}] = sum;
    return sum;
  }

 private:
  static int first(unsigned bits) {
    int index = 0;
    while (!(bits >> index & 1)) ++index;
    return index;
  }

  Result<Value*> element(int row, int column) {
    const int rank = matrix_->type.rank();
    RTX_ASSIGN(Value * part, c_.slice(matrix_, rank - 2, row, 1));
    return c_.slice(part, rank - 1, column, 1);
  }

  Conversion& c_;
  Value* matrix_;
  std::map<std::pair<unsigned, unsigned>, Value*> known_;
};

Result<void> inverse(Conversion& c) {
  constexpr int64_t largest = 4;
  RTX_ASSIGN(Value * x, c.input(0));
  const int rank = x->type.rank();
  if (rank < 2) return c.invalid("E327", "the input needs rank 2 or more").with_got(x->type.str());
  const Dim &rows = x->type.shape[rank - 2], columns = x->type.shape[rank - 1];
  if (rows != columns && !c.unify(rows, columns))
    return c.invalid("E327", "the matrices must be square").with_got(x->type.str());
  if (!columns.is_constant() || columns.constant() < 1 || columns.constant() > largest)
    return c.unsupported(concat("the inverse of matrices of ", columns.str(), " columns"))
        .with_expected(concat("a static size from 1 to ", largest));
  const int size = static_cast<int>(columns.constant());
  const unsigned all = (1u << size) - 1;
  RTX_ASSIGN(Value * wide, c.cast(x, DType::f64));
  Minors minors(c, wide);
  RTX_ASSIGN(Value * determinant, minors.determinant(all, all));
  std::vector<Value*> adjugate;
  for (int i = 0; i < size; ++i) {
    std::vector<Value*> row;
    for (int j = 0; j < size; ++j) {
      // Entry [i, j] of the inverse is cofactor [j, i].
      Value* minor = nullptr;
      if (size == 1) {
        RTX_ASSIGN(minor, c.scalar(DType::f64, 1));
        RTX_ASSIGN(minor, c.broadcast(minor, wide->type.shape));
      } else {
        RTX_ASSIGN(minor, minors.determinant(all & ~(1u << j), all & ~(1u << i)));
      }
      if ((i + j) % 2 != 0) {
        RTX_ASSIGN(minor, c.emit(Op::neg, {minor}));
      }
      row.push_back(minor);
    }
    Value* joined = row[0];
    if (size > 1) {
      RTX_ASSIGN(joined, c.emit(Op::concat, std::move(row), {{"axis", static_cast<int64_t>(rank - 1)}}));
    }
    adjugate.push_back(joined);
  }
  Value* y = adjugate[0];
  if (size > 1) {
    RTX_ASSIGN(y, c.emit(Op::concat, std::move(adjugate), {{"axis", static_cast<int64_t>(rank - 2)}}));
  }
  RTX_ASSIGN(y, c.emit(Op::div, {y, determinant}));
  RTX_ASSIGN(y, c.cast(y, x->type.dtype));
  c.set(0, y);
  return Ok{};
}

constexpr std::string_view microsoft = "com.microsoft";

}  // namespace

constinit const Converter position_bias_converters[] = {
    {"RelativePositionBias", 1, relative_position_bias, never, "is_bidirectional max_distance", 3, 3, microsoft},
    {"GatedRelativePositionBias", 1, gated_relative_position_bias, never, "num_heads", 6, 7, microsoft},
    {"Inverse", 1, inverse, never, "", 1, 1, microsoft},
};
std::span<const Converter> position_bias_table() { return position_bias_converters; }

}  // namespace rtx::onnx
