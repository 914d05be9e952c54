// Loops that are unrolled, and operators that are refused by name.
#include <doctest/doctest.h>

#include "tests/unit/import_apply.h"

using namespace rtx;
using namespace rtx::onnx;

namespace {

// A body of (i, c, v...) that also sees the names of the model.
struct Body {
  ModelText text;
  explicit Body(std::vector<std::string> carried) {
    text.input("i", onnx_i64, {}).input("c", onnx_bool, {});
    for (std::string& name : carried) {
      ValueInfo info;
      info.name = std::move(name);
      text.model.graph.inputs.push_back(info);
    }
  }
  std::shared_ptr<Graph> graph(std::vector<std::string> outputs) {
    for (std::string& name : outputs) text.output(std::move(name));
    return std::make_shared<Graph>(text.model.graph);
  }
};

// v = v * x + i, and each v before it.
std::shared_ptr<Graph> polynomial() {
  Body body({"v"});
  body.text.node("Cast", {"i"}, {"number"}, {attribute("to", 1)})
      .node("Mul", {"v", "x"}, {"scaled"})
      .node("Add", {"scaled", "number"}, {"next"})
      .node("Identity", {"v"}, {"slice"})
      .node("Identity", {"c"}, {"on"});
  return body.graph({"on", "next", "slice"});
}

Tensor boolean(bool value) {
  Tensor tensor(DType::boolean, {});
  tensor.set_i64(0, value);
  return tensor;
}

Diagnostic refused(const ModelText& text, const ImportOptions& options = {}) {
  auto result = text.import(options);
  REQUIRE_FALSE(result.ok());
  return result.error().first();
}

}  // namespace

TEST_CASE("a Loop of a constant number of iterations is its body as often, scan outputs are stacked") {
  ModelText text;
  text.input("x", onnx_f32, {"2"}).initializer("n", Tensor::scalar(DType::i64, 3)).initializer("t", boolean(true));
  text.initializer("v0", floats({2}, {1, 1}));
  text.node("Loop", {"n", "t", "v0"}, {"y", "all"}, {attribute("body", polynomial())}).output("y").output("all");
  // x = 2: 1, 2 * 1 + 0 = 2, 2 * 2 + 1 = 5, 2 * 5 + 2 = 12. x = 3: 1, 3, 10, 32.
  auto result = run(text, {floats({2}, {2, 3})});
  check_close(result[0], {12, 32});
  CHECK(result[1].shape == std::vector<int64_t>{3, 2});
  check_close(result[1], {1, 1, 2, 3, 5, 10});
  // The number may be folded: ceil(2.5). The condition may be left out, and its output is then ignored.
  text.model.graph.nodes.clear();
  text.initializer("real", floats({1}, {2.5}));
  text.node("Ceil", {"real"}, {"up"}).node("Cast", {"up"}, {"m"}, {attribute("to", 7)});
  text.node("Loop", {"m", "", "v0"}, {"y", "all"}, {attribute("body", polynomial())});
  check_close(run(text, {floats({2}, {2, 3})})[0], {12, 32});
}

TEST_CASE("a loop ends where its condition becomes false, before the trip count or without one") {
  for (const char* most : {"", "ten"}) {
    ModelText text;
    text.input("x", onnx_f32, {"2"}).initializer("ten", Tensor::scalar(DType::i64, 10)).initializer("t", boolean(true));
    text.initializer("two", Tensor::scalar(DType::i64, 2));
    Body body({"v"});
    body.text.node("Add", {"v", "v"}, {"next"}).node("Less", {"i", "two"}, {"on"});
    text.node("Loop", {most, "t", "x"}, {"y"}, {attribute("body", body.graph({"on", "next"}))}).output("y");
    check_close(run(text, {floats({2}, {1, 3})})[0], {8, 24});  // i = 0, 1, 2
  }
}

