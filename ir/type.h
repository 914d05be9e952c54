// Type: the element type and shape of a value. Rank 0 and axes of length 0 are legal everywhere.
#pragma once

#include <string>
#include <vector>

#include "base/dtype.h"
#include "ir/dim.h"

namespace rtx {

using Shape = std::vector<Dim>;

struct Type {
  DType dtype = DType::f32;
  Shape shape;

  int rank() const { return static_cast<int>(shape.size()); }
  bool operator==(const Type&) const = default;
  bool is_static() const;
  // The product of all axes; 1 for rank 0.
  Dim element_count() const;
  // "tensor<[batch, 768], f32>"; rank 0 is "tensor<[], f32>".
  std::string str() const;
};

std::string to_string(const Shape& shape);  // "[batch, 768]"

}  // namespace rtx
