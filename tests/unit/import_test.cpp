// The importer's own work: names, shapes as expressions, reports.
#include <doctest/doctest.h>

#include <set>

#include "base/text.h"
#include "frontend/converter.h"
#include "ir/text.h"
#include "tests/unit/import_model.h"

using namespace rtx;
using namespace rtx::onnx;

namespace {

ImportResult imported(const ModelText& text, const ImportOptions& options = {}) {
  auto result = text.import(options);
  REQUIRE_MESSAGE(result.ok(), describe(result.error()));
  return std::move(result).value();
}

Error refused(const ModelText& text) {
  auto result = text.import();
  REQUIRE_FALSE(result.ok());
  return std::move(result).error();
}

const Operation& last_before_yield(const ImportResult& result) {
  const auto& operations = result.module->functions[0]->block.operations();
  REQUIRE(operations.size() >= 2);
  return **std::prev(operations.end(), 2);
}

Type output_type(const ImportResult& result, size_t index = 0) {
  return result.module->functions[0]->block.terminator()->operand(index)->type;
}

int count(const ImportResult& result, Op op) {
  int found = 0;
  for (const auto& operation : result.module->functions[0]->block.operations()) found += operation->is(op);
  return found;
}

std::string all_notes(const Diagnostic& diagnostic) { return join(diagnostic.notes, "\n"); }

}  // namespace

TEST_CASE("a shape chain becomes dims of one reshape and nothing else") {
  ModelText text;
  text.input("x", onnx_f32, {"batch", "seq", "32"})
      .initializer("zero", Tensor::scalar(DType::i64, 0))
      .initializer("one", Tensor::scalar(DType::i64, 1))
      .initializer("axis", std::vector<int64_t>{0})
      .initializer("tail", std::vector<int64_t>{4, -1})
      .node("Shape", {"x"}, {"shape"})
      .node("Gather", {"shape", "zero"}, {"b"}, {attribute("axis", 0)})
      .node("Gather", {"shape", "one"}, {"s"}, {attribute("axis", 0)})
      .node("Unsqueeze", {"b", "axis"}, {"b1"})
      .node("Unsqueeze", {"s", "axis"}, {"s1"})
      .node("Concat", {"b1", "s1", "tail"}, {"target"}, {attribute("axis", 0)})
      .node("Reshape", {"x", "target"}, {"y"})
      .output("y");
  ImportResult result = imported(text);
  CHECK(result.module->functions[0]->block.size() == 2);
  CHECK(output_type(result).str() == "tensor<[batch, seq, 4, 8], f32>");
  const Operation& reshape = last_before_yield(result);
  CHECK(reshape.is(Op::reshape));
  CHECK(reshape.result()->name == "y");
  REQUIRE(reshape.origins.size() == 1);
  CHECK(reshape.origins[0] == "node 'y' (Reshape)");
  CHECK(result.warnings.empty());
}

TEST_CASE("Where on Equal with -1, as exporters guard Expand, is decided by the range of the dim") {
  ModelText text;
  text.input("x", onnx_f32, {"1", "seq"})
      .initializer("minus", std::vector<int64_t>{-1})
      .initializer("three", std::vector<int64_t>{3})
      .initializer("ones", std::vector<int64_t>{1, 1})
      .initializer("one", std::vector<int64_t>{1})
      .node("Shape", {"x"}, {"shape"})
      .node("Slice", {"shape", "one", "two"}, {"seq"})
      .initializer("two", std::vector<int64_t>{2})
      .node("Concat", {"three", "seq"}, {"wanted"}, {attribute("axis", 0)})
      .node("Equal", {"wanted", "minus"}, {"is_minus"})
      .node("Where", {"is_minus", "ones", "wanted"}, {"target"})
      .node("Expand", {"x", "target"}, {"y"})
      .output("y");
  CHECK(output_type(imported(text)).str() == "tensor<[3, seq], f32>");
}

