// Hostile nodes through rtx-import: attributes out of range, shapes that break an operator's rules, results that would
// not fit anywhere.

#include "tests/e2e/import_site.h"

namespace rtx::onnx {
namespace {

// Nodes over x, f32 of the given shape, and constants; y is what the last one gives.
struct Nodes {
  proto::ModelProto model = empty_model();
  proto::GraphProto& graph = *model.mutable_graph();

  explicit Nodes(std::initializer_list<int64_t> dims, int64_t opset = 17) {
    *graph.mutable_input(0) = value_proto("x", dims);
    graph.mutable_output(0)->clear_type();
    model.mutable_opset_import(0)->set_version(opset);
  }
  Nodes& ints(std::string_view name, std::initializer_list<int64_t> values, bool scalar = false) {
    proto::TensorProto& tensor = *graph.add_initializer();
    tensor.set_name(std::string(name));
    tensor.set_data_type(proto::TensorProto::INT64);
    if (!scalar) tensor.add_dims(static_cast<int64_t>(values.size()));
    for (int64_t value : values) tensor.add_int64_data(value);
    return *this;
  }
  Nodes& floats(std::string_view name, std::initializer_list<int64_t> dims) {
    proto::TensorProto& tensor = *graph.add_initializer();
    tensor.set_name(std::string(name));
    tensor.set_data_type(proto::TensorProto::FLOAT);
    int64_t count = 1;
    for (int64_t dim : dims) {
      tensor.add_dims(dim);
      count *= dim;
    }
    tensor.set_raw_data(std::string(static_cast<size_t>(count) * 4, '\0'));
    return *this;
  }
  Nodes& node(std::string_view op_type, std::initializer_list<std::string_view> inputs,
              std::initializer_list<proto::AttributeProto> attributes = {},
              std::initializer_list<std::string_view> outputs = {"y"}, std::string_view domain = {}) {
    proto::NodeProto made = node_proto(op_type, inputs, outputs, domain);
    made.set_name("the node");
    for (const proto::AttributeProto& attribute : attributes) *made.add_attribute() = attribute;
    add(graph, made);
    return *this;
  }
};

// Each of `attributes` in turn, in an operator that is good without it.
void check_attributes(const Site& site, std::string_view op_type, std::initializer_list<int64_t> dims,
                      std::initializer_list<int64_t> weight_dims,
                      std::initializer_list<std::pair<proto::AttributeProto, const char*>> attributes) {
  for (const auto& [attribute, id] : attributes) {
    CAPTURE(attribute.ShortDebugString());
    Nodes nodes(dims);
    if (weight_dims.size() == 0)
      nodes.node(op_type, {"x"}, {attribute});
    else
      nodes.floats("w", weight_dims).node(op_type, {"x", "w"}, {attribute});
    check_model(site, nodes.model, 3, id, concat("node 'the node' (", op_type, ")"));
  }
}

TEST_CASE("attributes out of their range are refused with the node and the operator") {
  const Site site;
  constexpr int64_t huge = int64_t{1} << 62;
  CHECK(site.accepts(Nodes({1, 2, 5, 5}).floats("w", {4, 2, 3, 3}).node("Conv", {"x", "w"}).model));
  check_attributes(site, "Conv", {1, 2, 5, 5}, {4, 2, 3, 3},
                   {{ints_attribute("strides", {0, 1}), "E321"},
                    {ints_attribute("strides", {INT64_MIN, -1}), "E321"},
                    {ints_attribute("strides", {1}), "E324"},
                    {ints_attribute("dilations", {0, 1}), "E321"},
                    {ints_attribute("dilations", {int64_t{1} << 40, 1}), "E321"},
                    {ints_attribute("pads", {-9, 0, 0, 0}), "E321"},
                    {ints_attribute("pads", {huge, 0, 0, 0}), "E321"},
                    {ints_attribute("pads", {1, 1, 1}), "E324"},
                    {ints_attribute("kernel_shape", {3}), "E324"},
                    {ints_attribute("kernel_shape", {2, 2}), "E324"},
                    {int_attribute("group", 0), "E321"},
                    {int_attribute("group", -1), "E321"},
                    {int_attribute("group", 3), "conv_c4"},
                    {int_attribute("strides", 1), "E324"}});
  check_attributes(site, "MaxPool", {1, 2, 5, 5}, {},
                   {{ints_attribute("kernel_shape", {0, 3}), "E321"},
                    {ints_attribute("kernel_shape", {-1, 3}), "E321"},
                    {ints_attribute("strides", {1, 1}), "E321"}});
  check_attributes(site, "Softmax", {2, 3}, {},
                   {{int_attribute("axis", 9), "E321"}, {int_attribute("axis", INT64_MIN), "E321"}});
  check_attributes(site, "Transpose", {2, 3}, {},
                   {{ints_attribute("perm", {5}), "transpose_c1"},
                    {ints_attribute("perm", {0, 0}), "transpose_c1"},
                    {ints_attribute("perm", {0, -1}), "transpose_c1"}});
  check_attributes(site, "Concat", {2, 3}, {2, 3}, {{int_attribute("axis", 99), "E321"}});
  check_attributes(site, "Gather", {2, 3}, {}, {{int_attribute("axis", 0), "E221"}});
  check_attributes(site, "Flatten", {2, 3}, {}, {{int_attribute("axis", 9), "E321"}});
  check_attributes(site, "Cast", {2, 3}, {},
                   {{int_attribute("to", 99), "E321"}, {int_attribute("to", (int64_t{1} << 32) + 1), "E321"}});
  check_attributes(site, "Relu", {2, 3}, {}, {{int_attribute("alpha", 1), "E325"}});
}

TEST_CASE("attributes that are malformed are refused") {
  const Site site;
  proto::AttributeProto attribute = int_attribute("axis", 1);
  check_model(site, Nodes({2, 3}).node("Softmax", {"x"}, {attribute, attribute}).model, 3, "E322",
              "'axis' occurs twice");
  attribute.set_type(proto::AttributeProto::FLOATS);
  check_model(site, Nodes({2, 3}).node("Softmax", {"x"}, {attribute}).model, 3, "E323", "FLOATS");
  attribute = int_attribute("axis", 1);
  attribute.set_f(1);
  check_model(site, Nodes({2, 3}).node("Softmax", {"x"}, {attribute}).model, 3, "E323", "attribute 'axis'");
  attribute = int_attribute("", 1);
  check_model(site, Nodes({2, 3}).node("Softmax", {"x"}, {attribute}).model, 3, "E322", "no name");
  attribute = int_attribute("axis", 1);
  attribute.clear_i();
  attribute.set_ref_attr_name("a");
  check_model(site, Nodes({2, 3}).node("Softmax", {"x"}, {attribute}).model, 3, "E323", "outside a function");
  attribute = attribute_proto("axis", proto::AttributeProto::STRING);
  attribute.set_s("1");
  check_model(site, Nodes({2, 3}).node("Softmax", {"x"}, {attribute}).model, 3, "E324", "'axis'");
  Nodes many({2, 3});
  many.node("Softmax", {"x"});
  for (int i = 0; i < 300; ++i) *many.graph.mutable_node(0)->add_attribute() = int_attribute(concat("a", i), 1);
  check_model(site, many.model, 5, "E501", "too many attributes");
}

TEST_CASE("wrong numbers of inputs and outputs are refused") {
  const Site site;
  for (std::initializer_list<std::string_view> inputs :
       {std::initializer_list<std::string_view>{}, {"x"}, {"x", "x", "x"}, {"", "x"}, {"x", ""}})
    check_model(site, Nodes({2}).node("Add", inputs).model, 3, "E221", "(Add)");
  check_model(site, Nodes({2}).node("Relu", {"x"}, {}, {"y", "z"}).model, 3, "E221", "outputs");
  check_model(site, Nodes({2}).node("Relu", {"x"}, {}, {}).node("Neg", {"x"}).model, 3, "E221", "outputs");
}

TEST_CASE("shapes that break an operator's rules are refused") {
  const Site site;
  const auto refused = [&](const Nodes& nodes, std::string_view id) {
    CAPTURE(nodes.graph.node(0).ShortDebugString());
    check_model(site, nodes.model, 3, id, "node 'the node'");
  };
  refused(Nodes({2, 3}).ints("s", {-1, -1}).node("Reshape", {"x", "s"}), "E330");
  refused(Nodes({2, 3}).ints("s", {-1}, true).node("Reshape", {"x", "s"}), "E327");
  refused(Nodes({2, 3}).ints("s", {3}, true).node("Expand", {"x", "s"}), "E327");
  refused(Nodes({2, 3}).ints("s", {3}, true).node("ConstantOfShape", {"s"}), "E327");
  refused(Nodes({2, 3}).ints("s", {-2, 3}).node("Reshape", {"x", "s"}), "E330");
  refused(Nodes({2, 3}).ints("s", {4, -1}).node("Reshape", {"x", "s"}), "E330");
  refused(Nodes({2, 3}).ints("s", {5}).node("Reshape", {"x", "s"}), "reshape_c1");
  refused(Nodes({2, 3}).ints("i", {int64_t{1} << 40}).node("Gather", {"x", "i"}), "E333");
  refused(Nodes({2, 3}).ints("i", {-3}).node("Gather", {"x", "i"}), "E333");
  refused(Nodes({2, 3}).ints("s", {4, 4}).node("Expand", {"x", "s"}), "broadcast_c2");
  refused(Nodes({2, 3}).floats("w", {4}).node("Add", {"x", "w"}), "broadcast_c1");
  refused(Nodes({2, 3}).ints("w", {1, 2, 3}).node("Add", {"x", "w"}), "dtype_c1");
  refused(Nodes({2, 3}).floats("w", {4, 2}).node("MatMul", {"x", "w"}), "matmul_c1");
  refused(Nodes({2, 3}).ints("a", {0}).node("Squeeze", {"x", "a"}), "E331");
  refused(Nodes({2, 3}).ints("a", {0, 0}).node("Unsqueeze", {"x", "a"}), "E321");
  refused(Nodes({2, 3}).ints("a", {9}).node("Unsqueeze", {"x", "a"}), "E321");
  refused(Nodes({2, 3}).ints("a", {9}).node("ReduceSum", {"x", "a"}), "E321");
  refused(Nodes({2, 3}).ints("s", {1, 9}).node("Split", {"x", "s"}, {}, {"y", "z"}), "E332");
  refused(Nodes({2, 3}).ints("s", {3, -1}).node("Split", {"x", "s"}, {}, {"y", "z"}), "E332");
  refused(Nodes({2, 3}).ints("r", {-1, 1}).node("Tile", {"x", "r"}), "E301");
  refused(Nodes({2, 3}).ints("s", {0}).ints("e", {1}).ints("a", {0}).ints("t", {0}).node("Slice",
                                                                                         {"x", "s", "e", "a", "t"}),
          "E321");
  refused(Nodes({2, 3}).ints("p", {1, 1, 1}).node("Pad", {"x", "p"}), "E332");
  refused(Nodes({2, 3}).ints("p", {-3, 0, 0, 0}).node("Pad", {"x", "p"}), "E321");
}

TEST_CASE("results that would be too large are refused before they exist") {
  const Site site;
  constexpr int64_t one = 1;
  const auto refused = [&](const Nodes& nodes, int exit_code, std::string_view id) {
    CAPTURE(nodes.graph.node(0).ShortDebugString());
    check_model(site, nodes.model, exit_code, id, "node 'the node'");
  };
  refused(Nodes({1}).ints("s", {one << 20, one << 20}).node("ConstantOfShape", {"s"}), 5, "E504");
  refused(Nodes({1}).ints("s", {-1, 4}).node("ConstantOfShape", {"s"}), 3, "E301");
  refused(Nodes({1}).ints("s", {one << 62, 4}).node("ConstantOfShape", {"s"}), 3, "E302");
  refused(Nodes({1}).ints("s", {one << 32, one << 32}).node("ConstantOfShape", {"s"}), 3, "E302");
  refused(Nodes({1}).ints("s", {one << 40}).node("Expand", {"x", "s"}), 5, "E504");
  refused(Nodes({2}).ints("r", {one << 40}).node("Tile", {"x", "r"}), 5, "E504");
  refused(
      Nodes({1}).ints("a", {0}, true).ints("b", {INT64_MAX}, true).ints("c", {1}, true).node("Range", {"a", "b", "c"}),
      5, "E511");
  refused(Nodes({1})
              .ints("a", {INT64_MIN}, true)
              .ints("b", {INT64_MAX}, true)
              .ints("c", {1}, true)
              .node("Range", {"a", "b", "c"}),
          5, "E511");
  refused(Nodes({1}).ints("a", {0}, true).ints("b", {9}, true).ints("c", {0}, true).node("Range", {"a", "b", "c"}), 3,
          "E321");
  refused(Nodes({2}).ints("p", {0, one << 40}).node("Pad", {"x", "p"}), 5, "E504");
}

}  // namespace
}  // namespace rtx::onnx
