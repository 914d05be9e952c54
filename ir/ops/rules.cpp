#include "ir/ops/rules.h"

#include <algorithm>

#include "base/text.h"

namespace rtx {

Diagnostic rule_error(const InferContext& context, std::string_view id, std::string_view message,
                      std::string expected) {
  const OpSpec& record = spec(context.op);
  std::string got;
  for (size_t i = 0; i < context.operands.size(); ++i) {
    if (i > 0) got += ", ";
    append(got, concat(record.operand(i).name, " ", context.operands[i].str()));
  }
  return make_error(ErrorKind::invalid, id, concat(record.name, ": ", message))
      .with_expected(std::move(expected))
      .with_got(std::move(got));
}

Result<void> check_same_dtype(const InferContext& context, size_t first) {
  for (size_t i = first + 1; i < context.operands.size(); ++i) {
    if (context.operands[i].dtype != context.operands[first].dtype) {
      return rule_error(context, "dtype_c1", "operands have different dtypes", "one dtype");
    }
  }
  return Ok{};
}

Result<int64_t> check_axis(const InferContext& context, std::string_view attribute, int rank) {
  int64_t axis = context.attributes.integer(attribute);
  if (axis < 0 || axis >= rank) {
    return rule_error(context, "axis_c1", concat(attribute, " ", axis, " is out of range"),
                      concat("0 <= ", attribute, " < ", rank));
  }
  return axis;
}

Result<Shape> broadcast_shapes(const InferContext& context, const Shape& a, const Shape& b) {
  const Shape& longer = a.size() >= b.size() ? a : b;
  const Shape& shorter = a.size() >= b.size() ? b : a;
  Shape result = longer;
  size_t offset = longer.size() - shorter.size();
  for (size_t i = 0; i < shorter.size(); ++i) {
    Dim& dim = result[offset + i];
    const Dim& other = shorter[i];
    if (other == dim || other.is(1)) continue;
    if (dim.is(1)) {
      dim = other;
    } else if (context.same(dim, other)) {
      if (other.is_constant()) dim = other;
    } else {
      return rule_error(context, "broadcast_c1",
                        concat("shapes do not broadcast: ", to_string(a), " and ", to_string(b)),
                        "axes that are equal or 1, aligned from the right");
    }
  }
  return result;
}

Result<Shape> broadcast_operands(const InferContext& context, size_t first) {
  Shape shape = context.operands[first].shape;
  for (size_t i = first + 1; i < context.operands.size(); ++i) {
    RTX_ASSIGN(shape, broadcast_shapes(context, shape, context.operands[i].shape));
  }
  return shape;
}

bool known_negative(const Dim& dim) { return dim.is_constant() && dim.constant() < 0; }

Result<std::vector<Type>> infer_same_type(const InferContext& context) {
  return std::vector<Type>{context.operands[0]};
}

}  // namespace rtx