TEST_CASE("size arithmetic through floats stays exact") {
  ModelText text;
  text.input("x", onnx_f32, {"n"})
      .initializer("half", Tensor::scalar(DType::f32, 2))
      .initializer("minus", std::vector<int64_t>{-1})
      .node("Size", {"x"}, {"size"})
      .node("Cast", {"size"}, {"real"}, {attribute("to", 1)})
      .node("Mul", {"real", "half"}, {"double"})
      .node("Div", {"double", "half"}, {"again"})
      .node("Floor", {"again"}, {"floor"})
      .node("Cast", {"floor"}, {"whole"}, {attribute("to", 7)})
      .node("Reshape", {"whole", "minus"}, {"target"})
      .node("Reshape", {"x", "target"}, {"y"})
      .output("y");
  ImportResult result = imported(text);
  CHECK(output_type(result).str() == "tensor<[n], f32>");
}

TEST_CASE("a size that is used as data is emitted once, as dim_values") {
  ModelText text;
  text.input("x", onnx_i64, {"n"})
      .node("Size", {"x"}, {"size"})
      .node("Add", {"x", "size"}, {"y"})
      .output("y")
      .output("size");
  ImportResult result = imported(text);
  CHECK(count(result, Op::dim_values) == 1);
  auto values = evaluate(*result.module->functions[0], {integers({3}, {1, 2, 3})}, *result.module->weights);
  REQUIRE(values.ok());
  CHECK((*values)[0] == integers({3}, {4, 5, 6}));
  CHECK((*values)[1] == integers({}, {3}));
}

TEST_CASE("Reshape follows its rules for 0, -1 and allowzero") {
  auto reshaped = [](std::initializer_list<std::string> axes, std::vector<int64_t> target, bool allow_zero) {
    ModelText text;
    text.input("x", onnx_f32, axes).initializer("target", target);
    text.node("Reshape", {"x", "target"}, {"y"}, {attribute("allowzero", allow_zero ? 1 : 0)}).output("y");
    return text;
  };
  CHECK(output_type(imported(reshaped({"b", "6"}, {0, 2, -1}, false))).str() == "tensor<[b, 2, 3], f32>");
  // The -1 is found algebraically, so that it holds for an empty batch too.
  CHECK(output_type(imported(reshaped({"b", "128", "1024"}, {0, -1, 16, 64}, false))).str() ==
        "tensor<[b, 128, 16, 64], f32>");
  CHECK(output_type(imported(reshaped({"0", "4"}, {0, 7}, true))).str() == "tensor<[0, 7], f32>");
  CHECK(output_type(imported(reshaped({"2", "3"}, {-1}, true))).str() == "tensor<[6], f32>");
  CHECK(output_type(imported(reshaped({"1"}, {}, false))).str() == "tensor<[], f32>");
  CHECK(refused(reshaped({"2", "3"}, {-1, -1}, false)).first().id == "E330");
  CHECK(refused(reshaped({"2", "3"}, {-2, 3}, false)).first().id == "E330");
  CHECK(refused(reshaped({"2"}, {2, 0}, false)).first().id == "E330");
  CHECK(refused(reshaped({"0", "4"}, {0, -1}, true)).first().id == "E330");
  CHECK(refused(reshaped({"2", "3"}, {-1, 4}, false)).first().id == "E330");
  CHECK(refused(reshaped({"2", "3"}, {5}, false)).first().id == "reshape_c1");
}

TEST_CASE("dims that an operator needs equal become one, with a warning that names the node") {
  ModelText text;
  text.input("a", onnx_f32, {"batch", "past", "8"})
      .input("b", onnx_f32, {"s86", "other", "8"})
      .node("Add", {"a", "b"}, {"y"})
      .output("y");
  ImportResult result = imported(text);
  REQUIRE(result.warnings.size() == 2);
  CHECK(result.warnings[0].id == "W202");
  CHECK(result.warnings[0].message == "dim 's86' is batch");
  CHECK(result.warnings[0].where == "m.onnx: node 'y' (Add)");
  CHECK(result.warnings[1].message == "dim 'past' is other");
  CHECK(output_type(result).str() == "tensor<[batch, other, 8], f32>");
  CHECK(result.module->functions[0]->block.argument(1)->type.str() == "tensor<[batch, other, 8], f32>");
  CHECK(result.module->symbols.size() == 2);
}

