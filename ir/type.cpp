#include "ir/type.h"

#include <algorithm>

#include "base/text.h"

namespace rtx {

bool Type::is_static() const {
  return std::all_of(shape.begin(), shape.end(), [](const Dim& d) { return d.is_constant(); });
}

Dim Type::element_count() const {
  Dim count(1);
  for (const Dim& d : shape) count = count * d;
  return count;
}

std::string Type::str() const { return concat("tensor<", to_string(shape), ", ", to_string(dtype), ">"); }

std::string to_string(const Shape& shape) {
  return concat("[", join(shape, ", ", [](const Dim& d) { return d.str(); }), "]");
}

}  // namespace rtx
