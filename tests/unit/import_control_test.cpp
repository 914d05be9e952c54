// If and sequences: what the importer makes of control and of lists of tensors.
#include <doctest/doctest.h>

#include "ir/text.h"
#include "ir/verify.h"
#include "tests/unit/import_apply.h"

using namespace rtx;
using namespace rtx::onnx;

namespace {

std::shared_ptr<Graph> one_node(const char* op, std::vector<std::string> inputs, const char* output) {
  ModelText text;
  text.node(op, std::move(inputs), {output}).output(output);
  return std::make_shared<Graph>(text.model.graph);
}

ModelText chosen_by_input(std::initializer_list<std::string> condition_shape) {
  ModelText text;
  text.input("x", onnx_f32, {"n", "2"}).input("c", onnx_bool, condition_shape);
  text.node("If", {"c"}, {"y"},
            {attribute("then_branch", one_node("Neg", {"x"}, "a")),
             attribute("else_branch", one_node("ReduceSum", {"x"}, "b"))});
  text.output("y");
  return text;
}

Tensor truth(std::vector<int64_t> shape, bool value) {
  Tensor tensor(DType::boolean, std::move(shape));
  tensor.set_i64(0, value);
  return tensor;
}

ImportResult imported(const ModelText& text) {
  auto result = text.import();
  REQUIRE_MESSAGE(result.ok(), describe(result.error()));
  return std::move(result).value();
}

Diagnostic refused(const ModelText& text) {
  auto result = text.import();
  REQUIRE_FALSE(result.ok());
  return result.error().first();
}

}  // namespace

TEST_CASE("an If that a bool input decides makes a function for each value, with shapes of their own") {
  for (int rank : {0, 1}) {
    ModelText text = rank == 0 ? chosen_by_input({}) : chosen_by_input({"1"});
    ImportResult result = imported(text);
    const Module& module = *result.module;
    REQUIRE(module.functions.size() == 2);
    CHECK(module.functions[0]->name == "main.true");
    CHECK(module.functions[0]->when == Selector{"c", true});
    CHECK(module.functions[1]->when == Selector{"c", false});
    std::vector<int64_t> shape(rank, 1);
    Tensor x = floats({2, 2}, {1, 2, 3, 4});
    auto negated = evaluate(*module.functions[0], {x, truth(shape, true)}, *module.weights);
    auto summed = evaluate(*module.functions[1], {x, truth(shape, false)}, *module.weights);
    REQUIRE(negated.ok());
    REQUIRE(summed.ok());
    CHECK(elements((*negated)[0]) == Doubles{-1, -2, -3, -4});
    CHECK(elements((*summed)[0]) == Doubles{10});
  }
}

TEST_CASE("the text of a module says which input selects a function, and reads back") {
  ImportResult result = imported(chosen_by_input({}));
  const std::string text = print(*result.module);
  CHECK(text.find("outputs \"y\" when \"c\" true") != std::string::npos);
  auto parsed = parse_module(text, "m");
  REQUIRE(parsed.ok());
  CHECK(print(**parsed) == text);
  (*parsed)->functions[0]->when->input = "x";  // no bool
  REQUIRE_FALSE(verify(**parsed).ok());
}

TEST_CASE("the input may decide through Not and casts, more than one If, and nested ones") {
  ModelText inner;
  inner.node(
      "If", {"c"}, {"v"},
      {attribute("then_branch", one_node("Neg", {"x"}, "p")), attribute("else_branch", one_node("Abs", {"x"}, "q"))});
  inner.output("v");
  ModelText text;
  text.input("x", onnx_f32, {"2"}).input("c", onnx_bool, {"1"});
  text.node("Not", {"c"}, {"d"})
      .node("Cast", {"d"}, {"e"}, {attribute("to", 7)})
      .node("Cast", {"e"}, {"f"}, {attribute("to", 9)})
      .node("If", {"f"}, {"u"},
            {attribute("then_branch", std::make_shared<Graph>(inner.model.graph)),
             attribute("else_branch", one_node("Identity", {"x"}, "r"))})
      .node("If", {"c"}, {"w"},
            {attribute("then_branch", one_node("Identity", {"u"}, "s")),
             attribute("else_branch", one_node("Neg", {"u"}, "t"))})
      .output("w");
  ImportResult result = imported(text);
  REQUIRE(result.module->functions.size() == 2);
  Tensor x = floats({2}, {-1, 2});
  CHECK(elements(evaluate(*result.module->functions[0], {x, truth({1}, true)}, *result.module->weights).value()[0]) ==
        Doubles{-1, 2});
  CHECK(elements(evaluate(*result.module->functions[1], {x, truth({1}, false)}, *result.module->weights).value()[0]) ==
        Doubles{-1, -2});
}

