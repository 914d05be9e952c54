// Small ONNX models for the tests of the reader, made with the generated classes or byte by byte.
#pragma once

#include <doctest/doctest.h>

#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "frontend/read_model.h"
#include "rtx_onnx.pb.h"
#include "tests/temp_folder.h"

namespace rtx::onnx {

namespace proto = onnx_schema;

inline proto::ValueInfoProto value_proto(std::string_view name, std::initializer_list<int64_t> dims,
                                         int elem_type = proto::TensorProto::FLOAT) {
  proto::ValueInfoProto value;
  value.set_name(std::string(name));
  auto* type = value.mutable_type()->mutable_tensor_type();
  type->set_elem_type(elem_type);
  type->mutable_shape();
  for (int64_t dim : dims) type->mutable_shape()->add_dim()->set_dim_value(dim);
  return value;
}

inline proto::NodeProto node_proto(std::string_view op_type, std::initializer_list<std::string_view> inputs,
                                   std::initializer_list<std::string_view> outputs, std::string_view domain = {}) {
  proto::NodeProto node;
  node.set_op_type(std::string(op_type));
  if (!domain.empty()) node.set_domain(std::string(domain));
  for (std::string_view input : inputs) node.add_input(std::string(input));
  for (std::string_view output : outputs) node.add_output(std::string(output));
  return node;
}

inline void add(proto::GraphProto& graph, proto::NodeProto node) { *graph.add_node() = std::move(node); }

inline proto::AttributeProto attribute_proto(std::string_view name, proto::AttributeProto::AttributeType type) {
  proto::AttributeProto attribute;
  attribute.set_name(std::string(name));
  attribute.set_type(type);
  return attribute;
}
inline proto::AttributeProto int_attribute(std::string_view name, int64_t value) {
  proto::AttributeProto attribute = attribute_proto(name, proto::AttributeProto::INT);
  attribute.set_i(value);
  return attribute;
}
inline proto::AttributeProto ints_attribute(std::string_view name, std::initializer_list<int64_t> values) {
  proto::AttributeProto attribute = attribute_proto(name, proto::AttributeProto::INTS);
  for (int64_t value : values) attribute.add_ints(value);
  return attribute;
}
inline proto::AttributeProto graph_attribute(std::string_view name, proto::GraphProto graph) {
  proto::AttributeProto attribute = attribute_proto(name, proto::AttributeProto::GRAPH);
  *attribute.mutable_g() = std::move(graph);
  return attribute;
}

// Wire format by hand.
inline std::string varint(uint64_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  return out + static_cast<char>(value);
}
inline std::string tag(int field, int wire_type) {
  return varint(static_cast<uint64_t>(field) << 3 | static_cast<uint64_t>(wire_type));
}
inline std::string message(int field, std::string_view body) {
  return concat(tag(field, 2), varint(body.size()), body);
}

// Fields of ModelProto, GraphProto and NodeProto.
inline constexpr int model_ir_version = 1, model_graph = 7, model_opset = 8;
inline constexpr int graph_node = 1, graph_name = 2, graph_initializer = 5;
inline constexpr int node_input = 1, node_op_type = 4;

// A graph y = Relu(x), x and y f32[4], opset 17, without the node.
inline proto::ModelProto empty_model() {
  proto::ModelProto model;
  model.set_ir_version(8);
  model.add_opset_import()->set_version(17);
  proto::GraphProto& graph = *model.mutable_graph();
  graph.set_name("g");
  *graph.add_input() = value_proto("x", {4});
  *graph.add_output() = value_proto("y", {4});
  return model;
}

inline proto::ModelProto relu_model() {
  proto::ModelProto model = empty_model();
  add(*model.mutable_graph(), node_proto("Relu", {"x"}, {"y"}));
  return model;
}

// relu_model() by hand, with a graph that ends in `more`.
inline std::string with_graph_field(std::string_view more) {
  const std::string graph = relu_model().graph().SerializeAsString();
  return concat(tag(model_ir_version, 0), varint(8), message(model_opset, concat(tag(2, 0), varint(17))),
                message(model_graph, concat(graph, more)));
}

// A tensor of shape [4] named "w", without data.
inline proto::TensorProto tensor_proto(int type = proto::TensorProto::FLOAT) {
  proto::TensorProto tensor;
  tensor.set_name("w");
  tensor.set_data_type(type);
  tensor.add_dims(4);
  return tensor;
}

inline std::string float_bytes(std::initializer_list<float> values) {
  std::string bytes;
  for (float value : values) bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
  return bytes;
}

// y = x + w.
inline proto::ModelProto model_with(const proto::TensorProto& initializer) {
  proto::ModelProto model = empty_model();
  *model.mutable_graph()->add_initializer() = initializer;
  add(*model.mutable_graph(), node_proto("Add", {"x", "w"}, {"y"}));
  return model;
}

inline Result<Model> read_bytes(std::string_view bytes, const ReadOptions& options = {}) {
  const TempFolder folder;
  return read_model(folder.file("m.onnx", bytes), options);
}

inline Result<Model> read_proto(const proto::ModelProto& model, const ReadOptions& options = {}) {
  return read_bytes(model.SerializeAsString(), options);
}

// "ok", or the id of the first error and its kind: "E203 invalid".
inline std::string outcome(const Result<Model>& result) {
  if (result) return "ok";
  const Diagnostic& first = result.error().first();
  CHECK(first.where.find("m.onnx") != std::string::npos);
  const char* kind = first.kind == ErrorKind::invalid       ? "invalid"
                     : first.kind == ErrorKind::unsupported ? "unsupported"
                     : first.kind == ErrorKind::limit       ? "limit"
                     : first.kind == ErrorKind::io          ? "io"
                                                            : "other";
  return concat(first.id, " ", kind);
}

inline std::string all_text(const Result<Model>& result) {
  std::string text;
  if (!result)
    for (const Diagnostic& diagnostic : result.error().diagnostics) text += to_string(diagnostic);
  return text;
}

inline bool mentions(const Result<Model>& result, std::string_view words) {
  const bool found = all_text(result).find(words) != std::string::npos;
  if (!found) MESSAGE(all_text(result));
  return found;
}

}  // namespace rtx::onnx