TEST_CASE("dims whose ranges do not meet are not made equal") {
  ModelText text;
  text.input("a", onnx_f32, {"a"}).input("b", onnx_f32, {"b"}).node("Add", {"a", "b"}, {"y"}).output("y");
  ImportOptions options;
  options.ranges["a"] = {1, 4, 0};
  options.ranges["b"] = {5, 9, 0};
  auto result = text.import(options);
  REQUIRE_FALSE(result.ok());
  CHECK(result.error().first().id == "broadcast_c1");
}

TEST_CASE("dims fixed by an option are constants from the start") {
  ModelText text;
  text.input("x", onnx_f32, {"batch", "seq"}).node("Relu", {"x"}, {"y"}).output("y");
  ImportOptions options;
  options.ranges["batch"] = {2, 2, 0};
  options.ranges["seq"] = {1, 128, 64};
  ImportResult result = imported(text, options);
  CHECK(output_type(result).str() == "tensor<[2, seq], f32>");
  REQUIRE(result.module->symbols.size() == 1);
  CHECK(result.module->symbols.at("seq") == SymbolRange{1, 128, 64});
}

TEST_CASE("expressions in dim_param stay expressions where their symbols can be bound") {
  ModelText text;
  text.input("a", onnx_f32, {"s21"}).input("b", onnx_f32, {"s29"}).input("c", onnx_f32, {"s21 + s29"});
  text.node("Concat", {"a", "b"}, {"ab"}, {attribute("axis", 0)}).node("Add", {"ab", "c"}, {"y"}).output("y");
  ImportResult result = imported(text);
  CHECK(result.warnings.empty());
  CHECK(output_type(result).str() == "tensor<[s21 + s29], f32>");
}

TEST_CASE("an expression over a symbol that no axis binds becomes a symbol of its own, and unnamed axes get names") {
  ModelText text;
  text.input("x", onnx_f32, {"2*half", ""}).node("Relu", {"x"}, {"y"}).output("y");
  ImportResult result = imported(text);
  const Shape shape = output_type(result).shape;
  CHECK(shape[0].as_symbol().has_value());
  CHECK(shape[1].str() == "x_dim1");
  CHECK(result.module->symbols.size() == 2);
}

TEST_CASE("a table cut at a symbolic size bounds the range of the symbol") {
  ModelText text;
  text.input("x", onnx_f32, {"seq"})
      .initializer("table", Tensor(DType::f32, {512}))
      .initializer("zero", std::vector<int64_t>{0})
      .node("Shape", {"x"}, {"end"})
      .node("Slice", {"table", "zero", "end", "zero"}, {"part"})
      .node("Add", {"x", "part"}, {"y"})
      .output("y");
  ImportResult result = imported(text);
  CHECK(result.module->symbols.at("seq").max == 512);
  REQUIRE(result.warnings.size() == 1);
  CHECK(result.warnings[0].message == "dim 'seq' is at most 512");
  CHECK(output_type(result).str() == "tensor<[seq], f32>");
}

TEST_CASE("Slice clamps, counts from the end and walks backwards") {
  auto sliced = [](std::vector<int64_t> start, std::vector<int64_t> end, std::vector<int64_t> step) {
    ModelText text;
    text.input("x", onnx_i64, {"5"})
        .initializer("s", start)
        .initializer("e", end)
        .initializer("a", {0})
        .initializer("st", step);
    text.node("Slice", {"x", "s", "e", "a", "st"}, {"y"}).output("y");
    ImportResult result = imported(text);
    auto values = evaluate(*result.module->functions[0], {integers({5}, {0, 1, 2, 3, 4})}, *result.module->weights);
    REQUIRE(values.ok());
    std::vector<int64_t> elements;
    for (int64_t i = 0; i < (*values)[0].element_count(); ++i) elements.push_back((*values)[0].i64(i));
    return elements;
  };
  using List = std::vector<int64_t>;
  CHECK(sliced({1}, {INT64_MAX}, {1}) == List{1, 2, 3, 4});
  CHECK(sliced({-2}, {100}, {1}) == List{3, 4});
  CHECK(sliced({0}, {-1}, {2}) == List{0, 2});
  CHECK(sliced({-1}, {INT64_MIN}, {-1}) == List{4, 3, 2, 1, 0});
  CHECK(sliced({3}, {0}, {-2}) == List{3, 1});
  CHECK(sliced({100}, {-100}, {-3}) == List{4, 1});
  CHECK(sliced({4}, {2}, {1}) == List{});
  CHECK(sliced({INT64_MIN}, {INT64_MAX}, {1}) == List{0, 1, 2, 3, 4});
}

