// Hostile graphs through rtx-import: order, names, versions, functions.

#include "tests/e2e/import_site.h"

namespace rtx::onnx {
namespace {

proto::ModelProto model_of(std::initializer_list<proto::NodeProto> nodes) {
  proto::ModelProto model = empty_model();
  for (const proto::NodeProto& node : nodes) add(*model.mutable_graph(), node);
  return model;
}

proto::FunctionProto function_proto(std::string_view name, std::initializer_list<proto::NodeProto> nodes) {
  proto::FunctionProto function;
  function.set_domain("local");
  function.set_name(std::string(name));
  function.add_input("i");
  function.add_output("o");
  function.add_opset_import()->set_version(17);
  proto::OperatorSetIdProto& local = *function.add_opset_import();
  local.set_domain("local");
  local.set_version(1);
  for (const proto::NodeProto& node : nodes) *function.add_node() = node;
  return function;
}

proto::ModelProto calling(std::string_view function) {
  proto::ModelProto model = model_of({node_proto(function, {"x"}, {"y"}, "local")});
  proto::OperatorSetIdProto& local = *model.add_opset_import();
  local.set_domain("local");
  local.set_version(1);
  return model;
}

TEST_CASE("cycles, double definitions and undefined values are refused with their names") {
  const Site site;
  struct Case {
    proto::ModelProto model;
    const char *id, *words;
  };
  proto::ModelProto long_cycle = empty_model();
  constexpr int length = 1000;
  for (int i = 0; i < length; ++i)
    add(*long_cycle.mutable_graph(),
        node_proto("Add", {concat("v", i), "x"}, {i + 1 == length ? "v0" : concat("v", i + 1)}));
  add(*long_cycle.mutable_graph(), node_proto("Neg", {"v0"}, {"y"}));

  // A branch that reads what its own If gives, and a value of a branch used outside of it.
  proto::GraphProto branch;
  branch.set_name("branch");
  add(branch, node_proto("Neg", {"y"}, {"inner"}));
  branch.add_output()->set_name("inner");
  proto::NodeProto own = node_proto("If", {"c"}, {"y"});
  for (const char* name : {"then_branch", "else_branch"}) *own.add_attribute() = graph_attribute(name, branch);
  proto::ModelProto reads_own = model_of({node_proto("Equal", {"x", "x"}, {"c"}), own});
  branch.mutable_node(0)->set_input(0, "x");
  proto::NodeProto other = node_proto("If", {"c"}, {"z"});
  for (const char* name : {"then_branch", "else_branch"}) *other.add_attribute() = graph_attribute(name, branch);
  proto::ModelProto leaks =
      model_of({node_proto("Equal", {"x", "x"}, {"c"}), other, node_proto("Neg", {"inner"}, {"y"})});

  proto::ModelProto writes_initializer = model_with(weight());
  add(*writes_initializer.mutable_graph(), node_proto("Neg", {"x"}, {"w"}));
  proto::ModelProto two_inputs = relu_model();
  *two_inputs.mutable_graph()->add_input() = value_proto("x", {4});
  proto::ModelProto no_output = relu_model();
  no_output.mutable_graph()->mutable_output(0)->set_name("z");

  const Case cases[] = {
      {model_of(
           {node_proto("Add", {"x", "b"}, {"a"}), node_proto("Neg", {"a"}, {"b"}), node_proto("Neg", {"b"}, {"y"})}),
       "E201", "a cycle of 2: "},
      {model_of({node_proto("Add", {"x", "y"}, {"y"})}), "E201", "a cycle of 1: node 'y' (Add) needs node 'y' (Add)"},
      {long_cycle, "E201", "(994 more)"},
      {reads_own, "E201", "(If)"},
      {model_of({node_proto("Relu", {"x"}, {"y"}), node_proto("Neg", {"x"}, {"y"})}), "E202", "'y' is already defined"},
      {model_of({node_proto("Split", {"x"}, {"y", "y"})}), "E202", "'y' is already defined"},
      {model_of({node_proto("Relu", {"x"}, {"x"}), node_proto("Neg", {"x"}, {"y"})}), "E202", "graph input"},
      {writes_initializer, "E202", "'w' is already defined"},
      {two_inputs, "E202", "two graph inputs are named 'x'"},
      {model_of({node_proto("Add", {"x", "nope"}, {"y"})}), "E203", "value 'nope' is not defined"},
      {no_output, "E203", "value 'z' is not defined"},
      {leaks, "E203", "value 'inner' is not defined"},
  };
  for (const Case& c : cases) check_model(site, c.model, 3, c.id, c.words);
}

TEST_CASE("initializers that stand twice or contradict their input are refused") {
  const Site site;
  proto::ModelProto model = model_with(weight());
  *model.mutable_graph()->add_initializer() = weight();
  check_model(site, model, 3, "E204", "duplicate initializer 'w'");
  for (const auto& [dims, type] : {std::pair(5, 1), std::pair(4, 7)}) {
    model = model_with(weight());
    *model.mutable_graph()->add_input() = value_proto("w", {dims}, type);
    check_model(site, model, 3, "E205", "'w'");
  }
  model = model_with(weight());
  *model.mutable_graph()->add_input() = value_proto("w", {4, 1});
  check_model(site, model, 3, "E205", "ranks differ");
}

TEST_CASE("every operator that rtx does not have is named at once") {
  const Site site;
  const proto::ModelProto model =
      model_of({node_proto("Frobnicate", {"x"}, {"a"}), node_proto("%s%n", {"a"}, {"b"}),
                node_proto("Conv", {"b"}, {"c"}, "evil"), node_proto("Scaler", {"c"}, {"y"}, "ai.onnx.ml")});
  for (const char* words : {"Frobnicate (domain 'ai.onnx', opset 17)", "%s%n", "evil.Conv", "ai.onnx.ml.Scaler"})
    check_model(site, model, 4, "E401", words);
}

TEST_CASE("versions out of range are refused with the range") {
  const Site site;
  const auto with_opset = [](int64_t version, std::string_view domain = {}) {
    proto::ModelProto model = relu_model();
    model.mutable_opset_import(0)->set_version(version);
    model.mutable_opset_import(0)->set_domain(std::string(domain));
    return model;
  };
  check_model(site, with_opset(0), 3, "E112", "opset version of the default domain is 0");
  check_model(site, with_opset(-1), 3, "E112", "1 or more");
  for (const char* domain : {"", "ai.onnx"}) {
    check_model(site, with_opset(29, domain), 4, "E112", "from 1 to 28");
    check_model(site, with_opset(999, domain), 4, "E112", "opset 999 of the default domain is not supported");
    check_model(site, with_opset(INT64_MAX, domain), 4, "E112", "from 1 to 28");
    CHECK(site.accepts(with_opset(28, domain)));
  }
  check_model(site, with_opset(17, "other"), 3, "E112", "the default domain, of which no opset is imported");
  proto::ModelProto model = relu_model();
  model.add_opset_import()->set_version(18);
  check_model(site, model, 3, "E112", "two opset imports for the default domain");
  model = relu_model();
  model.add_opset_import()->set_version(17);
  model.mutable_opset_import(1)->set_domain("ai.onnx");
  check_model(site, model, 3, "E112", "two opset imports");
  for (int64_t version : {int64_t{0}, int64_t{-1}}) {
    model = relu_model();
    model.set_ir_version(version);
    check_model(site, model, 3, "E112", "ir_version");
  }
  model = relu_model();
  model.set_ir_version(9999);
  check_model(site, model, 4, "E112", "ir_version 9999 is not supported");
}

TEST_CASE("ai.onnx.ml is a domain of its own, and imports that no node uses do not matter") {
  const Site site;
  proto::ModelProto model = relu_model();
  for (const auto& [domain, version] : {std::pair("ai.onnx.ml", 3), std::pair("never.used", 77)}) {
    proto::OperatorSetIdProto& import = *model.add_opset_import();
    import.set_domain(domain);
    import.set_version(version);
  }
  model.mutable_opset_import()->SwapElements(0, 2);  // the default domain does not come first
  CHECK(site.accepts(model));
  // Relu of ai.onnx.ml does not exist, although Relu of ai.onnx does.
  model.mutable_graph()->mutable_node(0)->set_domain("ai.onnx.ml");
  check_model(site, model, 4, "E401", "ai.onnx.ml.Relu (domain 'ai.onnx.ml', opset 3)");
  model.mutable_graph()->mutable_node(0)->set_domain("ai.onnx");
  CHECK(site.accepts(model));
}

TEST_CASE("functions that call themselves are refused with the path") {
  const Site site;
  proto::ModelProto model = calling("a");
  *model.add_functions() = function_proto("a", {node_proto("a", {"i"}, {"o"}, "local")});
  check_model(site, model, 3, "E206", "local.a -> local.a");
  model = calling("a");
  *model.add_functions() = function_proto("a", {node_proto("b", {"i"}, {"o"}, "local")});
  *model.add_functions() = function_proto("b", {node_proto("a", {"i"}, {"o"}, "local")});
  check_model(site, model, 3, "E206", "local.a -> local.b -> local.a");
  // Through a branch of an If.
  proto::GraphProto branch;
  branch.set_name("branch");
  add(branch, node_proto("a", {"i"}, {"r"}, "local"));
  branch.add_output()->set_name("r");
  proto::NodeProto choice = node_proto("If", {"i"}, {"o"});
  for (const char* name : {"then_branch", "else_branch"}) *choice.add_attribute() = graph_attribute(name, branch);
  model = calling("a");
  *model.add_functions() = function_proto("a", {choice});
  check_model(site, model, 3, "E206", "local.a -> local.a");
}

TEST_CASE("functions that double reach the budget of inlined nodes at once") {
  const Site site;
  proto::ModelProto model = calling("f23");
  *model.add_functions() = function_proto("f0", {node_proto("Relu", {"i"}, {"o"})});
  for (int i = 1; i < 24; ++i) {
    const std::string callee = concat("f", i - 1);
    *model.add_functions() = function_proto(
        concat("f", i), {node_proto(callee, {"i"}, {"t"}, "local"), node_proto(callee, {"t"}, {"o"}, "local")});
  }
  CHECK(model.ByteSizeLong() < 3000);
  check_model(site, model, 5, "E503", "--max-inlined-nodes");
  // A chain that is only deep.
  model = calling("f39");
  *model.add_functions() = function_proto("f0", {node_proto("Relu", {"i"}, {"o"})});
  for (int i = 1; i < 40; ++i)
    *model.add_functions() = function_proto(concat("f", i), {node_proto(concat("f", i - 1), {"i"}, {"o"}, "local")});
  check_model(site, model, 5, "E502", "--max-depth");
}

TEST_CASE("value_info that lies about a type is an error, about a shape one warning") {
  const Site site;
  proto::ModelProto model = model_of({node_proto("Relu", {"x"}, {"a"}), node_proto("Neg", {"a"}, {"y"})});
  *model.mutable_graph()->add_value_info() = value_proto("a", {4}, proto::TensorProto::INT64);
  check_model(site, model, 3, "E326", "value 'a'");
  *model.mutable_graph()->mutable_value_info(0) = value_proto("a", {7, 3});
  const CommandResult result = site.import(model);
  CHECK(result.exit_code == 0);
  CHECK(result.err.find("[RTX-W203]") != std::string::npos);
}

}  // namespace
}  // namespace rtx::onnx
