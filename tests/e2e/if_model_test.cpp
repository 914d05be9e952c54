// A model whose branches an input decides, from ONNX through rtx-compile to rtx-run and rtx-inspect.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "tests/command.h"
#include "tests/unit/onnx_file.h"

namespace rtx::onnx {
namespace {

// y = c ? -x : the maximum of x over its first axis. x is [n, 2].
proto::ModelProto choice_model() {
  proto::ModelProto model;
  model.set_ir_version(8);
  model.add_opset_import()->set_version(17);
  proto::GraphProto& graph = *model.mutable_graph();
  graph.set_name("g");
  proto::ValueInfoProto x = value_proto("x", {1, 2});
  x.mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim(0)->set_dim_param("n");
  *graph.add_input() = x;
  *graph.add_input() = value_proto("c", {}, proto::TensorProto::BOOL);
  graph.add_output()->set_name("y");
  proto::GraphProto yes, no;
  yes.set_name("yes");
  add(yes, node_proto("Neg", {"x"}, {"a"}));
  yes.add_output()->set_name("a");
  no.set_name("no");
  proto::NodeProto largest = node_proto("ReduceMax", {"x"}, {"b"});
  *largest.add_attribute() = ints_attribute("axes", {0});
  *largest.add_attribute() = int_attribute("keepdims", 0);
  add(no, largest);
  no.add_output()->set_name("b");
  proto::NodeProto choice = node_proto("If", {"c"}, {"y"});
  *choice.add_attribute() = graph_attribute("then_branch", yes);
  *choice.add_attribute() = graph_attribute("else_branch", no);
  add(graph, choice);
  return model;
}

struct Compiled {
  TempFolder folder;
  std::string package = folder / "p";
  Compiled() {
    const std::string model = folder.file("m.onnx", choice_model().SerializeAsString());
    const CommandResult result = run_command({RTX_COMPILE, "--no-kernel-cache", model, "-o", package});
    REQUIRE_MESSAGE(result.exit_code == 0, result.err);
  }
};

TEST_CASE("rtx-run takes the program that the input selects, the outputs have shapes of their own") {
  const Compiled c;
  const auto run = [&](const char* condition) {
    const CommandResult result =
        run_command({RTX_RUN, c.package, "--input=x=2x2xf32=1,2,3,4", concat("--input=c=bool=", condition)});
    REQUIRE_MESSAGE(result.exit_code == 0, result.err);
    return result.out;
  };
  CHECK(run("1") == "output y f32[2, 2]: min -4, max -1, mean -2.5; -1 -2 -3 -4\n");
  CHECK(run("0") == "output y f32[2]: min 3, max 4, mean 3.5; 3 4\n");
}

TEST_CASE("rtx-inspect prints when each program runs") {
  const Compiled c;
  const CommandResult text = run_command({RTX_INSPECT, c.package});
  CHECK(text.out.find("when input c is true\n") != std::string::npos);
  CHECK(text.out.find("when input c is false\n") != std::string::npos);
  const nlohmann::json json = nlohmann::json::parse(run_command({RTX_INSPECT, c.package, "--json"}).out);
  REQUIRE(json["programs"].size() == 2);
  CHECK(json["programs"][0]["when"] == nlohmann::json{{"input", "c"}, {"value", true}});
  CHECK(json["programs"][1]["when"] == nlohmann::json{{"input", "c"}, {"value", false}});
}

}  // namespace
}  // namespace rtx::onnx