TEST_CASE("what a loop carries may change its shape, be a size, or not change at all") {
  ModelText text;
  text.input("x", onnx_f32, {"2"}).initializer("n", Tensor::scalar(DType::i64, 2)).initializer("t", boolean(true));
  text.node("Shape", {"x"}, {"size"});
  Body body({"v", "k", "s"});
  body.text.node("Concat", {"v", "x"}, {"longer"}, {attribute("axis", 0)}).node("Add", {"s", "s"}, {"twice"});
  text.node("Loop", {"n", "t", "x", "x", "size"}, {"y", "same", "eight"},
            {attribute("body", body.graph({"c", "longer", "k", "twice"}))});
  text.node("Expand", {"zero", "eight"}, {"zeros"}).initializer("zero", floats({1}, {0}));
  text.output("y").output("same").output("zeros");
  auto result = run(text, {floats({2}, {1, 2})});
  check_close(result[0], {1, 2, 1, 2, 1, 2});
  check_close(result[1], {1, 2});
  CHECK(result[2].shape == std::vector<int64_t>{8});
}

TEST_CASE("a loop without iterations gives what went in, and scan outputs of length 0") {
  ModelText text;
  text.input("x", onnx_f32, {"2"}).initializer("n", Tensor::scalar(DType::i64, 5)).initializer("f", boolean(false));
  std::shared_ptr<Graph> body = polynomial();
  body->outputs[2] = ModelText::value("slice", onnx_f32, {"2"});
  text.node("Loop", {"n", "f", "x"}, {"y", "all"}, {attribute("body", body)}).output("y").output("all");
  auto result = run(text, {floats({2}, {2, 3})});
  check_close(result[0], {2, 3});
  CHECK(result[1].shape == std::vector<int64_t>{0, 2});
  body->outputs[2] = ModelText::value("slice", onnx_f32, {"k"});
  CHECK(refused(text).id == "E401");
}

TEST_CASE("a loop whose length is not known is refused with the reason, its body is still looked at") {
  ModelText text;
  text.input("x", onnx_f32, {"s"}).input("n", onnx_i64, {}).initializer("t", boolean(true));
  Body body({"v"});
  body.text.node("Frobnicate", {"v"}, {"next"});
  std::shared_ptr<Graph> graph = body.graph({"c", "next"});
  text.node("Loop", {"n", "t", "x"}, {"y"}, {attribute("body", graph)}).output("y");
  auto result = text.import();
  REQUIRE_FALSE(result.ok());
  const std::string report = describe(result.error());
  CHECK(result.error().first().kind == ErrorKind::unsupported);
  CHECK(report.find("Loop (domain 'ai.onnx', opset 18): the number of iterations depends on data") !=
        std::string::npos);
  CHECK(report.find("which is input 'n' of the model") != std::string::npos);
  CHECK(report.find("Frobnicate (domain 'ai.onnx', opset 18): operator is not supported") != std::string::npos);

  text.node("Shape", {"x"}, {"size"});
  std::swap(text.model.graph.nodes[0], text.model.graph.nodes[1]);
  text.model.graph.nodes[1].inputs[0] = "size";
  CHECK(describe(text.import().error()).find("the number of iterations depends on dims of the inputs") !=
        std::string::npos);
  // A condition that data decides.
  ModelText data;
  data.input("x", onnx_f32, {}).initializer("n", Tensor::scalar(DType::i64, 3)).initializer("t", boolean(true));
  Body growing({"v"});
  growing.text.node("Add", {"v", "v"}, {"next"}).node("Less", {"next", "x"}, {"on"});
  data.node("Loop", {"n", "t", "x"}, {"y"}, {attribute("body", growing.graph({"on", "next"}))}).output("y");
  CHECK(describe(data.import().error()).find("the condition after the first iterations depends on data") !=
        std::string::npos);
}

TEST_CASE("loops are unrolled up to a number of iterations and of nodes, nested ones too") {
  ModelText text;
  text.input("x", onnx_f32, {"2"}).initializer("n", Tensor::scalar(DType::i64, 1000)).initializer("t", boolean(true));
  Body inner({"w"}), outer({"v"});
  inner.text.node("Neg", {"w"}, {"next"});
  std::shared_ptr<Graph> graph = inner.graph({"c", "next"});
  outer.text.node("Loop", {"n", "t", "v"}, {"u"}, {attribute("body", graph)});
  text.node("Loop", {"n", "t", "x"}, {"y"}, {attribute("body", outer.graph({"c", "u"}))}).output("y");
  ImportOptions options;
  options.max_inlined_nodes = 5000;
  CHECK(refused(text, options).id == "E503");
  text.model.graph.nodes[0].attributes = {attribute("body", graph)};
  check_close(run(text, {floats({2}, {1, 2})})[0], {1, 2});
  options.max_loop_iterations = 999;
  Diagnostic diagnostic = refused(text, options);
  CHECK(diagnostic.id == "E503");
  CHECK(diagnostic.kind == ErrorKind::limit);
  text.model.graph.nodes[0].inputs[0] = "";  // without end
  CHECK(refused(text).id == "E503");
}

