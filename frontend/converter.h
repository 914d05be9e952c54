// Converters: how one ONNX operator, from one version on, becomes IR.
//
// Every converter is one row of a table in converters/<family>.cpp; converters/table.cpp joins the tables. The importer
// takes the row with the greatest `since` that is not above the node's opset.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "frontend/conversion.h"
#include "frontend/symbolic.h"

namespace rtx::onnx {

using Convert = Result<void> (*)(Conversion&);

// How the importer computes the outputs of a node whose inputs have known contents, without emitting anything.
struct SymbolicRule {
  enum class Kind : uint8_t {
    none,        // always emit
    fold,        // when all inputs are constant: convert into a scratch block and evaluate that
    move,        // the inputs in `moved` are only moved about: as fold, on element numbers in place of elements
    arithmetic,  // elementwise by `arithmetic`; as fold when all inputs are constant
  };
  Kind kind = Kind::none;
  uint32_t moved = 0;  // bit i: input i
  Arithmetic arithmetic = nullptr;
  bool gives_bool = false;  // the result is bool; else it has the type of the last input, or of the attribute `to`
  // Whether the rule holds for the node; where not, it is `fold`. Null: always.
  bool (*applies)(const Node&) = nullptr;
};

inline constexpr SymbolicRule never{};
inline constexpr SymbolicRule fold{SymbolicRule::Kind::fold};
inline constexpr SymbolicRule moves_first{SymbolicRule::Kind::move, 1u};
inline constexpr SymbolicRule moves_all{SymbolicRule::Kind::move, ~0u};
constexpr SymbolicRule elementwise(Arithmetic arithmetic) { return {SymbolicRule::Kind::arithmetic, 0, arithmetic}; }
constexpr SymbolicRule predicate(Arithmetic arithmetic) {
  return {SymbolicRule::Kind::arithmetic, 0, arithmetic, true};
}

struct Converter {
  std::string_view op_type;
  int64_t since = 1;
  Convert convert = nullptr;
  SymbolicRule symbolic;
  // Names that the node may have, separated by blanks; any other is an error (H04: a newer or older form of the
  // operator would be misread).
  std::string_view attributes;
  int min_inputs = 1;
  int max_inputs = 1;
  std::string_view domain;  // "" is the default domain
  int max_outputs = 1;
  uint32_t optional_inputs = 0;  // bit i: input i may be left out although others below min_inputs come after it
  bool takes_sequences = false;  // else an input that is a sequence is refused
};

inline constexpr int any_number = 1 << 30;

// For node.domain, op_type and opset. Null: no row; `known` then says whether the operator has rows at later versions.
const Converter* find_converter(std::string_view domain, std::string_view op_type, int64_t opset, bool* known);

// The oldest version of an operator that has a row; 0 where it has none.
int64_t first_version(std::string_view domain, std::string_view op_type);

// All rows, for documentation and tests.
std::span<const std::span<const Converter>> all_converters();

}  // namespace rtx::onnx
