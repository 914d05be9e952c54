// Names, scopes, order, versions and local functions.

#include "frontend/read_graph.h"

#include "tests/unit/onnx_file.h"

namespace rtx::onnx {
namespace {

// A branch that computes `output` from `input`.
proto::GraphProto branch(std::string_view input, std::string_view output) {
  proto::GraphProto graph;
  graph.set_name("branch");
  add(graph, node_proto("Relu", {input}, {output}));
  graph.add_output()->set_name(std::string(output));
  return graph;
}

proto::ModelProto model_of(std::initializer_list<proto::NodeProto> nodes) {
  proto::ModelProto model = empty_model();
  for (const proto::NodeProto& node : nodes) add(*model.mutable_graph(), node);
  return model;
}

std::vector<std::string> op_types(const Result<Model>& model) {
  std::vector<std::string> types;
  REQUIRE(model.ok());
  for (const Node& node : model->graph.nodes) types.push_back(node.op_type);
  return types;
}

using Names = std::vector<std::string>;

TEST_CASE("unsorted nodes are sorted, sorted ones keep their order") {
  CHECK(op_types(read_proto(model_of({node_proto("Neg", {"b"}, {"y"}), node_proto("Abs", {"a"}, {"b"}),
                                      node_proto("Exp", {"x"}, {"a"}), node_proto("Log", {"x"}, {"c"})}))) ==
        Names{"Exp", "Abs", "Neg", "Log"});
  CHECK(op_types(read_proto(model_of({node_proto("Log", {"x"}, {"c"}), node_proto("Exp", {"x"}, {"a"}),
                                      node_proto("Neg", {"a"}, {"y"})}))) == Names{"Log", "Exp", "Neg"});
}

TEST_CASE("what a branch reads from outside orders its node too") {
  proto::NodeProto node = node_proto("If", {"x"}, {"y"});
  *node.add_attribute() = graph_attribute("then_branch", branch("a", "t"));
  *node.add_attribute() = graph_attribute("else_branch", branch("x", "e"));
  CHECK(op_types(read_proto(model_of({node, node_proto("Exp", {"x"}, {"a"})}))) == Names{"Exp", "If"});
}

TEST_CASE("a cycle is listed") {
  Result<Model> result = read_proto(model_of(
      {node_proto("Add", {"x", "b"}, {"a"}), node_proto("Neg", {"a"}, {"b"}), node_proto("Abs", {"a"}, {"y"})}));
  CHECK(outcome(result) == "E201 invalid");
  CHECK(mentions(result, "node 'a' (Add) needs node 'b' (Neg) needs node 'a' (Add)"));
  CHECK(outcome(read_proto(model_of({node_proto("Add", {"x", "y"}, {"y"})}))) == "E201 invalid");

  proto::NodeProto node = node_proto("If", {"x"}, {"y"});
  *node.add_attribute() = graph_attribute("then_branch", branch("z", "t"));
  result = read_proto(model_of({node, node_proto("Neg", {"y"}, {"z"})}));
  CHECK(outcome(result) == "E201 invalid");
}

TEST_CASE("the message about a long cycle stays short") {
  proto::ModelProto model = empty_model();
  for (int i = 0; i < 1000; ++i)
    add(*model.mutable_graph(), node_proto("Neg", {concat("v", (i + 1) % 1000)}, {concat("v", i)}));
  add(*model.mutable_graph(), node_proto("Neg", {"v0"}, {"y"}));
  const Result<Model> result = read_proto(model);
  CHECK(outcome(result) == "E201 invalid");
  CHECK(mentions(result, "cycle of 1000"));
  CHECK(all_text(result).size() < 1000);
}

TEST_CASE("undefined values are named with their users, several at once") {
  const Result<Model> result =
      read_proto(model_of({node_proto("Add", {"x", "nope"}, {"a"}), node_proto("Add", {"gone", "a"}, {"y"})}));
  CHECK(outcome(result) == "E203 invalid");
  CHECK(result.error().diagnostics.size() == 2);
  CHECK(mentions(result, "'nope'"));
  CHECK(mentions(result, "node 'y' (Add)"));

  proto::ModelProto model = relu_model();
  model.mutable_graph()->mutable_output(0)->set_name("z");
  CHECK(outcome(read_proto(model)) == "E203 invalid");

  // A value of a branch is not seen outside it.
  proto::NodeProto node = node_proto("If", {"x"}, {"a"});
  *node.add_attribute() = graph_attribute("then_branch", branch("x", "inner"));
  CHECK(outcome(read_proto(model_of({node, node_proto("Neg", {"inner"}, {"y"})}))) == "E203 invalid");
}

TEST_CASE("two definitions of a name are refused") {
  CHECK(outcome(read_proto(model_of({node_proto("Neg", {"x"}, {"y"}), node_proto("Abs", {"x"}, {"y"})}))) ==
        "E202 invalid");
  CHECK(outcome(read_proto(model_of({node_proto("Split", {"x"}, {"y", "y"})}))) == "E202 invalid");
  CHECK(outcome(read_proto(model_of({node_proto("Neg", {"y"}, {"x"})}))) == "E202 invalid");
  proto::ModelProto model = relu_model();
  *model.mutable_graph()->add_input() = value_proto("x", {4});
  CHECK(outcome(read_proto(model)) == "E202 invalid");
}

TEST_CASE("a branch may define a name that is also defined outside") {
  proto::NodeProto node = node_proto("If", {"x"}, {"y"});
  *node.add_attribute() = graph_attribute("then_branch", branch("x", "a"));
  CHECK(outcome(read_proto(model_of({node_proto("Exp", {"x"}, {"a"}), node}))) == "ok");
}

TEST_CASE("initializers: duplicates, conflicts with an input, and listing by IR version") {
  proto::TensorProto tensor = tensor_proto();
  tensor.set_raw_data(float_bytes({1, 2, 3, 4}));
  proto::ModelProto model = model_with(tensor);
  *model.mutable_graph()->add_initializer() = tensor;
  CHECK(outcome(read_proto(model)) == "E204 invalid");

  model = model_with(tensor);
  *model.mutable_graph()->add_input() = value_proto("w", {4});
  Result<Model> read = read_proto(model);
  REQUIRE(read.ok());
  CHECK(read->graph.inputs.size() == 2);  // an input with a default
  model.set_ir_version(3);
  read = read_proto(model);
  REQUIRE(read.ok());
  CHECK(read->graph.inputs.size() == 1);  // a constant
  CHECK(read->graph.inputs[0].name == "x");

  for (int wrong = 0; wrong < 3; ++wrong) {
    CAPTURE(wrong);
    model = model_with(tensor);
    *model.mutable_graph()->add_input() = wrong == 0   ? value_proto("w", {5})
                                          : wrong == 1 ? value_proto("w", {4, 1})
                                                       : value_proto("w", {4}, proto::TensorProto::DOUBLE);
    CHECK(outcome(read_proto(model)) == "E205 invalid");
  }
  tensor.clear_name();
  CHECK(outcome(read_proto(model_with(tensor))) == "E111 invalid");
}

TEST_CASE("inputs have a type that exists") {
  for (int type : {0, 99}) {
    proto::ModelProto model = relu_model();
    *model.mutable_graph()->mutable_input(0) = value_proto("x", {4}, type);
    CHECK(outcome(read_proto(model)) == "E305 invalid");
  }
  proto::ModelProto model = relu_model();
  model.mutable_graph()->mutable_input(0)->clear_type();
  CHECK(outcome(read_proto(model)) == "E305 invalid");
}

TEST_CASE("the graph, its outputs, the opset and the IR version are required") {
  proto::ModelProto model = relu_model();
  model.clear_graph();
  CHECK(outcome(read_proto(model)) == "E110 invalid");
  model = relu_model();
  model.mutable_graph()->clear_output();
  CHECK(outcome(read_proto(model)) == "E110 invalid");
  model = relu_model();
  model.clear_opset_import();
  CHECK(outcome(read_proto(model)) == "E110 invalid");
  model = relu_model();
  model.clear_ir_version();
  CHECK(outcome(read_proto(model)) == "E110 invalid");
}

TEST_CASE("versions that do not exist are refused, newer ones are unsupported") {
  const auto with_opset = [](int64_t version) {
    proto::ModelProto model = relu_model();
    model.mutable_opset_import(0)->set_version(version);
    return outcome(read_proto(model));
  };
  CHECK(with_opset(28) == "ok");
  CHECK(with_opset(0) == "E112 invalid");
  CHECK(with_opset(-1) == "E112 invalid");
  CHECK(with_opset(999) == "E112 unsupported");
  CHECK(with_opset((int64_t{1} << 32) + 17) == "E112 unsupported");
  const auto with_ir = [](int64_t version) {
    proto::ModelProto model = relu_model();
    model.set_ir_version(version);
    return outcome(read_proto(model));
  };
  CHECK(with_ir(0) == "E112 invalid");
  CHECK(with_ir(-1) == "E112 invalid");
  CHECK(with_ir(9999) == "E112 unsupported");
}

TEST_CASE("ai.onnx is the default domain, and other domains are looked up by name") {
  proto::ModelProto model = empty_model();
  model.mutable_opset_import(0)->set_domain("ai.onnx");
  proto::OperatorSetIdProto& other = *model.add_opset_import();
  other.set_domain("ai.onnx.ml");
  other.set_version(3);
  add(*model.mutable_graph(), node_proto("Neg", {"x"}, {"a"}, "ai.onnx"));
  add(*model.mutable_graph(), node_proto("Normalizer", {"a"}, {"b"}, "ai.onnx.ml"));
  add(*model.mutable_graph(), node_proto("Gelu", {"b"}, {"c"}, "com.microsoft"));
  add(*model.mutable_graph(), node_proto("Odd", {"c"}, {"y"}, "not.imported"));
  const Result<Model> read = read_proto(model);
  REQUIRE(read.ok());
  CHECK(read->graph.nodes[0].domain.empty());
  CHECK(read->graph.nodes[0].opset == 17);
  CHECK(read->graph.nodes[1].opset == 3);
  CHECK(read->graph.nodes[2].opset == 1);
  CHECK(read->graph.nodes[3].opset == 0);

  model.add_opset_import()->set_version(12);  // "" beside "ai.onnx"
  CHECK(outcome(read_proto(model)) == "E112 invalid");
}

TEST_CASE("attributes have one value, of the type they say, under a name of their own") {
  int64_t ir_version = 8;
  const auto with_attribute = [&](proto::AttributeProto attribute, bool twice = false) {
    proto::ModelProto model = relu_model();
    model.set_ir_version(ir_version);
    for (int i = 0; i < (twice ? 2 : 1); ++i) *model.mutable_graph()->mutable_node(0)->add_attribute() = attribute;
    return outcome(read_proto(model));
  };
  proto::AttributeProto attribute = int_attribute("axis", 1);
  CHECK(with_attribute(attribute) == "ok");
  CHECK(with_attribute(attribute, true) == "E322 invalid");
  attribute.add_floats(1);
  CHECK(with_attribute(attribute) == "E323 invalid");  // two values
  attribute.clear_i();
  CHECK(with_attribute(attribute) == "E323 invalid");  // INT, but floats
  attribute.set_type(proto::AttributeProto::FLOATS);
  CHECK(with_attribute(attribute) == "ok");
  attribute.clear_type();
  for (int64_t version : {2, 8}) {
    ir_version = version;
    CHECK(with_attribute(attribute) == "E323 invalid");
  }
  ir_version = 1;  // had no types
  CHECK(with_attribute(attribute) == "ok");
  attribute.clear_floats();
  CHECK(with_attribute(attribute) == "E323 invalid");
  ir_version = 8;
  attribute = int_attribute("axis", 1);
  attribute.clear_name();
  CHECK(with_attribute(attribute) == "E322 invalid");
  attribute = int_attribute("axis", 1);
  attribute.clear_i();
  attribute.set_ref_attr_name("outer");
  CHECK(with_attribute(attribute) == "E323 invalid");
}

TEST_CASE("a node has a bounded number of attributes") {
  proto::ModelProto model = relu_model();
  for (int i = 0; i < 257; ++i)
    *model.mutable_graph()->mutable_node(0)->add_attribute() = int_attribute(concat("a", i), 1);
  CHECK(outcome(read_proto(model)) == "E501 limit");
}

TEST_CASE("the module path of the dynamo exporter becomes the scope") {
  proto::ModelProto model = relu_model();
  proto::StringStringEntryProto& entry = *model.mutable_graph()->mutable_node(0)->add_metadata_props();
  entry.set_key("pkg.torch.onnx.name_scopes");
  entry.set_value("['', 'encoder', 'encoder.layer.0', 'linear_1']");
  const Result<Model> read = read_proto(model);
  REQUIRE(read.ok());
  CHECK(read->graph.nodes[0].scope == "encoder.layer.0");
}

// ---- model-local functions

proto::FunctionProto function_proto(std::string_view name, std::initializer_list<std::string_view> inputs,
                                    std::initializer_list<std::string_view> outputs,
                                    std::initializer_list<proto::NodeProto> nodes, std::string_view overload = {}) {
  proto::FunctionProto function;
  function.set_domain("local");
  function.set_name(std::string(name));
  if (!overload.empty()) function.set_overload(std::string(overload));
  for (std::string_view input : inputs) function.add_input(std::string(input));
  for (std::string_view output : outputs) function.add_output(std::string(output));
  for (const proto::NodeProto& node : nodes) *function.add_node() = node;
  function.add_opset_import()->set_version(12);
  proto::OperatorSetIdProto& local = *function.add_opset_import();
  local.set_domain("local");
  local.set_version(1);
  return function;
}

proto::ModelProto calling(std::initializer_list<proto::FunctionProto> functions,
                          std::initializer_list<proto::NodeProto> nodes) {
  proto::ModelProto model = model_of(nodes);
  proto::OperatorSetIdProto& local = *model.add_opset_import();
  local.set_domain("local");
  local.set_version(1);
  for (const proto::FunctionProto& function : functions) *model.add_functions() = function;
  return model;
}

proto::NodeProto call(std::string_view name, std::string_view input, std::string_view output) {
  return node_proto(name, {input}, {output}, "local");
}

TEST_CASE("functions are inlined under their own opset, callers listed first or last") {
  const proto::FunctionProto inner =
      function_proto("inner", {"i"}, {"o"}, {node_proto("Neg", {"t"}, {"o"}), node_proto("Abs", {"i"}, {"t"})});
  const proto::FunctionProto outer =
      function_proto("outer", {"i"}, {"o"}, {call("inner", "i", "t"), call("inner", "t", "o")});
  for (bool reversed : {false, true}) {
    const Result<Model> read = read_proto(reversed ? calling({outer, inner}, {call("outer", "x", "y")})
                                                   : calling({inner, outer}, {call("outer", "x", "y")}));
    CHECK(op_types(read) == Names{"Abs", "Neg", "Abs", "Neg"});
    const std::vector<Node>& nodes = read->graph.nodes;
    CHECK(nodes[0].opset == 12);
    CHECK(nodes[0].inputs[0] == "x");
    CHECK(nodes[1].inputs[0] == nodes[0].outputs[0]);
    CHECK(nodes[2].inputs[0] == nodes[1].outputs[0]);
    CHECK(nodes[3].outputs[0] == "y");
    CHECK(nodes[2].outputs[0] != nodes[0].outputs[0]);
  }
}

TEST_CASE("values of a body never meet values of the caller") {
  const proto::FunctionProto function =
      function_proto("f", {"i"}, {"o"}, {node_proto("Abs", {"i"}, {"t"}), node_proto("Neg", {"t"}, {"o"})});
  const Result<Model> read = read_proto(
      calling({function}, {node_proto("Exp", {"x"}, {"t"}), call("f", "t", "o"), node_proto("Log", {"o"}, {"y"})}));
  CHECK(op_types(read) == Names{"Exp", "Abs", "Neg", "Log"});
  CHECK(read->graph.nodes[1].inputs[0] == "t");
  CHECK(read->graph.nodes[1].outputs[0] != "t");
}

TEST_CASE("functions of one name are told apart by their overload") {
  proto::NodeProto second = call("f", "a", "y");
  second.set_overload("2");
  const auto body = [](std::string_view op) { return node_proto(op, {"i"}, {"o"}); };
  CHECK(op_types(read_proto(calling(
            {function_proto("f", {"i"}, {"o"}, {body("Abs")}), function_proto("f", {"i"}, {"o"}, {body("Neg")}, "2")},
            {call("f", "x", "a"), second}))) == Names{"Abs", "Neg"});
  CHECK(outcome(read_proto(calling(
            {function_proto("f", {"i"}, {"o"}, {body("Abs")}), function_proto("f", {"i"}, {"o"}, {body("Neg")})},
            {call("f", "x", "y")}))) == "E208 invalid");
}

TEST_CASE("attribute references take the call's value, or the default, or vanish") {
  proto::NodeProto body = node_proto("Softmax", {"i"}, {"o"});
  proto::AttributeProto& reference = *body.add_attribute();
  reference.set_name("axis");
  reference.set_type(proto::AttributeProto::INT);
  reference.set_ref_attr_name("dim");
  proto::FunctionProto function = function_proto("f", {"i"}, {"o"}, {body});
  function.add_attribute("dim");
  proto::NodeProto with_value = call("f", "x", "y");
  *with_value.add_attribute() = int_attribute("dim", 3);

  Result<Model> read = read_proto(calling({function}, {with_value}));
  REQUIRE(read.ok());
  CHECK(std::get<int64_t>(read->graph.nodes[0].find("axis")->value) == 3);
  read = read_proto(calling({function}, {call("f", "x", "y")}));
  REQUIRE(read.ok());
  CHECK(read->graph.nodes[0].find("axis") == nullptr);
  function.clear_attribute();
  *function.add_attribute_proto() = int_attribute("dim", 5);
  read = read_proto(calling({function}, {call("f", "x", "y")}));
  REQUIRE(read.ok());
  CHECK(std::get<int64_t>(read->graph.nodes[0].find("axis")->value) == 5);
  read = read_proto(calling({function}, {with_value}));
  REQUIRE(read.ok());
  CHECK(std::get<int64_t>(read->graph.nodes[0].find("axis")->value) == 3);
  *with_value.add_attribute() = int_attribute("unknown", 3);
  CHECK(outcome(read_proto(calling({function}, {with_value}))) == "E207 invalid");
}

TEST_CASE("left-out inputs of a call stay left out, too many are refused") {
  const proto::FunctionProto function =
      function_proto("f", {"i", "low", "high"}, {"o"}, {node_proto("Clip", {"i", "low", "high"}, {"o"})});
  Result<Model> read = read_proto(calling({function}, {node_proto("f", {"x", "", "x"}, {"y"}, "local")}));
  REQUIRE(read.ok());
  CHECK(read->graph.nodes[0].inputs == Names{"x", "", "x"});
  read = read_proto(calling({function}, {node_proto("f", {"x"}, {"y"}, "local")}));
  REQUIRE(read.ok());
  CHECK(read->graph.nodes[0].inputs == Names{"x", "", ""});
  CHECK(outcome(read_proto(calling({function}, {node_proto("f", {"x", "x", "x", "x"}, {"y"}, "local")}))) ==
        "E207 invalid");
  CHECK(outcome(read_proto(calling({function}, {node_proto("f", {"x"}, {"y", "z"}, "local")}))) == "E207 invalid");
}

TEST_CASE("a function may return its input") {
  const proto::FunctionProto function = function_proto("f", {"i"}, {"i"}, {});
  CHECK(op_types(read_proto(calling({function}, {call("f", "x", "y")}))) == Names{"Identity"});
}

TEST_CASE("a branch inside a function sees the body and is renamed with it") {
  proto::NodeProto node = node_proto("If", {"i"}, {"o"});
  *node.add_attribute() = graph_attribute("then_branch", branch("t", "r"));
  *node.add_attribute() = graph_attribute("else_branch", branch("i", "r"));
  const proto::FunctionProto function = function_proto("f", {"i"}, {"o"}, {node_proto("Exp", {"i"}, {"t"}), node});
  const Result<Model> read = read_proto(calling({function}, {call("f", "x", "a"), call("f", "a", "y")}));
  REQUIRE(read.ok());
  REQUIRE(read->graph.nodes.size() == 4);
  for (size_t i : {0, 2}) {
    const Graph& then = *std::get<std::shared_ptr<Graph>>(read->graph.nodes[i + 1].find("then_branch")->value);
    CHECK(then.nodes[0].inputs[0] == read->graph.nodes[i].outputs[0]);
    CHECK(then.outputs[0].name == then.nodes[0].outputs[0]);
  }
}

TEST_CASE("a call inside a branch is inlined there") {
  proto::GraphProto then;
  then.set_name("then");
  add(then, call("f", "x", "t"));
  then.add_output()->set_name("t");
  proto::NodeProto node = node_proto("If", {"x"}, {"y"});
  *node.add_attribute() = graph_attribute("then_branch", then);
  const Result<Model> read =
      read_proto(calling({function_proto("f", {"i"}, {"o"}, {node_proto("Abs", {"i"}, {"o"})})}, {node}));
  REQUIRE(read.ok());
  const Graph& inlined = *std::get<std::shared_ptr<Graph>>(read->graph.nodes[0].find("then_branch")->value);
  CHECK(inlined.nodes[0].op_type == "Abs");
  CHECK(inlined.nodes[0].outputs[0] == "t");
}

TEST_CASE("recursion is refused with its path") {
  const proto::FunctionProto a = function_proto("A", {"i"}, {"o"}, {call("B", "i", "o")});
  const proto::FunctionProto b = function_proto("B", {"i"}, {"o"}, {call("A", "i", "o")});
  Result<Model> result = read_proto(calling({a, b}, {call("A", "x", "y")}));
  CHECK(outcome(result) == "E206 invalid");
  CHECK(mentions(result, "local.A -> local.B -> local.A"));
  const proto::FunctionProto self = function_proto("S", {"i"}, {"o"}, {call("S", "i", "o")});
  CHECK(outcome(read_proto(calling({self}, {call("S", "x", "y")}))) == "E206 invalid");
}

// `count` functions, each calling the one before `calls` times.
proto::ModelProto tower(int count, int calls) {
  proto::ModelProto model = calling({function_proto("f0", {"i"}, {"o"}, {node_proto("Neg", {"i"}, {"o"})})},
                                    {call(concat("f", count), "x", "y")});
  for (int level = 1; level <= count; ++level) {
    proto::FunctionProto function = function_proto(concat("f", level), {"i"}, {"o"}, {});
    for (int i = 0; i < calls; ++i)
      *function.add_node() =
          call(concat("f", level - 1), i == 0 ? "i" : concat("t", i), i + 1 == calls ? "o" : concat("t", i + 1));
    *model.add_functions() = function;
  }
  return model;
}

TEST_CASE("functions that double are refused before they are expanded") {
  CHECK(op_types(read_proto(tower(5, 2))).size() == 32);
  const Result<Model> result = read_proto(tower(24, 2));
  CHECK(outcome(result) == "E503 limit");
  CHECK(mentions(result, "--max-inlined-nodes"));
  CHECK(outcome(read_proto(tower(30, 2))) == "E503 limit");
}

TEST_CASE("long names do not make inlining expensive") {
  proto::ModelProto model = tower(18, 2);  // 262144 nodes
  const std::string name(1000, 'n');
  for (proto::FunctionProto& function : *model.mutable_functions())
    for (proto::NodeProto& node : *function.mutable_node()) node.set_name(name);
  ReadOptions options;
  options.limits.max_inlined_bytes = 1 << 20;
  CHECK(outcome(read_proto(model, options)) == "E503 limit");
}

TEST_CASE("calls nest up to the limit and no further") {
  CHECK(outcome(read_proto(tower(31, 1))) == "ok");
  CHECK(outcome(read_proto(tower(32, 1))) == "E502 limit");
}

TEST_CASE("a body cannot see values of its caller, and has no cycles of its own") {
  CHECK(outcome(read_proto(calling({function_proto("f", {"i"}, {"o"}, {node_proto("Add", {"i", "x"}, {"o"})})},
                                   {call("f", "x", "y")}))) == "E203 invalid");
  const Result<Model> result = read_proto(
      calling({function_proto("f", {"i"}, {"o"}, {node_proto("Add", {"i", "o"}, {"o"})})}, {call("f", "x", "y")}));
  CHECK(outcome(result) == "E201 invalid");
  CHECK(mentions(result, "function 'local.f'"));
}

}  // namespace
}  // namespace rtx::onnx
