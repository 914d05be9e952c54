// An ONNX model as rtx reads it: checked, with functions inlined and nodes sorted, free of protobuf.
//
// The reader (read_model.h) fills it; the importer (import.h) turns it into IR. Names are as in the file. A node input
// or output that is left out is an empty string.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/dtype.h"
#include "ir/tensor.h"
#include "ir/weights.h"

namespace rtx::onnx {

// One axis of a declared shape: a size, a name or expression, or nothing.
struct DeclaredDim {
  std::optional<int64_t> value;
  std::string param;
};

struct ValueInfo {
  std::string name;
  int32_t elem_type = 0;  // ONNX TensorProto.DataType; 0: not declared
  std::optional<std::vector<DeclaredDim>> shape;
  bool is_tensor = true;  // false for sequence, map, optional: `type_text` says which
  std::string type_text;
};

struct Graph;

// An attribute. Tensors are stored as entries that may lie in a file (the model's own, or external data).
struct Attribute {
  std::string name;
  std::variant<float, int64_t, std::string, WeightEntry, std::shared_ptr<Graph>, std::vector<float>,
               std::vector<int64_t>, std::vector<std::string>>
      value;
  // What the value really is when the alternatives above cannot hold it ("tensor of complex64", "list of graphs");
  // else empty. See Initializer::unsupported for what `value` holds then.
  std::string unsupported;
  // Inside a model-local function: the attribute of the function that this one takes its value from. Always empty in
  // a Model that read_model returned.
  std::string reference;
};

struct Node {
  std::string name;  // may be empty or repeat
  std::string op_type;
  std::string domain;  // "" for the default domain ("ai.onnx" is folded into it)
  int64_t opset = 0;   // the version of `domain` that is in force for this node (its own function's imports)
  std::vector<std::string> inputs, outputs;
  std::vector<Attribute> attributes;
  // Where the exporter wrote it into metadata (dynamo), the path of the module, "encoder.layer.0.attention", and the
  // innermost line of source code, "modeling_bert.py:171".
  std::string scope, source;
  std::string overload;  // with domain and op_type the key of a model-local function; no operator has one

  const Attribute* find(std::string_view attribute_name) const;
  // "node 'x' (MatMul)"; an unnamed node is named by its first output. Escaped.
  std::string str() const;
  // The same with its module: "node 'x' (MatMul) in encoder.layer.0".
  std::string origin() const;
  bool has_input(size_t index) const { return index < inputs.size() && !inputs[index].empty(); }
};

struct Initializer {
  std::string name;
  WeightEntry entry;  // dtype, shape and where the bytes are, tightly packed little-endian
  // "uint16", "string", "complex64" ... when the IR has no dtype for the elements, else empty. Then `entry` has the
  // shape, and the data only if these are unsigned integers, at most 1024 of them: widened to i64 (uint16, uint32, and
  // uint64 if every value fits). Otherwise entry.memory and entry.file are both null.
  std::string unsupported;
};

struct Graph {
  std::string name;
  std::vector<ValueInfo> inputs;  // without those that only repeat an initializer in IR version < 4
  std::vector<ValueInfo> outputs;
  std::map<std::string, ValueInfo> value_info;  // element types must agree; inference wins over shapes
  std::vector<Initializer> initializers;        // in file order
  std::vector<Node> nodes;                      // sorted topologically, stable; model-local functions inlined
};

// A model-local function that was inlined.
struct FunctionUse {
  std::string domain, name;
  int64_t opset = 0;  // of its domain, in the model
  int64_t calls = 0;
};

struct Model {
  std::string path;
  int64_t ir_version = 0;
  std::string producer;                   // name and version
  std::map<std::string, int64_t> opsets;  // by domain
  Graph graph;
  std::vector<FunctionUse> functions;  // those that are called
};

// Reads the whole of a tensor; for small ones, since it is copied to memory.
Result<Tensor> load(const WeightEntry& entry);

}  // namespace rtx::onnx
