// Every limit of rtx-import is an option: the error that reaching it gives names the option and the limit, and a larger
// value lets the model in.

#include "tests/e2e/import_site.h"

namespace rtx::onnx {
namespace {

struct Limit {
  const char *option, *too_small, *enough;
  proto::ModelProto model;
};

// y = f(f(x)), f of two nodes.
proto::ModelProto with_function() {
  proto::ModelProto model = empty_model();
  add(*model.mutable_graph(), node_proto("f", {"x"}, {"a"}, "local"));
  add(*model.mutable_graph(), node_proto("f", {"a"}, {"y"}, "local"));
  proto::FunctionProto& function = *model.add_functions();
  function.set_domain("local");
  function.set_name("f");
  function.add_input("i");
  function.add_output("o");
  function.add_opset_import()->set_version(17);
  *function.add_node() = node_proto("Relu", {"i"}, {"t"});
  *function.add_node() = node_proto("Neg", {"t"}, {"o"});
  proto::OperatorSetIdProto& local = *model.add_opset_import();
  local.set_domain("local");
  local.set_version(1);
  return model;
}

// An If in a branch of an If, under conditions that are known.
proto::ModelProto with_branches() {
  proto::GraphProto branch;
  branch.set_name("branch");
  add(branch, node_proto("Relu", {"x"}, {"r"}));
  branch.add_output()->set_name("r");
  for (const char* output : {"s", "y"}) {
    proto::NodeProto choice = node_proto("If", {"w"}, {output});
    for (const char* name : {"then_branch", "else_branch"}) *choice.add_attribute() = graph_attribute(name, branch);
    branch.clear_node();
    branch.clear_output();
    add(branch, choice);
    branch.add_output()->set_name(output);
  }
  proto::ModelProto model = empty_model();
  add(*model.mutable_graph(), branch.node(0));
  proto::TensorProto condition = tensor_proto(proto::TensorProto::BOOL);
  condition.clear_dims();
  condition.set_raw_data("\x01");
  *model.mutable_graph()->add_initializer() = condition;
  return model;
}

// Two iterations of Relu.
proto::ModelProto with_loop() {
  proto::GraphProto body;
  body.set_name("body");
  for (const char* name : {"i", "c", "v"}) body.add_input()->set_name(name);
  add(body, node_proto("Relu", {"v"}, {"r"}));
  for (const char* name : {"c", "r"}) body.add_output()->set_name(name);
  proto::ModelProto model = empty_model();
  proto::NodeProto loop = node_proto("Loop", {"w", "", "x"}, {"y"});
  *loop.add_attribute() = graph_attribute("body", body);
  add(*model.mutable_graph(), loop);
  proto::TensorProto count = tensor_proto(proto::TensorProto::INT64);
  count.clear_dims();
  count.set_raw_data(std::string("\x02\0\0\0\0\0\0\0", 8));
  *model.mutable_graph()->add_initializer() = count;
  return model;
}

TEST_CASE("each limit is an option that its error names") {
  const Site site;
  proto::ModelProto two_initializers = model_with(weight());
  *two_initializers.mutable_graph()->add_initializer() = weight();
  two_initializers.mutable_graph()->mutable_initializer(1)->set_name("v");
  proto::ModelProto two_nodes = empty_model();
  add(*two_nodes.mutable_graph(), node_proto("Relu", {"x"}, {"a"}));
  add(*two_nodes.mutable_graph(), node_proto("Neg", {"a"}, {"y"}));
  proto::ModelProto rank_2 = relu_model();
  *rank_2.mutable_graph()->mutable_input(0) = value_proto("x", {2, 2});
  rank_2.mutable_graph()->mutable_output(0)->clear_type();
  proto::ModelProto long_name = relu_model();
  long_name.mutable_graph()->mutable_node(0)->set_name("a name of this length");

  const Limit limits[] = {
      {"--max-file-bytes", "20", "200", relu_model()},
      {"--max-wire-fields", "5", "100", relu_model()},
      {"--max-messages", "3", "100", relu_model()},
      {"--max-nodes", "1", "2", two_nodes},
      {"--max-initializers", "1", "2", two_initializers},
      {"--max-rank", "1", "2", rank_2},
      {"--max-dim", "3", "4", relu_model()},
      {"--max-tensor-bytes", "15", "16", model_with(weight())},
      {"--max-name-bytes", "20", "21", long_name},
      {"--max-depth", "1", "2", with_branches()},
      {"--max-inlined-nodes", "3", "4", with_function()},
      {"--max-inlined-bytes", "100", "100000", with_function()},
      {"--max-inlined-nodes", "3", "4", with_loop()},
      {"--max-loop-iterations", "1", "2", with_loop()},
  };
  for (const Limit& limit : limits) {
    CAPTURE(limit.option);
    const CommandResult result = site.import(limit.model, {limit.option, limit.too_small});
    CAPTURE(result.err);
    CHECK(result.exit_code == 5);
    CHECK(result.err.find(limit.option) != std::string::npos);
    CHECK(result.err.find(concat("at most ", limit.too_small)) != std::string::npos);
    CHECK(fs::is_empty(site.folder / "out"));
    CHECK(site.accepts(limit.model, {limit.option, limit.enough}));
    for (const char* bad : {"0", "-1", "x", "1e3", "99999999999999999999"})
      CHECK(site.import(limit.model, {limit.option, bad}).exit_code == 2);
  }
}

TEST_CASE("objects that take far more memory than the file are bounded by --max-expansion") {
  const Site site;
  std::string nodes;
  for (int i = 0; i < 600'000; ++i) nodes += message(graph_node, "");
  check_model(site, with_graph_field(nodes), 5, "E501", "--max-expansion", {"--max-expansion", "1"});
}

TEST_CASE("tensors that share one range of a file are bounded by --max-sharing") {
  const Site site;
  constexpr int64_t size = 16 << 20;
  site.folder.file("model/w.bin", "");
  fs::resize_file(site.folder / "model/w.bin", size);
  proto::ModelProto model = relu_model();
  for (int i = 0; i < 80; ++i) {
    proto::TensorProto& tensor = *model.mutable_graph()->add_initializer();
    tensor = external_weight("w.bin", "0");
    tensor.set_name(concat("w", i));
    tensor.set_dims(0, size / 4);
  }
  check_model(site, model, 5, "E504", "--max-sharing");
  CHECK(site.accepts(model, {"--max-sharing", "100"}));
}

}  // namespace
}  // namespace rtx::onnx
