// Op and OpSpec: the list of operations, and the one record that says everything about each.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>

#include "ir/attribute.h"
#include "ir/type.h"

namespace rtx {

enum class Op : uint16_t {
#define RTX_OP(name, family) name,
#include "ir/op_list.def"
#undef RTX_OP
};

// Groups that fusion and planning reason about. `core` ops have a meaning of their own; `composite` ops have an
// expansion into core ops; `structure` ops hold or name things (constant, weight, fusion, return).
enum class OpFamily : uint8_t {
  elementwise,
  movement,
  indexing,
  scatter,
  reduction,
  ordering,
  contraction,
  composite,
  structure
};

// Bits of OpSpec::traits.
enum Trait : uint32_t {
  trait_none = 0,
  trait_commutative = 1u << 0,   // the first two operands may be swapped
  trait_idempotent = 1u << 1,    // op(op(x)) == op(x)
  trait_variadic = 1u << 2,      // the last operand entry repeats one or more times
  trait_broadcasts = 1u << 3,    // operands broadcast to the result as in numpy
  trait_has_body = 1u << 4,      // holds a block of operations
  trait_no_fold = 1u << 5,       // never folded (its value is elsewhere, as of `weight`)
  trait_keep_compact = 1u << 6,  // undoes a compact form of weights: folded only where the result is no larger
};

// What convert_precision does with an operation on f32. An operation that says nothing stays in f32.
enum class Precision : uint8_t {
  wide,     // f32: long sums, functions that enlarge errors, what turns numbers into places
  follows,  // half where operands come from operations in half and all results go to such
  moves,    // copies elements; half where its operand or what it is for is
  narrow,   // half wherever the values allow it; sums stay in f32 inside
};

using DTypePredicate = bool (*)(DType);
bool any_dtype(DType);
bool float_dtype(DType);    // f64 f32 f16 bf16 (not f8)
bool integer_dtype(DType);  // not bool
bool number_dtype(DType);   // float_dtype or integer_dtype
bool bool_dtype(DType);
bool index_dtype(DType);      // i64 i32
bool quantized_dtype(DType);  // i32 i16 i8 u8 i4 u4 f8e4m3 f8e5m2
bool quantized_or_float_dtype(DType);
bool byte_dtype(DType);  // u8

struct OperandSpec {
  std::string_view name;
  DTypePredicate allows = nullptr;
  bool optional = false;  // trailing optional operands may be left out; there are no holes
};

struct AttributeSpec {
  std::string_view name;
  AttrKind kind = AttrKind::integer;
  std::string_view fallback;  // the text of the default; empty: required
};

// What infer sees. Operand dtypes and attribute kinds have been checked against the record.
struct InferContext {
  Op op;
  std::span<const Type> operands;
  const AttributeList& attributes;
  // Asked when two dims must be equal and are not the same expression. Returns true to go on as if they were (the
  // importer then substitutes a symbol and infers again). Null: they differ.
  std::function<bool(const Dim&, const Dim&)>* unify = nullptr;

  // True if the dims are equal or could be made so.
  bool same(const Dim& a, const Dim& b) const;
};

class WeightStore;
class Operation;
class Builder;
class Value;

// What evaluate sees: concrete operands, the symbol binding, and the result types with their shapes made concrete.
struct EvaluateContext {
  Op op;
  std::span<const Tensor* const> operands;
  const AttributeList& attributes;
  const SymbolValues& symbols;
  std::span<const Tensor> results;  // zero-filled, right dtype and shape: the types to produce
  const WeightStore* weights = nullptr;
};

struct OpSpec {
  std::string_view name;
  OpFamily family = OpFamily::elementwise;
  std::string_view summary;
  std::array<OperandSpec, 8> operands = {};
  std::array<AttributeSpec, 8> attributes = {};
  uint32_t traits = trait_none;
  Precision precision = Precision::wide;
  // Result types from operand types and attributes, or what is wrong. The rule numbers (`matmul_c1`) are the ids of
  // the diagnostics.
  Result<std::vector<Type>> (*infer)(const InferContext&) = nullptr;
  // The meaning: f64 (or int64) arithmetic, rounded to the dtype at each value. Null only for structure ops.
  Result<std::vector<Tensor>> (*evaluate)(const EvaluateContext&) = nullptr;
  // The operation in core ops, for what has no kernel of its own: gives the value that replaces its only result. Null
  // where devices take the operation whole.
  Result<Value*> (*expand)(const Operation&, Builder&) = nullptr;

  size_t operand_spec_count() const;
  size_t min_operands() const;
  const OperandSpec& operand(size_t index) const;  // the last entry repeats where variadic
  const AttributeSpec* find_attribute(std::string_view name) const;
  bool has(Trait trait) const { return (traits & trait) != 0; }
};

const OpSpec& spec(Op op);
inline std::string_view to_string(Op op) { return spec(op).name; }
std::optional<Op> find_op(std::string_view name);
std::span<const Op> all_ops();

}  // namespace rtx