TEST_CASE("every unsupported operator is in one report with count, domain, opset and first nodes") {
  ModelText text;
  text.input("x", onnx_f32, {"n"});
  for (int i = 0; i < 5; ++i)
    text.add("Frobnicate", {"x"}, {"f" + std::to_string(i)}, {}, "com.acme").name = "frob_" + std::to_string(i);
  text.node("Relu", {"f0"}, {"r"})  // not reported: it only follows from the first
      .node("Det", {"r"}, {"z"})
      .output("z");
  Error error = refused(text);
  REQUIRE(error.diagnostics.size() == 2);
  CHECK(error.first().kind == ErrorKind::unsupported);
  CHECK(error.first().id == "E401");
  CHECK(error.first().message == "com.acme.Frobnicate (domain 'com.acme', opset 1): operator is not supported");
  CHECK(all_notes(error.first()) ==
        "5 nodes: node 'frob_0' (com.acme.Frobnicate), node 'frob_1' (com.acme.Frobnicate), node 'frob_2' "
        "(com.acme.Frobnicate), ...");
  CHECK(error.diagnostics[1].message == "Det (domain 'ai.onnx', opset 18): determinants are not supported");
}

TEST_CASE("the report of a shape that depends on data says what to do") {
  ModelText text;
  text.input("x", onnx_f32, {"batch", "n"}).input("size", onnx_i32, {"1"}).input("values", onnx_i64, {"k"});
  text.node("Shape", {"x"}, {"sizes"}).initializer("zero", {0}).initializer("axis0", {0});
  text.node("Gather", {"sizes", "zero"}, {"first"});
  text.node("Cast", {"size"}, {"wide"}, {{"to", int64_t{onnx_i64}, {}, {}}});
  text.node("Concat", {"first", "wide"}, {"wanted"}, {{"axis", int64_t{0}, {}, {}}});
  text.node("Reshape", {"x", "wanted"}, {"y"}).output("y");
  text.node("ReduceMax", {"values", "axis0"}, {"longest"}).node("Expand", {"x", "longest"}, {"z"}).output("z");
  const Error error = refused(text);
  REQUIRE(error.diagnostics.size() == 2);
  const std::string notes = all_notes(error.first());
  CHECK(notes.find("'wanted' comes from node 'wanted' (Concat)") != std::string::npos);
  CHECK(notes.find("'wide' comes from node 'wide' (Cast)") != std::string::npos);
  CHECK(notes.find("which is input 'size' of the model") != std::string::npos);
  CHECK(error.first().help.find("--constant 'size=...'") != std::string::npos);
  CHECK(all_notes(error.diagnostics[1]).find("(ReduceMax)") != std::string::npos);
  CHECK(error.diagnostics[1].help.find("padding to a fixed size") != std::string::npos);
}

TEST_CASE("a condition that depends on data is reported with the nodes that lead to it") {
  ModelText text;
  text.input("x", onnx_f32, {"1"}).input("n", onnx_f32, {"1"});
  const auto branch = [](const char* op) {
    auto graph = std::make_shared<Graph>();
    Node node;
    node.op_type = op;
    node.opset = 18;
    node.inputs = {"x"};
    node.outputs = {"r"};
    graph->nodes.push_back(node);
    ValueInfo result;
    result.name = "r";
    graph->outputs.push_back(result);
    return graph;
  };
  text.node("IsNaN", {"n"}, {"condition"});
  text.node("If", {"condition"}, {"y"},
            {{"then_branch", branch("Relu"), {}, {}}, {"else_branch", branch("Neg"), {}, {}}});
  const Error error = refused(text.output("y"));
  CHECK(error.first().id == "E405");
  CHECK(all_notes(error.first()).find("'condition' comes from node 'condition' (IsNaN)") != std::string::npos);
  CHECK(all_notes(error.first()).find("which is input 'n' of the model") != std::string::npos);
}

