// Small ONNX models written in C++, for the tests of the importer.
#pragma once

#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "frontend/import.h"
#include "frontend/model.h"
#include "ir/evaluate.h"

namespace rtx::onnx {

// Element types by their ONNX number.
inline constexpr int32_t onnx_f32 = 1, onnx_i32 = 6, onnx_i64 = 7, onnx_bool = 9, onnx_f16 = 10;

struct ModelText {
  Model model;
  int64_t opset;

  explicit ModelText(int64_t opset = 18) : opset(opset) {
    model.path = "m.onnx";
    model.ir_version = 8;
  }

  // Axes are sizes ("3"), names or expressions ("batch"), or "" for an unnamed one.
  static ValueInfo value(std::string name, int32_t type, std::initializer_list<std::string> axes) {
    ValueInfo info;
    info.name = std::move(name);
    info.elem_type = type;
    info.shape.emplace();
    for (const std::string& axis : axes) {
      DeclaredDim dim;
      if (!axis.empty() && axis.find_first_not_of("0123456789") == std::string::npos)
        dim.value = std::stoll(axis);
      else
        dim.param = axis;
      info.shape->push_back(dim);
    }
    return info;
  }

  ModelText& input(std::string name, int32_t type, std::initializer_list<std::string> axes) {
    model.graph.inputs.push_back(value(std::move(name), type, axes));
    return *this;
  }

  // An output without a declared type.
  ModelText& output(std::string name) {
    ValueInfo info;
    info.name = std::move(name);
    model.graph.outputs.push_back(info);
    return *this;
  }

  static WeightEntry entry(const Tensor& tensor) {
    WeightEntry entry;
    entry.dtype = tensor.dtype;
    entry.shape = tensor.shape;
    entry.bytes = static_cast<int64_t>(tensor.bytes.size());
    entry.memory = std::make_shared<const std::vector<std::byte>>(tensor.bytes);
    return entry;
  }

  ModelText& initializer(std::string name, const Tensor& tensor) {
    model.graph.initializers.push_back({std::move(name), entry(tensor), {}});
    return *this;
  }
  ModelText& initializer(std::string name, const std::vector<int64_t>& values) {
    return initializer(std::move(name), Tensor::vector(values));
  }

  Node& add(std::string op_type, std::vector<std::string> inputs, std::vector<std::string> outputs,
            std::vector<Attribute> attributes = {}, std::string domain = "") {
    Node node;
    node.op_type = std::move(op_type);
    node.domain = std::move(domain);
    node.opset = node.domain.empty() ? opset : 1;
    node.inputs = std::move(inputs);
    node.outputs = std::move(outputs);
    node.attributes = std::move(attributes);
    model.graph.nodes.push_back(std::move(node));
    return model.graph.nodes.back();
  }
  ModelText& node(std::string op_type, std::vector<std::string> inputs, std::vector<std::string> outputs,
                  std::vector<Attribute> attributes = {}, std::string domain = "") {
    add(std::move(op_type), std::move(inputs), std::move(outputs), std::move(attributes), std::move(domain));
    return *this;
  }

  Result<ImportResult> import(const ImportOptions& options = {}) const { return import_model(model, options); }
};

template <typename T>
Attribute attribute(std::string name, T value) {
  Attribute result;
  result.name = std::move(name);
  result.value = std::move(value);
  return result;
}
inline Attribute attribute(std::string name, int value) {
  return attribute(std::move(name), static_cast<int64_t>(value));
}
inline Attribute attribute(std::string name, const char* value) {
  return attribute(std::move(name), std::string(value));
}

inline Tensor floats(std::vector<int64_t> shape, const std::vector<double>& values) {
  Tensor tensor(DType::f32, std::move(shape));
  for (size_t i = 0; i < values.size(); ++i) tensor.set_f64(i, values[i]);
  return tensor;
}

inline Tensor integers(std::vector<int64_t> shape, const std::vector<int64_t>& values) {
  Tensor tensor(DType::i64, std::move(shape));
  for (size_t i = 0; i < values.size(); ++i) tensor.set_i64(i, values[i]);
  return tensor;
}

inline std::string describe(const Error& error) {
  std::string text;
  for (const Diagnostic& diagnostic : error.diagnostics) text += to_string(diagnostic);
  return text;
}

}  // namespace rtx::onnx
