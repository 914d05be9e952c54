// rtx-import --check-support and --list-ops, and that the IR and the errors name the module of a node.

#include <doctest/doctest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/command.h"
#include "tests/unit/onnx_file.h"

namespace rtx::onnx {
namespace {

namespace fs = std::filesystem;

const std::string fixtures = concat(RTX_TEST_DIR, "/fixtures/models/");

bool contains(std::string_view text, std::string_view words) {
  const bool found = text.find(words) != std::string_view::npos;
  if (!found) MESSAGE("not found: " << std::string(words) << " in\n" << std::string(text));
  return found;
}

struct Checked {
  CommandResult result;
  nlohmann::json json;  // of --json

  const nlohmann::json& of(std::string_view op_type) const {
    for (const auto& use : json["operators"])
      if (use["operator"] == op_type) return use;
    FAIL("no operator " << std::string(op_type));
    return json;
  }
};

Checked check_file(const std::string& path) {
  Checked checked{run_command({RTX_IMPORT, path, "--check-support", "--json"}), {}};
  checked.json = nlohmann::json::parse(checked.result.out, nullptr, false);
  REQUIRE_FALSE(checked.json.is_discarded());
  return checked;
}

Checked check_model(const proto::ModelProto& model) {
  const TempFolder folder;
  return check_file(folder.file("m.onnx", model.SerializeAsString()));
}

TEST_CASE("a supported model: every operator with what becomes of it, exit code 0, nothing written") {
  const TempFolder folder;
  const std::string path = folder.file("m.onnx", relu_model().SerializeAsString());
  const CommandResult result = run_command({RTX_IMPORT, path, "--check-support"});
  CHECK(result.exit_code == 0);
  CHECK(result.out ==
        "domain   operator  opset  nodes  handling\n"
        "ai.onnx  Relu      17     1      relu\n"
        "\nsupported: 1 nodes of 1 operators\n");
  CHECK(std::distance(fs::directory_iterator(fs::path(path).parent_path()), {}) == 1);
}

TEST_CASE("unsupported operators, those behind them, and those inside bodies") {
  proto::ModelProto model = empty_model();
  proto::GraphProto& graph = *model.mutable_graph();
  add(graph, node_proto("Relu", {"x"}, {"a"}));
  add(graph, node_proto("Frobnicate", {"a"}, {"b"}));
  proto::NodeProto scan = node_proto("Scan", {"a"}, {"c"});
  proto::AttributeProto& body = *scan.add_attribute();
  body.set_name("body");
  body.set_type(proto::AttributeProto::GRAPH);
  body.mutable_g()->set_name("body");
  *body.mutable_g()->add_output() = value_proto("inner", {4});
  add(*body.mutable_g(), node_proto("Zorp", {"a"}, {"inner"}));
  add(graph, scan);
  add(graph, node_proto("Add", {"b", "c"}, {"y"}));
  const Checked checked = check_model(model);
  CHECK(checked.result.exit_code == 4);
  CHECK(checked.json["supported"] == false);
  CHECK(checked.of("Relu")["fates"] == nlohmann::json{{"converted", 1}});
  CHECK(checked.of("Relu")["reasons"].empty());
  CHECK(checked.of("Frobnicate")["fates"] == nlohmann::json{{"refused", 1}});
  CHECK(checked.of("Frobnicate")["reasons"][0] == "operator is not supported [RTX-E401]");
  CHECK(checked.of("Scan")["fates"] == nlohmann::json{{"refused", 1}});
  CHECK(checked.of("Zorp")["fates"] == nlohmann::json{{"refused", 1}});
  CHECK(checked.of("Add")["fates"] == nlohmann::json{{"untried", 1}});
  CHECK(checked.json["diagnostics"].size() == 3);
}

TEST_CASE("a model of two programs counts each node once, as the most that became of it") {
  proto::ModelProto model = empty_model();
  proto::GraphProto& graph = *model.mutable_graph();
  proto::ValueInfoProto& condition = *graph.add_input();
  condition.set_name("c");
  condition.mutable_type()->mutable_tensor_type()->set_elem_type(proto::TensorProto::BOOL);
  condition.mutable_type()->mutable_tensor_type()->mutable_shape();
  add(graph, node_proto("Relu", {"x"}, {"a"}));
  proto::NodeProto choice = node_proto("If", {"c"}, {"b"});
  for (const char* name : {"then_branch", "else_branch"}) {
    proto::AttributeProto& branch = *choice.add_attribute();
    branch.set_name(name);
    branch.set_type(proto::AttributeProto::GRAPH);
    branch.mutable_g()->set_name(name);
    *branch.mutable_g()->add_output() = value_proto(name, {4});
    add(*branch.mutable_g(), node_proto(name[0] == 't' ? "Neg" : "Abs", {"a"}, {name}));
  }
  add(graph, choice);
  add(graph, node_proto("Exp", {"b"}, {"y"}));
  const Checked checked = check_model(model);
  CHECK(checked.result.exit_code == 0);
  for (const char* op : {"Relu", "Neg", "Abs", "Exp"})
    CHECK(checked.of(op)["fates"] == nlohmann::json{{"converted", 1}});
  CHECK(checked.of("If")["fates"] == nlohmann::json{{"inlined", 1}});
}

TEST_CASE("functions are inlined, their operators count for each call") {
  proto::ModelProto model = empty_model();
  model.set_ir_version(10);
  auto& import = *model.add_opset_import();
  import.set_domain("my.domain");
  import.set_version(1);
  proto::FunctionProto& function = *model.add_functions();
  function.set_domain("my.domain");
  function.set_name("Twice");
  function.add_input("p");
  function.add_output("r");
  function.add_opset_import()->set_version(14);
  *function.add_node() = node_proto("Add", {"p", "p"}, {"r"});
  add(*model.mutable_graph(), node_proto("Twice", {"x"}, {"a"}, "my.domain"));
  add(*model.mutable_graph(), node_proto("Twice", {"a"}, {"y"}, "my.domain"));
  const Checked checked = check_model(model);
  CHECK(checked.result.exit_code == 0);
  CHECK(checked.of("Twice")["fates"] == nlohmann::json{{"inlined", 2}});
  CHECK(checked.of("Twice")["domain"] == "my.domain");
  CHECK(checked.of("Add")["opset"] == 14);
  CHECK(checked.of("Add")["ir_operations"] == nlohmann::json{"add"});
  CHECK(checked.of("Add")["nodes"] == 2);
}

TEST_CASE("a quantised and a dynamo model: counts are those of the file, shape arithmetic is folded away") {
  const Checked quantised = check_file(fixtures + "bert.int8dyn17/model.onnx");
  CHECK(quantised.result.exit_code == 0);
  CHECK(quantised.of("MatMulInteger")["nodes"] == 12);
  CHECK(quantised.of("MatMulInteger")["fates"] == nlohmann::json{{"converted", 12}});
  CHECK(quantised.of("Shape")["fates"] == nlohmann::json{{"folded", 13}});
  CHECK(quantised.of("Unsqueeze")["fates"] == nlohmann::json{{"converted", 9}, {"folded", 23}});

  const Checked dynamo = check_file(fixtures + "bert.dyn23/model.onnx");
  CHECK(dynamo.result.exit_code == 0);
  CHECK(dynamo.json["producer"] == "pytorch 2.11.0+cu130");
  CHECK(dynamo.of("Attention")["opset"] == 23);
  int64_t nodes = 0;
  for (const auto& use : dynamo.json["operators"]) nodes += use["nodes"].get<int64_t>();
  CHECK(nodes == 87);
}

TEST_CASE("a broken model has the exit code and the table of what was looked at") {
  proto::ModelProto model = relu_model();
  auto& attribute = *model.mutable_graph()->mutable_node(0)->add_attribute();
  attribute.set_name("alpha");
  attribute.set_type(proto::AttributeProto::INT);
  const Checked checked = check_model(model);
  CHECK(checked.result.exit_code == 3);
  CHECK(checked.of("Relu")["fates"] == nlohmann::json{{"refused", 1}});
}

TEST_CASE("--list-ops is the table of converters") {
  const CommandResult text = run_command({RTX_IMPORT, "--list-ops"});
  CHECK(text.exit_code == 0);
  CHECK(contains(text.out, "com.microsoft"));
  const auto json = nlohmann::json::parse(run_command({RTX_IMPORT, "--list-ops", "--json"}).out, nullptr, false);
  REQUIRE(json.is_array());
  int64_t softmax_forms = 0;
  for (const auto& row : json) {
    if (row["operator"] != "Softmax") continue;
    ++softmax_forms;
    // Softmax-13 changed the meaning of axis.
    CHECK(row["until"] == (row["since"] == 13 ? nlohmann::json() : nlohmann::json(12)));
  }
  CHECK(softmax_forms == 2);
}

TEST_CASE("without a model or a place to write there is nothing to do") {
  CHECK(run_command({RTX_IMPORT, "--json"}).exit_code == 2);
  CHECK(run_command({RTX_IMPORT, fixtures + "bert.dyn23/model.onnx"}).exit_code == 2);
}

TEST_CASE("the IR of a dynamo model names the module of each node") {
  const CommandResult result = run_command({RTX_IMPORT, fixtures + "bert.dyn23/model.onnx", "-o", "-", "--no-weights"});
  CHECK(result.exit_code == 0);
  CHECK(contains(result.out, "from \"node 'node_layer_norm' (LayerNormalization) in model.embeddings.LayerNorm\""));
  CHECK(contains(result.out, " in model.encoder.layer.0.attention.self\""));
  // torch's placeholder of nodes that belong to no module.
  CHECK(result.out.find("_empty_nn_module") == std::string::npos);
}

void set_metadata(proto::NodeProto& node, std::string_view key, std::string_view value) {
  auto& property = *node.add_metadata_props();
  property.set_key(std::string(key));
  property.set_value(std::string(value));
}

TEST_CASE("errors name the module and the line of source code") {
  constexpr std::string_view trace =
      "File \"export.py\", line 3, in forward\n    x = net(x)\n"
      "  File \"lib/models/net.py\", line 171, in forward\n    return frob(x)";
  for (const bool unknown : {true, false}) {
    CAPTURE(unknown);
    proto::ModelProto model = empty_model();
    proto::NodeProto node = node_proto(unknown ? "Frobnicate" : "Relu", {"x"}, {"y"});
    if (!unknown) node.add_input("x");
    set_metadata(node, "namespace", ": main.Net/other: main.Other/frob: aten.frob.default");
    set_metadata(node, "pkg.torch.onnx.name_scopes", "['', 'net', 'net.layers.0', 'frob']");
    set_metadata(node, "pkg.torch.onnx.stack_trace", trace);
    add(*model.mutable_graph(), node);
    const CommandResult result = check_model(model).result;
    CHECK(result.exit_code == (unknown ? 4 : 3));
    CHECK(contains(result.err, "net.layers.0"));
    CHECK(contains(result.err, "net.py:171"));
    CHECK(result.err.find("lib/models") == std::string::npos);
  }
}

TEST_CASE("older exporters write the module into 'namespace'") {
  proto::ModelProto model = relu_model();
  set_metadata(*model.mutable_graph()->mutable_node(0), "namespace",
               ": main.Net/act: main.Act/relu: aten.relu.default");
  const TempFolder folder;
  const CommandResult result =
      run_command({RTX_IMPORT, folder.file("m.onnx", model.SerializeAsString()), "-o", "-", "--no-weights"});
  CHECK(contains(result.out, "from \"node 'y' (Relu) in act\""));
}

}  // namespace
}  // namespace rtx::onnx