TEST_CASE("a shape that depends on data is reported with the nodes that lead to it") {
  ModelText text;
  text.input("n", onnx_i64, {"1"}).input("x", onnx_f32, {"k"});
  text.node("Abs", {"n"}, {"positive"}).node("Reshape", {"x", "positive"}, {"y"}).output("y");
  Error error = refused(text);
  CHECK(error.first().id == "E402");
  CHECK(error.first().kind == ErrorKind::unsupported);
  std::string notes = all_notes(error.first());
  CHECK(notes.find("'positive' comes from node 'positive' (Abs)") != std::string::npos);
  CHECK(notes.find("input 'n' of the model") != std::string::npos);
  // Given as a constant, the same model imports.
  ImportOptions options;
  options.constants["n"] = integers({1}, {4});
  ImportResult result = imported(text, options);
  CHECK(output_type(result).str() == "tensor<[4], f32>");
  CHECK(result.module->functions[0]->block.argument_count() == 1);
}

TEST_CASE("a constant given for an input must have its type") {
  ModelText text;
  text.input("n", onnx_i64, {"1"}).node("Abs", {"n"}, {"y"}).output("y");
  ImportOptions options;
  options.constants["n"] = floats({1}, {4});
  auto result = text.import(options);
  REQUIRE_FALSE(result.ok());
  CHECK(result.error().first().id == "E021");
  CHECK(result.error().first().kind == ErrorKind::usage);
}

TEST_CASE("broken nodes are invalid input, each with its place") {
  auto broken = [](const char* op, std::vector<std::string> inputs, std::vector<Attribute> attributes) {
    ModelText text;
    text.input("x", onnx_f32, {"2", "3"}).initializer("far", std::vector<int64_t>{7});
    text.node(op, std::move(inputs), {"y"}, std::move(attributes)).output("y");
    Error error = refused(text);
    CHECK(error.first().kind == ErrorKind::invalid);
    CHECK(error.first().where.starts_with("m.onnx: node 'y'"));
    return error.first().id;
  };
  CHECK(broken("Relu", {"missing"}, {}) == "E203");
  CHECK(broken("Relu", {"x", "x"}, {}) == "E221");
  CHECK(broken("Softmax", {"x"}, {attribute("axes", 1)}) == "E325");
  CHECK(broken("Softmax", {"x"}, {attribute("axis", "one")}) == "E324");
  CHECK(broken("Softmax", {"x"}, {attribute("axis", 2)}) == "E321");
  CHECK(broken("Gather", {"x", "far"}, {}) == "E333");
  CHECK(broken("Add", {"x", "far"}, {}) == "dtype_c1");
  CHECK(broken("MatMul", {"x", "x"}, {}).starts_with("matmul_c"));
}

TEST_CASE("the version of an operator is the one in force for its node") {
  ModelText text(13);
  text.input("x", onnx_f32, {"2", "3"});
  text.node("ReduceMean", {"x"}, {"y"}, {attribute("axes", std::vector<int64_t>{-1})}).output("y");
  CHECK(output_type(imported(text)).str() == "tensor<[2, 1], f32>");
  text.model.graph.nodes[0].opset = 18;  // where the axes are an input: the attribute must not be dropped
  CHECK(refused(text).first().id == "E325");
  ModelText old(6);
  old.input("x", onnx_f32, {"2"}).node("Add", {"x", "x"}, {"y"}).output("y");
  CHECK(refused(old).first().message ==
        "Add (domain 'ai.onnx', opset 6): this version of the operator is not supported, those from opset 7 on are");
}

