// How often a pointwise or row kernel computes the elements of a value of its body: what it costs to compute the value
// there and not in a kernel of its own.
#pragma once

#include <map>
#include <string>

#include "ir/module.h"

namespace rtx::codegen {

class ElementReads {
 public:
  // The body of a fusion of kind pointwise or row.
  ElementReads(const Block& body, const SymbolRanges& symbols);

  // Upper bound on the number of elements of `value` that all threads together compute or load; elements that one
  // thread needs twice at one place count once. None where that is not known.
  std::optional<Dim> of(const Value* value) const;

 private:
  // By place: results are computed at places "", and each move of elements leads to other ones.
  using Places = std::map<std::string, Dim>;
  void visit(const Operation& operation);
  void add(const Value* value, const std::string& place, const Dim& count);

  const SymbolRanges& symbols_;
  std::map<const Value*, Places> places_;
  size_t next_ = 0;  // number of moves seen
};

}  // namespace rtx::codegen
