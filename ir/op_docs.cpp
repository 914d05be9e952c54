#include "ir/op_docs.h"

#include "base/text.h"
#include "ir/op.h"

namespace rtx {

namespace {

std::string_view family_title(OpFamily family) {
  switch (family) {
    case OpFamily::structure:
      return "Structure";
    case OpFamily::elementwise:
      return "Elementwise";
    case OpFamily::movement:
      return "Movement";
    case OpFamily::indexing:
      return "Indexing";
    case OpFamily::scatter:
      return "Scatter";
    case OpFamily::reduction:
      return "Reduction";
    case OpFamily::ordering:
      return "Ordering";
    case OpFamily::contraction:
      return "Contraction";
    case OpFamily::composite:
      return "Composite";
  }
  return "";
}

std::string_view predicate_text(DTypePredicate predicate) {
  struct Text {
    DTypePredicate predicate;
    std::string_view text;
  };
  static constexpr Text texts[] = {{any_dtype, "any"},
                                   {float_dtype, "float"},
                                   {integer_dtype, "integer"},
                                   {number_dtype, "number"},
                                   {bool_dtype, "bool"},
                                   {index_dtype, "index"},
                                   {quantized_dtype, "quantized"},
                                   {quantized_or_float_dtype, "quantized or float"},
                                   {byte_dtype, "u8"}};
  for (const Text& entry : texts) {
    if (entry.predicate == predicate) return entry.text;
  }
  return "?";
}

std::string_view kind_text(AttrKind kind) {
  switch (kind) {
    case AttrKind::boolean:
      return "boolean";
    case AttrKind::integer:
      return "integer";
    case AttrKind::real:
      return "real";
    case AttrKind::string:
      return "string";
    case AttrKind::integers:
      return "integers";
    case AttrKind::dim:
      return "dim";
    case AttrKind::dims:
      return "dims";
    case AttrKind::dtype:
      return "dtype";
    case AttrKind::tensor:
      return "tensor";
  }
  return "";
}

std::string operands_text(const OpSpec& record) {
  std::string text;
  for (size_t i = 0; i < record.operand_spec_count(); ++i) {
    const OperandSpec& operand = record.operands[i];
    if (i > 0) text += ", ";
    bool repeats = record.has(trait_variadic) && i + 1 == record.operand_spec_count();
    text +=
        concat(operand.name, repeats ? "..." : "", operand.optional ? "?" : "", ": ", predicate_text(operand.allows));
  }
  return text;
}

std::string attributes_text(const OpSpec& record) {
  std::string text;
  for (const AttributeSpec& attribute : record.attributes) {
    if (attribute.name.empty()) break;
    if (!text.empty()) text += ", ";
    text += concat(attribute.name, ": ", kind_text(attribute.kind));
    if (!attribute.fallback.empty()) text += concat(" = ", attribute.fallback);
  }
  return text;
}

}  // namespace

std::string ops_markdown() {
  std::string text =
      "# Operations\n\n"
      "Written by `rtx-opt --list-ops` from the records in `ir/ops/`; do not edit. ir.md explains the notation.\n"
      "`float`: f64 f32 f16 bf16. `integer`: not bool. `number`: float or integer. `index`: i64 i32.\n"
      "`quantized`: i32 i16 i8 u8 i4 u4 f8e4m3 f8e5m2.\n"
      "`?` may be left out, `...` repeats, `=` gives the default.\n";
  for (OpFamily family :
       {OpFamily::structure, OpFamily::elementwise, OpFamily::movement, OpFamily::indexing, OpFamily::scatter,
        OpFamily::reduction, OpFamily::ordering, OpFamily::contraction, OpFamily::composite}) {
    text += concat("\n## ", family_title(family), "\n\n| op | operands | attributes | meaning |\n|---|---|---|---|\n");
    for (Op op : all_ops()) {
      const OpSpec& record = spec(op);
      if (record.family != family) continue;
      std::string summary;
      for (char c : record.summary) summary += c == '|' ? std::string("\\|") : std::string(1, c);
      text += concat("| `", record.name, "` | ", operands_text(record), " | ", attributes_text(record), " | ", summary,
                     record.has(trait_commutative) ? " Commutative." : "",
                     record.has(trait_broadcasts) ? " Broadcasts." : "", " |\n");
    }
  }
  return text;
}

}  // namespace rtx