TEST_CASE("an If whose condition follows from shapes is its live branch") {
  auto branch = [](const char* op, const char* output) {
    auto graph = std::make_shared<Graph>();
    Node node;
    node.op_type = op;
    node.opset = 18;
    node.inputs = {"x"};
    node.outputs = {output};
    graph->nodes.push_back(node);
    ValueInfo info;
    info.name = output;
    graph->outputs.push_back(info);
    return graph;
  };
  ModelText text;
  text.input("x", onnx_f32, {"1", "n"})
      .initializer("zero", Tensor::scalar(DType::i64, 0))
      .initializer("one", Tensor::scalar(DType::i64, 1))
      .node("Shape", {"x"}, {"shape"})
      .node("Gather", {"shape", "zero"}, {"size"})
      .node("Equal", {"size", "one"}, {"is_one"})
      .node("If", {"is_one"}, {"y"},
            {attribute("then_branch", branch("Relu", "inner")), attribute("else_branch", branch("Unheard", "inner"))})
      .output("y");
  ImportResult result = imported(text);
  CHECK(last_before_yield(result).is(Op::relu));
  text.model.graph.inputs[0] = ModelText::value("x", onnx_f32, {"m", "n"});
  // Both branches may run now: the condition is refused, and what the branches hold is in the report.
  Error error = refused(text);
  REQUIRE(error.diagnostics.size() == 2);
  CHECK(error.first().message.starts_with("Unheard"));
  CHECK(error.diagnostics[1].id == "E405");
}

TEST_CASE("results that are too large, wrap or have negative sizes are refused while importing") {
  auto filled = [](std::vector<int64_t> shape) {
    ModelText text;
    text.initializer("shape", shape).node("ConstantOfShape", {"shape"}, {"y"}).output("y");
    return refused(text).first();
  };
  CHECK(filled({1 << 20, 1 << 20}).id == "E504");
  CHECK(filled({1 << 20, 1 << 20}).kind == ErrorKind::limit);
  CHECK(filled({int64_t{1} << 62, 4}).id == "E302");
  CHECK(filled({-1, 4}).id == "E301");
  CHECK(filled(std::vector<int64_t>(20, 1)).id == "E504");
}

TEST_CASE("a node with more outputs than its operator has is invalid") {
  ModelText text;
  text.input("x", onnx_f32, {"2"}).node("Relu", {"x"}, {"y", "z"}).output("y");
  CHECK(refused(text).first().id == "E221");
}

TEST_CASE("an input with a default is a constant, and says so") {
  ModelText text;
  text.input("x", onnx_f32, {"2"}).input("bias", onnx_f32, {"2"}).initializer("bias", floats({2}, {1, 2}));
  text.node("Add", {"x", "bias"}, {"y"}).output("y");
  ImportResult result = imported(text);
  CHECK(result.module->functions[0]->block.argument_count() == 1);
  REQUIRE(result.warnings.size() == 1);
  CHECK(result.warnings[0].id == "W201");
}

TEST_CASE("a weight that is used under several names is one weight") {
  ModelText text;
  text.input("x", onnx_f32, {"n", "8"}).initializer("w", Tensor(DType::f32, {8, 8}));
  text.node("Identity", {"w"}, {"tied"})
      .node("MatMul", {"x", "w"}, {"a"})
      .node("MatMul", {"a", "tied"}, {"y"})
      .output("y");
  ImportResult result = imported(text);
  CHECK(count(result, Op::weight) == 1);
  CHECK(result.module->weights->entries().size() == 1);
  CHECK(result.module->weights->find("w") != nullptr);
}

TEST_CASE("unused initializers do not enter the module") {
  ModelText text;
  text.input("x", onnx_f32, {"n"}).initializer("w", Tensor(DType::f32, {64})).node("Relu", {"x"}, {"y"}).output("y");
  ImportResult result = imported(text);
  CHECK(result.module->weights->entries().empty());
  CHECK(result.module->functions[0]->block.size() == 2);
}

TEST_CASE("a declared output shape that differs is a warning, a declared type that differs an error") {
  ModelText text;
  text.input("x", onnx_f32, {"2", "3"}).node("Relu", {"x"}, {"y"});
  text.model.graph.outputs = {ModelText::value("y", onnx_f32, {"2", "4"})};
  ImportResult result = imported(text);
  REQUIRE(result.warnings.size() == 1);
  CHECK(result.warnings[0].id == "W203");
  text.model.graph.outputs = {ModelText::value("y", onnx_f16, {"2", "3"})};
  CHECK(refused(text).first().id == "E326");
}

