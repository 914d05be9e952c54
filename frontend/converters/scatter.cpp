// Scatters: a tensor with updates written into it at given indices.

#include "frontend/converters/indexing_parts.h"

namespace rtx::onnx {
namespace {

struct Reduction {
  std::string name;
  DType dtype;  // to compute in
};

Result<Reduction> reduction_of(Conversion& c) {
  Reduction reduction = {c.string("reduction", "none"), c.type(0).dtype};
  std::string& name = reduction.name;
  bool before_18 = name == "none" || name == "add" || name == "mul";
  bool known = before_18 || (c.node().opset >= 18 && (name == "min" || name == "max"));
  if (!known) return c.invalid("E321", concat("attribute reduction is '", escape_text(name), "'"));
  if (reduction.dtype == DType::boolean && name != "none") {
    // Of 0 and 1: the sum is "or", the product is "and".
    name = name == "add" || name == "max" ? "max" : "min";
    reduction.dtype = DType::u8;
  }
  return reduction;
}

Result<void> scatter(Conversion& c, Op op, AttributeList attributes) {
  RTX_ASSIGN(Reduction reduction, reduction_of(c));
  RTX_ASSIGN(Value * data, c.input(0));
  RTX_ASSIGN(Value * indices, c.input(1));
  RTX_ASSIGN(Value * updates, c.input(2));
  DType dtype = data->type.dtype;
  RTX_ASSIGN(data, c.cast(data, reduction.dtype));
  if (updates->type.dtype == dtype) {
    RTX_ASSIGN(updates, c.cast(updates, reduction.dtype));
  }
  attributes.set("reduction", reduction.name);
  RTX_ASSIGN(Value * y, c.emit(op, {data, indices, updates}, std::move(attributes)));
  RTX_ASSIGN(y, c.cast(y, dtype));
  c.set(0, y);
  return Ok{};
}

Result<void> scatter_elements(Conversion& c) {
  RTX_ASSIGN(int axis, c.axis(c.integer("axis", 0), c.rank(0)));
  RTX_TRY(check_indices(c, std::span(&c.type(0).shape[axis], 1)));
  return scatter(c, Op::scatter_elements, {{"axis", static_cast<int64_t>(axis)}});
}

Result<void> scatter_nd(Conversion& c) {
  RTX_TRY(check_indices(c, indexed_axes(c.type(0).shape, c.type(1).shape, 0)));
  return scatter(c, Op::scatter_nd, {});
}

bool replaces(const Node& node) {
  const Attribute* reduction = node.find("reduction");
  const auto* name = reduction ? std::get_if<std::string>(&reduction->value) : nullptr;
  return !reduction || (name && *name == "none");
}

// Data and updates are moved about, where nothing is computed from both.
constexpr SymbolicRule moves_data_and_updates = {SymbolicRule::Kind::move, 0b101, nullptr, false, replaces};

}  // namespace

constinit const Converter scatter_converters[] = {
    {"Scatter", 9, scatter_elements, moves_data_and_updates, "axis", 3, 3},
    {"ScatterElements", 11, scatter_elements, moves_data_and_updates, "axis", 3, 3},
    {"ScatterElements", 16, scatter_elements, moves_data_and_updates, "axis reduction", 3, 3},
    {"ScatterND", 11, scatter_nd, moves_data_and_updates, "", 3, 3},
    {"ScatterND", 16, scatter_nd, moves_data_and_updates, "reduction", 3, 3},
};
std::span<const Converter> scatter_table() { return scatter_converters; }

}  // namespace rtx::onnx