TEST_CASE("a condition that is data, or two inputs, is refused") {
  ModelText data;
  data.input("x", onnx_f32, {"1"}).input("k", onnx_f32, {"1"});
  data.node("Less", {"x", "k"}, {"c"})
      .node("If", {"c"}, {"y"},
            {attribute("then_branch", one_node("Neg", {"x"}, "a")),
             attribute("else_branch", one_node("Abs", {"x"}, "b"))})
      .output("y");
  CHECK(refused(data).id == "E405");
  ModelText two;
  two.input("x", onnx_f32, {"1"}).input("c", onnx_bool, {}).input("d", onnx_bool, {});
  for (const char* name : {"c", "d"})
    two.node(
        "If", {name}, {std::string("y") + name},
        {attribute("then_branch", one_node("Neg", {"x"}, "a")), attribute("else_branch", one_node("Abs", {"x"}, "b"))});
  two.output("yc").output("yd");
  CHECK(refused(two).id == "E405");
  ModelText many = chosen_by_input({"2"});
  CHECK(refused(many).id == "E327");
}

TEST_CASE("a branch may return an outer value, an initializer of its own, or an outer initializer") {
  ModelText own, outer;
  own.initializer("k", floats({2}, {5, 6})).output("k");
  outer.output("w");
  ModelText text;
  text.input("c", onnx_bool, {}).initializer("w", floats({1}, {7}));
  text.node("If", {"c"}, {"y"},
            {attribute("then_branch", std::make_shared<Graph>(own.model.graph)),
             attribute("else_branch", std::make_shared<Graph>(outer.model.graph))});
  text.output("y");
  ImportResult result = imported(text);
  REQUIRE(result.module->functions.size() == 2);
  CHECK(elements(evaluate(*result.module->functions[0], {truth({}, true)}, *result.module->weights).value()[0]) ==
        Doubles{5, 6});
  CHECK(elements(evaluate(*result.module->functions[1], {truth({}, false)}, *result.module->weights).value()[0]) ==
        Doubles{7});
}

TEST_CASE("weights that both branches use stand in the module once, ranges that differ get symbols of their own") {
  ModelText then, other;
  then.node("MatMul", {"x", "w"}, {"a"}).output("a");
  // The table has 8 rows, which bounds n in this branch alone.
  other.initializer("k", Tensor(DType::f32, {4, 8})).node("Add", {"x", "k"}, {"s"}).node("MatMul", {"s", "w"}, {"b"});
  other.output("b");
  ModelText text;
  text.input("x", onnx_f32, {"n", "8"}).input("c", onnx_bool, {}).initializer("w", Tensor(DType::f32, {8, 8}));
  text.node("If", {"c"}, {"y"},
            {attribute("then_branch", std::make_shared<Graph>(then.model.graph)),
             attribute("else_branch", std::make_shared<Graph>(other.model.graph))});
  text.output("y");
  ImportResult result = imported(text);
  CHECK(result.module->weights->entries().size() == 2);
  // Add fixes n = 4 where the input is false; the other function keeps it.
  CHECK(result.module->functions[0]->block.argument(0)->type.str() == "tensor<[n, 8], f32>");
  CHECK(result.module->functions[1]->block.argument(0)->type.str() == "tensor<[4, 8], f32>");
}

// ---- Sequences