TEST_CASE("value_info: a type that differs is an error, shapes that differ give one warning and are not used") {
  ModelText text;
  text.input("x", onnx_f32, {"n", "3"}).node("Relu", {"x"}, {"a"}).node("Exp", {"a"}, {"b"}).node("Neg", {"b"}, {"y"});
  text.output("y");
  auto& infos = text.model.graph.value_info;
  infos["a"] = ModelText::value("a", onnx_f32, {"n", "3"});
  infos["unused"] = ModelText::value("unused", onnx_i64, {});
  CHECK(imported(text).warnings.empty());
  infos["a"] = ModelText::value("a", onnx_f32, {"2", "3"});  // what the exporter traced: n is not known to be another
  CHECK(imported(text).warnings.empty());
  infos["a"] = ModelText::value("a", onnx_f32, {"n", "4"});
  infos["b"] = ModelText::value("b", onnx_f32, {"n"});
  ImportResult result = imported(text);
  REQUIRE(result.warnings.size() == 1);
  CHECK(result.warnings[0].id == "W203");
  for (const char* words : {"value 'a' is tensor<[n, 3], f32>", "value 'b' is tensor<[n, 3], f32>"})
    CHECK(result.warnings[0].message.find(words) != std::string::npos);
  CHECK(result.module->functions[0]->block.operations().front()->result(0)->type.str() == "tensor<[n, 3], f32>");
  infos["b"] = ModelText::value("b", onnx_f16, {"n", "3"});
  const Error error = refused(text);
  CHECK(error.first().id == "E326");
  CHECK(error.first().where.find("value 'b'") != std::string::npos);
  CHECK(error.first().expected == "float16");
  CHECK(error.first().got == "tensor<[n, 3], f32>");
  infos.erase("b");
  infos["x"] = ModelText::value("x", onnx_i64, {"n", "3"});
  CHECK(refused(text).first().id == "E326");
}

TEST_CASE("a required input that is left out by an empty name is an error, an optional one is not") {
  for (const char* op : {"MatMul", "Add", "Concat", "Max", "Gather", "Reshape"}) {
    ModelText text;
    text.input("x", onnx_f32, {"2", "2"}).node(op, {"", "x"}, {"y"}).output("y");
    CAPTURE(op);
    const Error error = refused(text);
    CHECK(error.first().id == "E221");
    CHECK(error.first().message == "input 0 is left out");
  }
  ModelText text;
  text.input("x", onnx_f32, {"2"}).input("most", onnx_f32, {}).node("Clip", {"x", "", "most"}, {"y"}).output("y");
  CHECK(imported(text).warnings.empty());
}

TEST_CASE("a node without outputs is an error") {
  ModelText text;
  text.input("x", onnx_f32, {"2"}).node("Neg", {"x"}, {"y"}).node("Relu", {"x"}, {}).output("y");
  CHECK(refused(text).first().id == "E221");
}

TEST_CASE("inputs of types that the IR lacks are refused by name") {
  ModelText text;
  text.input("x", 8, {"2"}).input("y", 13, {"2"}).node("Relu", {"x"}, {"z"}).output("z");
  Error error = refused(text);
  REQUIRE(error.diagnostics.size() == 2);
  CHECK(error.first().id == "E404");
  CHECK(error.first().where == "m.onnx: input 'x'");
  CHECK(error.first().message == "type string is not supported");
  CHECK(error.diagnostics[1].message == "type uint64 is not supported");
}

TEST_CASE("importing twice gives the same text") {
  ModelText text;
  text.input("x", onnx_f32, {"b", "n"}).input("y", onnx_f32, {"c", "n"}).node("Add", {"x", "y"}, {"z"}).output("z");
  CHECK(print(*imported(text).module) == print(*imported(text).module));
}

TEST_CASE("the converter table has each version once and attribute lists without repeats") {
  std::set<std::string> rows;
  for (std::span<const Converter> table : all_converters()) {
    for (const Converter& row : table) {
      CAPTURE(row.op_type);
      CHECK(bool(row.convert));
      CHECK(row.min_inputs <= row.max_inputs);
      CHECK(rows.insert(concat(row.domain, ".", row.op_type, "-", row.since)).second);
      std::set<std::string> names;
      std::string list(row.attributes);
      for (size_t at = 0; at < list.size();) {
        size_t end = std::min(list.find(' ', at), list.size());
        CHECK(end > at);
        CHECK(names.insert(list.substr(at, end - at)).second);
        at = end + 1;
      }
    }
  }
  CHECK(rows.size() > 100);
}