TEST_CASE("a body that does not fit its loop is invalid") {
  ModelText text;
  text.input("x", onnx_f32, {"2"}).initializer("n", Tensor::scalar(DType::i64, 1)).initializer("t", boolean(true));
  Node& node = text.add("Loop", {"n", "t"}, {"y", "all"}, {attribute("body", polynomial())});
  text.output("y");
  CHECK(refused(text).id == "E222");
  node.inputs = {"n", "n", "x"};
  CHECK(refused(text).id == "E327");
  node.inputs = {"t", "t", "x"};
  CHECK(refused(text).id == "E327");
  node.inputs = {"n", "t", "x"};
  node.outputs = {"y", "all", "more"};
  CHECK(refused(text).id == "E222");
  node.attributes.clear();
  CHECK(refused(text).id == "E222");
}

TEST_CASE("operators that are known and refused say why, with domain, opset and node") {
  const auto message = [](const char* op, int64_t opset) {
    ModelText text(opset);
    text.input("x", onnx_f32, {"2"});
    text.add(op, {"x"}, {"y"}).name = "here";
    text.output("y");
    return describe(text.import().error());
  };
  const std::pair<const char*, const char*> reasons[] = {
      {"BitCast", "reading the bits of a tensor as another type is not supported"},
      {"Scan", "loops over an axis are not supported"},
      {"NonMaxSuppression", "the size of its output depends on data"},
      {"LSTM", "recurrent layers are not supported"},
      {"RandomNormalLike", "random numbers are not supported"},
      {"STFT", "Fourier transforms are not supported"},
      {"StringNormalizer", "tensors of strings are not supported"},
      {"OptionalHasElement", "optional values are not supported"},
      {"Det", "determinants are not supported"},
      {"RoiAlign", "regions of interest are not supported"},
  };
  for (const auto& [op, reason] : reasons) {
    const std::string text = message(op, 26);
    CAPTURE(text);
    CHECK(text.find(std::string(op) + " (domain 'ai.onnx', opset 26): " + reason) != std::string::npos);
    CHECK(text.find("node 'here'") != std::string::npos);
  }
  // The older form of broadcasting, with an attribute for the axis.
  CHECK(message("Add", 6).find("not supported, those from opset 7 on are") != std::string::npos);
  ModelText cast(23);
  cast.input("x", onnx_f32, {"2"}).node("Cast", {"x"}, {"y"}, {attribute("to", 8)}).output("y");
  CHECK(describe(cast.import().error()).find("cast to string") != std::string::npos);
}

TEST_CASE("Sum, Min, Max and Mean before they broadcast") {
  for (int64_t opset : {1, 6, 8}) {
    std::vector<Tensor> inputs = {floats({2}, {1, 4}), floats({2}, {3, 2})};
    check_close(apply(opset, "Sum", inputs)[0], {4, 6});
    check_close(apply(opset, "Min", inputs)[0], {1, 2});
    check_close(apply(opset, "Max", inputs)[0], {3, 4});
    check_close(apply(opset, "Mean", inputs)[0], {2, 3});
  }
}

TEST_CASE("Upsample is Resize with the coordinates of opset 10") {
  const std::vector<float> scales = {1, 1, 2};
  Tensor x = floats({1, 1, 3}, {1, 3, 5});
  check_close(apply(7, "Upsample", {x}, {attribute("scales", scales)})[0], {1, 1, 3, 3, 5, 5});
  check_close(apply(7, "Upsample", {x}, {attribute("scales", scales), attribute("mode", "linear")})[0],
              {1, 2, 3, 4, 5, 5});
  ModelText text(9);
  text.input("x", onnx_f32, {"1", "1", "3"}).initializer("s", floats({3}, {1, 1, 1.5}));
  text.node("Upsample", {"x", "s"}, {"y"}, {attribute("mode", "nearest")}).output("y");
  check_close(run(text, {x})[0], {1, 1, 3, 5});  // floor(i / 1.5)
}
