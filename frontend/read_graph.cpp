#include "frontend/read_graph.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "base/text.h"
#include "frontend/check_name.h"
#include "frontend/onnx_types.h"

namespace rtx::onnx {
namespace {

using onnx_schema::AttributeProto;
using onnx_schema::GraphProto;
using onnx_schema::NodeProto;
using onnx_schema::TypeProto;
using onnx_schema::ValueInfoProto;

constexpr int64_t max_attributes = 256;  // of a node or function; no operator comes near
constexpr int64_t newest_opset = 28;     // of the default domain in the pinned schema

Diagnostic invalid(std::string_view id, std::string message) {
  return make_error(ErrorKind::invalid, id, std::move(message));
}

// ---- types of values

std::string type_text(const TypeProto& type) {
  switch (type.value_case()) {
    case TypeProto::kTensorType:
      return "tensor";
    case TypeProto::kSequenceType:
      return concat("sequence of ", type_text(type.sequence_type().elem_type()));
    case TypeProto::kMapType:
      return concat("map to ", type_text(type.map_type().value_type()));
    case TypeProto::kOptionalType:
      return concat("optional ", type_text(type.optional_type().elem_type()));
    case TypeProto::kSparseTensorType:
      return "sparse tensor";
    case TypeProto::kOpaqueType:
      return "opaque";
    case TypeProto::VALUE_NOT_SET:
      break;
  }
  return "undeclared";
}

ValueInfo read_value(const ValueInfoProto& proto) {
  ValueInfo value;
  value.name = proto.name();
  if (!proto.has_type() || proto.type().value_case() == TypeProto::VALUE_NOT_SET) return value;
  value.type_text = type_text(proto.type());
  value.is_tensor = proto.type().has_tensor_type();
  if (!value.is_tensor) return value;
  const TypeProto::Tensor& tensor = proto.type().tensor_type();
  value.elem_type = tensor.elem_type();
  if (!tensor.has_shape()) return value;
  value.shape.emplace();
  for (const auto& dim : tensor.shape().dim()) {
    DeclaredDim& declared = value.shape->emplace_back();
    if (dim.has_dim_value()) declared.value = dim.dim_value();
    if (dim.has_dim_param()) declared.param = dim.dim_param();
  }
  return value;
}

// -1 is how old converters wrote an unknown size.
void forget_negative_dims(ValueInfo& value, int64_t lowest) {
  if (!value.shape) return;
  for (DeclaredDim& dim : *value.shape)
    if (dim.value && *dim.value < 0 && *dim.value >= lowest) dim.value.reset();
}

// What the caller of the model will have to provide, so it is checked as strictly as a stored tensor.
Result<void> check_input(ValueInfo& value, const ReadLimits& limits) {
  const auto where = [&] { return concat("input '", escape_text(value.name), "'"); };
  if (value.name.empty()) return invalid("E111", "a graph input has no name");
  if (value.type_text.empty()) return invalid("E305", "the input has no type").with_where(where());
  if (!value.is_tensor) return Ok{};
  const OnnxType* type = find_onnx_type(value.elem_type);
  if (!type)
    return invalid("E305", value.elem_type == 0 ? std::string("the element type is missing")
                                                : concat("element type ", value.elem_type, " is not defined"))
        .with_where(where());
  if (!value.shape) return Ok{};
  forget_negative_dims(value, -1);
  std::vector<int64_t> known;
  for (const DeclaredDim& dim : *value.shape) {
    known.push_back(dim.value.value_or(1));
  }
  Result<int64_t> count = checked_element_count(known, type->bits, limits);
  if (!count) return std::move(count).error().within(where());
  return Ok{};
}

Result<void> check_default(const ValueInfo& input, const Initializer& initializer, int32_t onnx_type) {
  const auto differ = [&](std::string what, std::string expected, std::string got) {
    return invalid("E205", concat("the initializer '", escape_text(input.name),
                                  "' does not match the input of its name: ", what))
        .with_expected(std::move(expected))
        .with_got(std::move(got));
  };
  const auto name = [](int32_t number) {
    const OnnxType* type = find_onnx_type(number);
    return type ? std::string(type->name) : std::to_string(number);
  };
  if (input.elem_type != 0 && input.elem_type != onnx_type)
    return differ("element types differ", name(input.elem_type), name(onnx_type));
  if (!input.shape) return Ok{};
  const std::vector<int64_t>& shape = initializer.entry.shape;
  if (shape.size() != input.shape->size())
    return differ("ranks differ", std::to_string(input.shape->size()), std::to_string(shape.size()));
  for (size_t i = 0; i < shape.size(); ++i)
    if (const auto& dim = (*input.shape)[i].value; dim && *dim != shape[i])
      return differ(concat("shapes differ at axis ", i), std::to_string(*dim), std::to_string(shape[i]));
  return Ok{};
}

// ---- attributes

// The field that each type of attribute uses; also finds the type of an attribute that does not say it (IR version 1).
Result<AttributeProto::AttributeType> attribute_type(const AttributeProto& proto) {
  const std::pair<bool, AttributeProto::AttributeType> fields[] = {
      {proto.has_f(), AttributeProto::FLOAT},
      {proto.has_i(), AttributeProto::INT},
      {proto.has_s(), AttributeProto::STRING},
      {proto.has_t(), AttributeProto::TENSOR},
      {proto.has_g(), AttributeProto::GRAPH},
      {proto.has_sparse_tensor(), AttributeProto::SPARSE_TENSOR},
      {proto.has_tp(), AttributeProto::TYPE_PROTO},
      {proto.floats_size() > 0, AttributeProto::FLOATS},
      {proto.ints_size() > 0, AttributeProto::INTS},
      {proto.strings_size() > 0, AttributeProto::STRINGS},
      {proto.tensors_size() > 0, AttributeProto::TENSORS},
      {proto.graphs_size() > 0, AttributeProto::GRAPHS},
      {proto.sparse_tensors_size() > 0, AttributeProto::SPARSE_TENSORS},
      {proto.type_protos_size() > 0, AttributeProto::TYPE_PROTOS},
  };
  const AttributeProto::AttributeType declared = proto.type();
  AttributeProto::AttributeType found = AttributeProto::UNDEFINED;
  for (const auto& [is_set, type] : fields) {
    if (!is_set) continue;
    if (found != AttributeProto::UNDEFINED || (declared != AttributeProto::UNDEFINED && type != declared))
      return invalid("E323", concat("its type is ", AttributeProto::AttributeType_Name(declared),
                                    ", but a value of type ", AttributeProto::AttributeType_Name(type), " is set"));
    found = type;
  }
  if (found != AttributeProto::UNDEFINED) return found;
  // Lists may be empty, and proto2 leaves out nothing else.
  switch (declared) {
    case AttributeProto::FLOATS:
    case AttributeProto::INTS:
    case AttributeProto::STRINGS:
    case AttributeProto::TENSORS:
    case AttributeProto::GRAPHS:
    case AttributeProto::SPARSE_TENSORS:
    case AttributeProto::TYPE_PROTOS:
      return declared;
    // Writers of proto3 leave out a value that is zero.
    case AttributeProto::FLOAT:
    case AttributeProto::INT:
    case AttributeProto::STRING:
      return declared;
    default:
      break;
  }
  return invalid("E323", concat("its type is ", AttributeProto::AttributeType_Name(declared), ", but no value is set"));
}

Result<Attribute> read_attribute(AttributeProto& proto, GraphContext& context);

Result<void> read_attribute_value(AttributeProto& proto, GraphContext& context, Attribute& attribute) {
  RTX_ASSIGN(const AttributeProto::AttributeType type, attribute_type(proto));
  switch (type) {
    case AttributeProto::FLOAT:
      attribute.value = proto.f();
      break;
    case AttributeProto::INT:
      attribute.value = static_cast<int64_t>(proto.i());
      break;
    case AttributeProto::STRING:
      attribute.value = proto.s();
      break;
    case AttributeProto::TENSOR:
    case AttributeProto::SPARSE_TENSOR: {
      RTX_ASSIGN(ReadTensor tensor, type == AttributeProto::TENSOR
                                        ? read_tensor(*proto.mutable_t(), context.tensors)
                                        : read_sparse_tensor(*proto.mutable_sparse_tensor(), context.tensors));
      if (!tensor.unsupported.empty()) attribute.unsupported = concat("tensor of ", tensor.unsupported);
      attribute.value = std::move(tensor.entry);
      break;
    }
    case AttributeProto::GRAPH: {
      RTX_ASSIGN(Graph graph, read_graph(*proto.mutable_g(), context, false));
      attribute.value = std::make_shared<Graph>(std::move(graph));
      break;
    }
    case AttributeProto::FLOATS:
      attribute.value = std::vector<float>(proto.floats().begin(), proto.floats().end());
      break;
    case AttributeProto::INTS:
      attribute.value = std::vector<int64_t>(proto.ints().begin(), proto.ints().end());
      break;
    case AttributeProto::STRINGS:
      attribute.value = std::vector<std::string>(proto.strings().begin(), proto.strings().end());
      break;
    case AttributeProto::TYPE_PROTO:
      attribute.unsupported = concat("type ", type_text(proto.tp()));
      break;
    case AttributeProto::TENSORS:
      attribute.unsupported = "list of tensors";
      break;
    case AttributeProto::GRAPHS:
      attribute.unsupported = "list of graphs";
      break;
    case AttributeProto::SPARSE_TENSORS:
      attribute.unsupported = "list of sparse tensors";
      break;
    case AttributeProto::TYPE_PROTOS:
      attribute.unsupported = "list of types";
      break;
    case AttributeProto::UNDEFINED:
      break;
  }
  return Ok{};
}

Result<Attribute> read_attribute(AttributeProto& proto, GraphContext& context) {
  Attribute attribute;
  attribute.name = proto.name();
  if (attribute.name.empty()) return invalid("E322", "an attribute has no name");
  const std::string where = concat("attribute '", escape_text(attribute.name), "'");
  if (proto.type() == AttributeProto::UNDEFINED && context.ir_version > 1)
    return invalid("E323", concat("it has no type, which ir_version ", context.ir_version, " requires"))
        .with_where(where);
  if (!proto.ref_attr_name().empty()) {
    if (!context.in_function)
      return invalid("E323", "a reference to an attribute of the function, but outside a function").with_where(where);
    attribute.reference = proto.ref_attr_name();
    return attribute;
  }
  if (Result<void> read = read_attribute_value(proto, context, attribute); !read)
    return std::move(read).error().within(where);
  return attribute;
}

// ---- nodes

// The last module of "['', 'encoder', 'encoder.layer.0', 'linear_1']", whose last entry is the node itself.
std::string module_scope(std::string_view list) {
  std::vector<std::string_view> entries;
  for (size_t begin = list.find('\''); begin != std::string_view::npos;) {
    const size_t end = list.find('\'', begin + 1);
    if (end == std::string_view::npos) break;
    entries.push_back(list.substr(begin + 1, end - begin - 1));
    begin = list.find('\'', end + 1);
  }
  return entries.size() < 2 ? std::string() : std::string(entries[entries.size() - 2]);
}

// The same of ": main.Net/encoder: Encoder/encoder.layer.0: Layer/linear_1: aten.linear.default".
std::string namespace_scope(std::string_view path) {
  const size_t last = path.rfind('/');
  if (last == std::string_view::npos) return {};
  const size_t begin = path.substr(0, last).rfind('/');
  std::string_view entry = path.substr(0, last).substr(begin == std::string_view::npos ? 0 : begin + 1);
  return std::string(entry.substr(0, entry.find(": ")));
}

// "modeling_bert.py:171" of the last 'File "transformers/models/bert/modeling_bert.py", line 171, in forward'.
std::string source_line(std::string_view trace) {
  constexpr std::string_view file = "File \"", line = "\", line ";
  const size_t begin = trace.rfind(file);
  if (begin == std::string_view::npos) return {};
  const std::string_view frame = trace.substr(begin + file.size());
  const size_t end = frame.find(line);
  if (end == std::string_view::npos) return {};
  std::string_view path = frame.substr(0, end), number = frame.substr(end + line.size());
  path = path.substr(path.find_last_of("/\\") + 1);
  number = number.substr(0, number.find_first_not_of("0123456789"));
  return number.empty() ? std::string() : concat(path, ":", number);
}

void read_scope(const NodeProto& proto, const ReadLimits& limits, Node& node) {
  const auto take = [&](std::string& into, std::string text) {
    // torch's name for "no module".
    if (text.starts_with("_empty_nn_module_stack")) return;
    if (into.empty() && static_cast<int64_t>(text.size()) <= limits.max_name_bytes && name_flaw(text).empty())
      into = std::move(text);
  };
  for (const auto& property : proto.metadata_props()) {
    if (property.key() == "pkg.torch.onnx.name_scopes") take(node.scope, module_scope(property.value()));
    if (property.key() == "pkg.torch.onnx.stack_trace") take(node.source, source_line(property.value()));
  }
  for (const auto& property : proto.metadata_props())
    if (property.key() == "namespace") take(node.scope, namespace_scope(property.value()));
}

// They are looked up by walking the list.
Result<void> check_attribute_count(int64_t count, std::string where) {
  if (count <= max_attributes) return Ok{};
  return make_error(ErrorKind::limit, "E501", "too many attributes")
      .with_where(std::move(where))
      .with_expected(concat("at most ", max_attributes))
      .with_got(std::to_string(count));
}

Result<Node> read_node(NodeProto& proto, GraphContext& context) {
  Node node;
  node.name = proto.name();
  node.op_type = proto.op_type();
  node.domain = folded_domain(proto.domain());
  node.overload = proto.overload();
  node.inputs.assign(proto.input().begin(), proto.input().end());
  node.outputs.assign(proto.output().begin(), proto.output().end());
  read_scope(proto, context.tensors.limits, node);
  if (node.op_type.empty()) return invalid("E111", "the node has an empty op_type").with_where(node.str());
  if (auto version = context.opsets->find(node.domain); version != context.opsets->end())
    node.opset = version->second;
  else if (node.domain.empty())
    return invalid("E112", "the node is of the default domain, of which no opset is imported").with_where(node.str());
  else if (node.domain == "com.microsoft")
    node.opset = 1;  // optimized files leave it out
  RTX_TRY(check_attribute_count(proto.attribute_size(), node.str()));
  std::unordered_set<std::string_view> names;
  for (AttributeProto& attribute : *proto.mutable_attribute()) {
    Result<Attribute> read = read_attribute(attribute, context);
    if (!read) return std::move(read).error().within(node.str());
    if (!names.insert(attribute.name()).second)
      return invalid("E322", concat("attribute '", escape_text(attribute.name()), "' occurs twice"))
          .with_where(node.str());
    node.attributes.push_back(std::move(read).value());
  }
  return node;
}

Result<void> read_nodes(google::protobuf::RepeatedPtrField<NodeProto>& protos, GraphContext& context,
                        std::vector<Node>& nodes) {
  nodes.reserve(static_cast<size_t>(protos.size()));
  for (NodeProto& proto : protos) {
    RTX_ASSIGN(Node node, read_node(proto, context));
    nodes.push_back(std::move(node));
    proto.Clear();
  }
  return Ok{};
}

// ---- graphs

struct StoredInitializer {
  Initializer initializer;
  int32_t onnx_type;
};

template <typename Proto, typename Read>
Result<StoredInitializer> read_initializer(Proto& proto, const std::string& name, Read read, TensorSource& source) {
  if (name.empty()) return invalid("E111", "an initializer has no name");
  Result<ReadTensor> tensor = read(proto, source);
  if (!tensor) return std::move(tensor).error().within(concat("initializer '", escape_text(name), "'"));
  StoredInitializer result;
  result.initializer = {name, std::move(tensor->entry), std::move(tensor->unsupported)};
  result.onnx_type = tensor->onnx_type;
  proto.Clear();
  return result;
}

}  // namespace

std::string folded_domain(const std::string& domain) { return domain == "ai.onnx" ? std::string() : domain; }

template <typename Imports>
Result<Opsets> read_opsets(const Imports& imports) {
  Opsets opsets;
  for (const auto& import : imports) {
    const std::string domain = folded_domain(import.domain());
    const std::string shown = domain.empty() ? "the default domain" : concat("domain '", escape_text(domain), "'");
    const int64_t version = import.version();
    if (!import.has_version() || version < 1)
      return invalid("E112", concat("opset version of ", shown, " is ",
                                    import.has_version() ? std::to_string(version) : std::string("missing")))
          .with_expected("1 or more");
    if (domain.empty() && version > newest_opset)
      return make_error(ErrorKind::unsupported, "E112",
                        concat("opset ", version, " of the default domain is not supported"))
          .with_expected(concat("from 1 to ", newest_opset))
          .with_help("export the model with an older opset");
    if (!opsets.try_emplace(domain, version).second) return invalid("E112", concat("two opset imports for ", shown));
  }
  return opsets;
}

template Result<Opsets> read_opsets(const google::protobuf::RepeatedPtrField<onnx_schema::OperatorSetIdProto>&);

Result<Graph> read_graph(GraphProto& proto, GraphContext& context, bool is_main) {
  Graph graph;
  graph.name = proto.name();
  if (is_main && proto.output_size() == 0) return invalid("E110", "missing outputs: the graph has none");

  std::vector<int32_t> initializer_types;
  const auto keep = [&](StoredInitializer stored) {
    graph.initializers.push_back(std::move(stored.initializer));
    initializer_types.push_back(stored.onnx_type);
  };
  graph.initializers.reserve(static_cast<size_t>(proto.initializer_size() + proto.sparse_initializer_size()));
  for (auto& tensor : *proto.mutable_initializer()) {
    RTX_ASSIGN(StoredInitializer stored,
               read_initializer(tensor, std::string(tensor.name()), read_tensor, context.tensors));
    keep(std::move(stored));
  }
  for (auto& tensor : *proto.mutable_sparse_initializer()) {
    RTX_ASSIGN(StoredInitializer stored,
               read_initializer(tensor, std::string(tensor.values().name()), read_sparse_tensor, context.tensors));
    keep(std::move(stored));
  }
  std::unordered_map<std::string_view, size_t> by_name;
  for (size_t i = 0; i < graph.initializers.size(); ++i) by_name.try_emplace(graph.initializers[i].name, i);

  for (const ValueInfoProto& input : proto.input()) {
    ValueInfo value = read_value(input);
    auto found = by_name.find(value.name);
    if (found != by_name.end())
      RTX_TRY(check_default(value, graph.initializers[found->second], initializer_types[found->second]));
    // Before version 4 every initializer had to be listed as an input too; that made it no input.
    if (found != by_name.end() && context.ir_version < 4) continue;
    if (is_main) RTX_TRY(check_input(value, context.tensors.limits));
    forget_negative_dims(value, INT64_MIN);
    graph.inputs.push_back(std::move(value));
  }
  for (const ValueInfoProto& output : proto.output()) {
    ValueInfo value = read_value(output);
    if (value.name.empty()) return invalid("E111", "a graph output has no name");
    forget_negative_dims(value, INT64_MIN);
    graph.outputs.push_back(std::move(value));
  }
  for (const ValueInfoProto& info : proto.value_info()) {
    ValueInfo value = read_value(info);
    forget_negative_dims(value, INT64_MIN);
    std::string name = value.name;
    graph.value_info.try_emplace(std::move(name), std::move(value));
  }
  RTX_TRY(read_nodes(*proto.mutable_node(), context, graph.nodes));
  return graph;
}

Result<Function> read_function(onnx_schema::FunctionProto& proto, GraphContext& context) {
  Function function;
  function.domain = folded_domain(proto.domain());
  function.name = proto.name();
  function.overload = proto.overload();
  const auto where = [&] { return concat("function '", function.str(), "'"); };
  if (function.name.empty()) return invalid("E111", "a function has no name");
  RTX_TRY(check_attribute_count(int64_t{proto.attribute_size()} + proto.attribute_proto_size(), where()));
  function.inputs.assign(proto.input().begin(), proto.input().end());
  function.outputs.assign(proto.output().begin(), proto.output().end());
  function.attributes.assign(proto.attribute().begin(), proto.attribute().end());
  Result<Opsets> opsets = read_opsets(proto.opset_import());
  if (!opsets) return std::move(opsets).error().within(where());
  function.opsets = std::move(opsets).value();
  for (AttributeProto& attribute : *proto.mutable_attribute_proto()) {
    Result<Attribute> read = read_attribute(attribute, context);
    if (!read) return std::move(read).error().within(where());
    function.defaults.push_back(std::move(read).value());
  }
  GraphContext inside = {context.tensors, context.ir_version, &function.opsets, true};
  Result<void> read = read_nodes(*proto.mutable_node(), inside, function.nodes);
  if (!read) return std::move(read).error().within(where());
  return function;
}

}  // namespace rtx::onnx
