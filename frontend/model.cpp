#include "frontend/model.h"

#include <cstring>

#include "base/text.h"

namespace rtx::onnx {

const Attribute* Node::find(std::string_view attribute_name) const {
  for (const Attribute& attribute : attributes)
    if (attribute.name == attribute_name) return &attribute;
  return nullptr;
}

std::string Node::str() const {
  std::string_view shown = name;
  if (shown.empty()) {
    for (const std::string& output : outputs) {
      if (!output.empty()) {
        shown = output;
        break;
      }
    }
  }
  const std::string op = domain.empty() ? op_type : concat(domain, ".", op_type);
  return concat("node '", escape_text(shown), "' (", escape_text(op), ")");
}

std::string Node::origin() const { return scope.empty() ? str() : concat(str(), " in ", escape_text(scope)); }

Result<Tensor> load(const WeightEntry& entry) {
  Tensor tensor;
  tensor.dtype = entry.dtype;
  tensor.shape = entry.shape;
  if (entry.memory) {
    tensor.bytes = *entry.memory;
  } else {
    tensor.bytes.resize(static_cast<size_t>(entry.bytes));
    if (entry.file && entry.bytes > 0) RTX_TRY(entry.file->read(entry.offset, tensor.bytes));
  }
  return tensor;
}

}  // namespace rtx::onnx