TEST_CASE("SplitToSequence takes sizes, one size with a shorter last part, or parts of 1") {
  Tensor x = floats({5, 2}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  auto at = [&](const char* split, int64_t position, std::vector<Attribute> attributes) {
    ModelText text;
    text.input("x", onnx_f32, {"5", "2"}).initializer("two", Tensor::scalar(DType::i64, 2));
    text.initializer("list", std::vector<int64_t>{1, 4}).initializer("p", Tensor::scalar(DType::i64, position));
    text.node("SplitToSequence", {"x", split}, {"s"}, std::move(attributes)).node("SequenceAt", {"s", "p"}, {"y"});
    text.node("SequenceLength", {"s"}, {"n"}).output("y").output("n");
    return run(text, {x});
  };
  auto y = at("two", -1, {});
  CHECK(y[0].shape == std::vector<int64_t>{1, 2});
  CHECK(elements(y[0]) == Doubles{8, 9});
  CHECK(elements(y[1]) == Doubles{3});
  // keepdims has no meaning where the sizes are given.
  y = at("list", 0, {attribute("keepdims", 0)});
  CHECK(y[0].shape == std::vector<int64_t>{1, 2});
  y = at("", 1, {attribute("axis", -1), attribute("keepdims", 0)});
  CHECK(y[0].shape == std::vector<int64_t>{5});
  CHECK(elements(y[0]) == Doubles{1, 3, 5, 7, 9});
  y = at("", -5, {});
  CHECK(y[0].shape == std::vector<int64_t>{1, 2});
}

TEST_CASE("a sequence is built, changed and joined, a new axis stacks") {
  ModelText text;
  text.input("a", onnx_f32, {"2"}).input("b", onnx_f32, {"2"}).initializer("back", Tensor::scalar(DType::i64, -1));
  text.initializer("first", Tensor::scalar(DType::i64, 0));
  text.node("SequenceEmpty", {}, {"e"})
      .node("SequenceInsert", {"e", "a"}, {"one"})
      .node("SequenceInsert", {"one", "b", "back"}, {"two"})  // before the last: b, a
      .node("ConcatFromSequence", {"two"}, {"y"}, {attribute("axis", 0)})
      .node("ConcatFromSequence", {"two"}, {"z"}, {attribute("axis", -1), attribute("new_axis", 1)})
      .node("SequenceConstruct", {"a", "b"}, {"pair"})
      .node("SequenceErase", {"pair", "first"}, {"rest"})
      .node("SequenceAt", {"rest", "first"}, {"w"});
  text.output("y").output("z").output("w");
  auto result = run(text, {floats({2}, {1, 2}), floats({2}, {3, 4})});
  CHECK(elements(result[0]) == Doubles{3, 4, 1, 2});
  CHECK(result[1].shape == std::vector<int64_t>{2, 2});
  CHECK(elements(result[1]) == Doubles{3, 1, 4, 2});
  CHECK(elements(result[2]) == Doubles{3, 4});
}

TEST_CASE("sizes that go through a sequence stay shape arithmetic") {
  ModelText text;
  text.input("x", onnx_f32, {"n", "2"}).initializer("p", Tensor::scalar(DType::i64, 0));
  text.initializer("minus", std::vector<int64_t>{-1});
  text.node("Shape", {"x"}, {"shape"})
      .node("SplitToSequence", {"shape"}, {"s"})
      .node("SequenceAt", {"s", "p"}, {"n"})
      .node("Concat", {"minus", "n"}, {"t"}, {attribute("axis", 0)})
      .node("Reshape", {"x", "t"}, {"y"})
      .output("y");
  CHECK(run(text, {floats({3, 2}, {1, 2, 3, 4, 5, 6})})[0].shape == std::vector<int64_t>{2, 3});
}

TEST_CASE("what needs a sequence at run time is refused, and a position outside is an error") {
  ModelText text;
  text.input("x", onnx_f32, {"4"}).initializer("p", Tensor::scalar(DType::i64, 4));
  text.node("SplitToSequence", {"x"}, {"s"}).node("SequenceAt", {"s", "p"}, {"y"}).output("y");
  CHECK(refused(text).id == "E333");
  text.model.graph.nodes[1] = text.model.graph.nodes[0];
  text.model.graph.nodes[1].op_type = "Relu";
  text.model.graph.nodes[1].inputs = {"s"};
  text.model.graph.nodes[1].outputs = {"y"};
  CHECK(refused(text).id == "E404");
  text.model.graph.nodes.pop_back();
  text.model.graph.outputs[0].name = "s";
  CHECK(refused(text).id == "E404");
  ModelText open;
  open.input("x", onnx_f32, {"n"}).input("k", onnx_i64, {}).initializer("p", Tensor::scalar(DType::i64, 0));
  open.node("SplitToSequence", {"x"}, {"s"}).node("SequenceAt", {"s", "p"}, {"y"}).output("y");
  CHECK(refused(open).id == "E401");
  open.model.graph.inputs[0] = ModelText::value("x", onnx_f32, {"4"});
  open.model.graph.nodes[1].inputs[1] = "k";
  CHECK(refused(open).id == "E402");
}
