// Attribute: a compile-time parameter of an operation, and the ordered list of them that an operation holds.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"
#include "ir/dim.h"
#include "ir/tensor.h"
#include "ir/type.h"

namespace rtx {

enum class AttrKind : uint8_t {
  boolean,   // true / false
  integer,   // int64
  real,      // f64, printed so that it reads back to the same bits
  string,    // "..."
  integers,  // [1, -2]
  dim,       // a Dim expression
  dims,      // [batch, seq*2]
  dtype,     // f32
  tensor,    // dense<[2, 2], f32, [1, 2, 3, 4]>
};

// The order of the alternatives is the order of AttrKind.
using AttributeValue = std::variant<bool, int64_t, double, std::string, std::vector<int64_t>, Dim, std::vector<Dim>,
                                    DType, Tensor>;

inline AttrKind kind_of(const AttributeValue& value) { return static_cast<AttrKind>(value.index()); }

// A small map from name to value that keeps insertion order; equality and text depend on names and values only, since
// builders put attributes in the order of the op's record.
class AttributeList {
 public:
  AttributeList() = default;
  AttributeList(std::initializer_list<std::pair<std::string, AttributeValue>> entries) : entries_(entries) {}

  const AttributeValue* find(std::string_view name) const;
  void set(std::string_view name, AttributeValue value);
  bool erase(std::string_view name);
  const std::vector<std::pair<std::string, AttributeValue>>& entries() const { return entries_; }
  bool operator==(const AttributeList&) const = default;

  // The value of an attribute that is known to exist with this kind (the verifier has checked, or infer runs after the
  // check of kinds). Asserts otherwise.
  template <typename T>
  const T& get(std::string_view name) const {
    const AttributeValue* value = find(name);
    assert(value && std::holds_alternative<T>(*value));
    return std::get<T>(*value);
  }
  bool boolean(std::string_view name) const { return get<bool>(name); }
  int64_t integer(std::string_view name) const { return get<int64_t>(name); }
  double real(std::string_view name) const { return get<double>(name); }
  const std::string& string(std::string_view name) const { return get<std::string>(name); }
  const std::vector<int64_t>& integers(std::string_view name) const { return get<std::vector<int64_t>>(name); }
  const Dim& dim(std::string_view name) const { return get<Dim>(name); }
  const std::vector<Dim>& dims(std::string_view name) const { return get<std::vector<Dim>>(name); }
  DType dtype(std::string_view name) const { return get<DType>(name); }
  const Tensor& tensor(std::string_view name) const { return get<Tensor>(name); }

 private:
  std::vector<std::pair<std::string, AttributeValue>> entries_;
};

}  // namespace rtx
