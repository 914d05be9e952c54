#include "ir/op.h"

#include "base/text.h"
#include "ir/module.h"
#include "ir/ops/records.h"

namespace rtx {

namespace {

constexpr const OpSpec* specs[] = {
#define RTX_OP(name, family) &op_##name,
#include "ir/op_list.def"
#undef RTX_OP
};

constexpr Op ops[] = {
#define RTX_OP(name, family) Op::name,
#include "ir/op_list.def"
#undef RTX_OP
};

std::string_view to_string(AttrKind kind) {
  constexpr std::string_view names[] = {"boolean", "integer", "real",  "string", "integers",
                                        "dim",     "dims",    "dtype", "tensor"};
  return names[static_cast<size_t>(kind)];
}

// The default of an attribute from its text in the record. Only kinds whose defaults records use.
AttributeValue parse_fallback(const AttributeSpec& attribute) {
  std::string_view text = attribute.fallback;
  switch (attribute.kind) {
    case AttrKind::boolean:
      return text == "true";
    case AttrKind::integer:
      return static_cast<int64_t>(std::stoll(std::string(text)));
    case AttrKind::real:
      return std::stod(std::string(text));
    case AttrKind::string:
      return std::string(text == "\"\"" ? "" : text);
    case AttrKind::integers:
      return std::vector<int64_t>{};
    case AttrKind::dtype:
      return *parse_dtype(text);
    case AttrKind::dim:
      return Dim(static_cast<int64_t>(std::stoll(std::string(text))));
    case AttrKind::dims:
    case AttrKind::tensor:
      break;
  }
  assert(false && "no default of this kind");
  return false;
}

}  // namespace

const OpSpec& spec(Op op) { return *specs[static_cast<size_t>(op)]; }

std::span<const Op> all_ops() { return ops; }

std::optional<Op> find_op(std::string_view name) {
  for (Op op : ops)
    if (spec(op).name == name) return op;
  return std::nullopt;
}

bool any_dtype(DType) { return true; }
bool float_dtype(DType d) { return d == DType::f64 || d == DType::f32 || d == DType::f16 || d == DType::bf16; }
bool integer_dtype(DType d) { return is_integer(d); }
bool number_dtype(DType d) { return float_dtype(d) || integer_dtype(d); }
bool bool_dtype(DType d) { return d == DType::boolean; }
bool index_dtype(DType d) { return d == DType::i64 || d == DType::i32; }

bool quantized_dtype(DType d) { return (is_integer(d) && d != DType::i64) || d == DType::f8e4m3 || d == DType::f8e5m2; }
bool quantized_or_float_dtype(DType d) { return quantized_dtype(d) || float_dtype(d); }
bool byte_dtype(DType d) { return d == DType::u8; }

bool InferContext::same(const Dim& a, const Dim& b) const { return a == b || (unify && *unify && (*unify)(a, b)); }

size_t OpSpec::operand_spec_count() const {
  size_t count = 0;
  while (count < operands.size() && !operands[count].name.empty()) ++count;
  return count;
}

size_t OpSpec::min_operands() const {
  size_t count = 0;
  while (count < operands.size() && !operands[count].name.empty() && !operands[count].optional) ++count;
  return count;
}

const OperandSpec& OpSpec::operand(size_t index) const {
  size_t count = operand_spec_count();
  return operands[index < count ? index : count - 1];
}

const AttributeSpec* OpSpec::find_attribute(std::string_view name) const {
  for (const AttributeSpec& attribute : attributes)
    if (!attribute.name.empty() && attribute.name == name) return &attribute;
  return nullptr;
}

Result<std::vector<Type>> infer_types(Op op, std::span<const Type> operands, AttributeList& attributes,
                                      std::function<bool(const Dim&, const Dim&)>* unify) {
  const OpSpec& record = spec(op);
  const size_t most = record.operand_spec_count();
  if (operands.size() < record.min_operands() || (operands.size() > most && !record.has(trait_variadic)))
    return make_error(ErrorKind::invalid, "op_operands",
                      concat("'", record.name, "' does not take ", operands.size(), " operands"))
        .with_expected(
            concat(record.min_operands(), record.has(trait_variadic) ? " or more" : "",
                   most != record.min_operands() && !record.has(trait_variadic) ? concat(" to ", most) : ""));
  for (size_t i = 0; i < operands.size(); ++i) {
    const OperandSpec& operand = record.operand(i);
    if (!operand.allows(operands[i].dtype))
      return make_error(ErrorKind::invalid, "op_dtype",
                        concat("operand '", operand.name, "' of '", record.name, "' does not take ",
                               to_string(operands[i].dtype)))
          .with_got(operands[i].str());
    for (const Dim& d : operands[i].shape)
      if (d.overflowed())
        return make_error(ErrorKind::limit, "E511", concat("a dim of operand '", operand.name, "' leaves int64"));
  }

  // Attributes in the order of the record, defaults filled in.
  AttributeList ordered;
  for (const AttributeSpec& attribute : record.attributes) {
    if (attribute.name.empty()) break;
    const AttributeValue* value = attributes.find(attribute.name);
    if (value && kind_of(*value) != attribute.kind)
      return make_error(ErrorKind::invalid, "op_attributes",
                        concat("attribute '", attribute.name, "' of '", record.name, "' has the wrong kind"))
          .with_expected(std::string(to_string(attribute.kind)))
          .with_got(std::string(to_string(kind_of(*value))));
    if (!value && attribute.fallback.empty())
      return make_error(ErrorKind::invalid, "op_attributes",
                        concat("'", record.name, "' needs the attribute '", attribute.name, "'"));
    ordered.set(attribute.name, value ? *value : parse_fallback(attribute));
  }
  for (const auto& [name, value] : attributes.entries())
    if (!record.find_attribute(name))
      return make_error(ErrorKind::invalid, "op_attributes",
                        concat("'", record.name, "' has no attribute '", name, "'"));
  attributes = std::move(ordered);

  if (!record.infer) return std::vector<Type>{};
  RTX_ASSIGN(std::vector<Type> types, record.infer({op, operands, attributes, unify}));
  for (const Type& type : types)
    for (const Dim& d : type.shape)
      if (d.overflowed())
        return make_error(ErrorKind::limit, "E511", concat("a result dim of '", record.name, "' leaves int64"));
  return types;
}

}  // namespace rtx
