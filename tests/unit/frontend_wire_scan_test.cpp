// The structure of model files: what is refused before anything is built from them.

#include "frontend/wire_scan.h"

#include "tests/unit/onnx_file.h"

namespace rtx::onnx {
namespace {

std::string good() { return relu_model().SerializeAsString(); }

TEST_CASE("a good file is read, also when put together by hand") {
  CHECK(outcome(read_bytes(good())) == "ok");
  CHECK(outcome(read_bytes(with_graph_field(""))) == "ok");
}

TEST_CASE("a file that is no model is named as such") {
  for (std::string_view bytes : {std::string_view(""), std::string_view("\x89PNG\r\n\x1a\n\0\0\0\rIHDR", 16),
                                 std::string_view("This is text, not a model.\n"), std::string_view("\n"),
                                 std::string_view("PK\x03\x04 and so on"), std::string_view("\0\0\0\0\0\0\0\0", 8)}) {
    CAPTURE(bytes);
    const Result<Model> result = read_bytes(bytes);
    CHECK(outcome(result) == "E101 invalid");
    CHECK(mentions(result, "not an ONNX model"));
  }
  CHECK(mentions(read_bytes("version https://git-lfs.github.com/spec/v1\noid sha256:00\n"), "git lfs pull"));
}

TEST_CASE("a file that is cut anywhere is refused") {
  const std::string whole = with_graph_field("");
  for (size_t size = 0; size < whole.size(); ++size) {
    CAPTURE(size);
    const std::string result = outcome(read_bytes(std::string_view(whole).substr(0, size)));
    const bool refused = result == "E101 invalid" || result == "E102 invalid" || result == "E110 invalid";
    CHECK(refused);
  }
}

TEST_CASE("a length that runs past its message is refused before anything is allocated") {
  for (uint64_t length : {uint64_t{5}, uint64_t{1} << 31, uint64_t{1} << 32 | 2, uint64_t{1} << 63, ~uint64_t{0}}) {
    CAPTURE(length);
    CHECK(outcome(read_bytes(good() + tag(model_graph, 2) + varint(length) + "abc")) != "ok");
    CHECK(outcome(read_bytes(with_graph_field(tag(graph_name, 2) + varint(length) + "abc"))) != "ok");
    CHECK(outcome(read_bytes(with_graph_field(tag(99, 2) + varint(length) + "abc"))) == "E102 invalid");
  }
}

TEST_CASE("malformed tags and numbers are refused") {
  CHECK(outcome(read_bytes(good() + std::string(4, '\0'))) == "E102 invalid");             // field 0
  CHECK(outcome(read_bytes(good() + tag(99, 6) + "x")) == "E102 invalid");                 // wire type 6
  CHECK(outcome(read_bytes(good() + varint(uint64_t{1} << 32) + "x")) == "E102 invalid");  // a tag above 32 bits
  CHECK(outcome(read_bytes(good() + tag(99, 0) + std::string(10, '\x80') + "\x01")) == "E102 invalid");
  CHECK(outcome(read_bytes(good() + tag(99, 3) + tag(99, 4))) == "E102 invalid");  // a group
  CHECK(outcome(read_bytes(good() + tag(99, 1) + "1234567")) == "E102 invalid");
}

TEST_CASE("unknown fields of later schemas are stepped over") {
  CHECK(outcome(read_bytes(good() + message(99, "later") + tag(98, 0) + varint(5) + tag(97, 5) + "1234")) == "ok");
}

TEST_CASE("a second graph does not merge into the first") {
  const std::string second = message(model_graph, relu_model().graph().SerializeAsString());
  CHECK(outcome(read_bytes(good() + second)) == "E103 invalid");
  CHECK(outcome(read_bytes(good() + tag(model_ir_version, 0) + varint(8))) == "E103 invalid");
}

TEST_CASE("a field of another wire type than the schema's is refused") {
  CHECK(outcome(read_bytes(with_graph_field(tag(graph_name, 0) + varint(3)))) != "ok");
  CHECK(outcome(read_bytes(with_graph_field(tag(graph_node, 0) + varint(3)))) == "E104 invalid");
}

TEST_CASE("an unknown value of an enumeration is refused") {
  proto::ModelProto model = relu_model();
  std::string attribute = concat(message(1, "alpha"), tag(20, 0), varint(99));
  std::string node = concat(message(node_input, "x"), message(node_op_type, "Relu"), message(5, attribute));
  CHECK(outcome(read_bytes(with_graph_field(message(graph_node, node)))) == "E105 invalid");
}

TEST_CASE("a number that does not fit 32 bits is not cut to them") {
  const std::string tensor = concat(message(8, "w"), tag(2, 0), varint((uint64_t{1} << 32) + 1));
  CHECK(outcome(read_bytes(with_graph_field(message(graph_initializer, tensor)))) == "E105 invalid");
}

TEST_CASE("names with control characters or broken UTF-8 are refused and shown escaped") {
  for (std::string_view name : {std::string_view("a\0b", 3), std::string_view("a\x1b[2J"), std::string_view("\xff"),
                                std::string_view("\xc3"), std::string_view("\xc2\x9b"), std::string_view("a\nb")}) {
    proto::ModelProto model = relu_model();
    model.mutable_graph()->mutable_node(0)->set_name(std::string(name));
    const Result<Model> result = read_proto(model);
    CHECK(outcome(result) == "E111 invalid");
    CHECK(all_text(result).find('\x1b') == std::string::npos);
    CHECK(mentions(result, "graph.node[0].name"));
  }
  proto::ModelProto model = relu_model();
  model.mutable_graph()->mutable_node(0)->set_name("layer/0: \"größe\" \\ ok");
  CHECK(outcome(read_proto(model)) == "ok");
}

TEST_CASE("documentation may hold what names may not") {
  proto::ModelProto model = relu_model();
  model.set_doc_string("two\nlines\t" + std::string(10000, 'x'));
  proto::StringStringEntryProto& entry = *model.mutable_graph()->mutable_node(0)->add_metadata_props();
  entry.set_key("stack");
  entry.set_value("line\n" + std::string(5000, 'y'));
  CHECK(outcome(read_proto(model)) == "ok");
}

TEST_CASE("a name at the limit is read, one byte more is not") {
  ReadOptions options;
  options.limits.max_name_bytes = 10;
  proto::ModelProto model = relu_model();
  model.mutable_graph()->mutable_node(0)->set_name(std::string(10, 'n'));
  CHECK(outcome(read_proto(model, options)) == "ok");
  model.mutable_graph()->mutable_node(0)->set_name(std::string(11, 'n'));
  const Result<Model> result = read_proto(model, options);
  CHECK(outcome(result) == "E111 limit");
  CHECK(mentions(result, "--max-name-bytes"));
}

TEST_CASE("each limit on counts is kept and names its flag") {
  const auto with_limit = [](int64_t ReadLimits::*limit, int64_t value, std::string_view bytes) {
    ReadOptions options;
    options.limits.*limit = value;
    return read_bytes(bytes, options);
  };
  struct Case {
    int64_t ReadLimits::*limit;
    int64_t value;
    std::string_view flag;
  };
  const Case cases[] = {{&ReadLimits::max_file_bytes, 40, "--max-file-bytes"},
                        {&ReadLimits::max_wire_fields, 20, "--max-wire-fields"},
                        {&ReadLimits::max_messages, 12, "--max-messages"},
                        {&ReadLimits::max_nodes, 2, "--max-nodes"},
                        {&ReadLimits::max_initializers, 2, "--max-initializers"}};
  std::string many;
  for (int i = 0; i < 3; ++i) many += message(graph_node, "") + message(graph_initializer, "");
  for (const Case& c : cases) {
    CAPTURE(c.flag);
    const Result<Model> result = with_limit(c.limit, c.value, with_graph_field(many));
    CHECK(outcome(result) == "E501 limit");
    CHECK(mentions(result, c.flag));
  }
}

TEST_CASE("a small file cannot ask for much memory") {
  std::string nodes;
  for (int i = 0; i < 500'000; ++i) nodes += std::string("\x0a\x00", 2);  // an empty node each
  CHECK(outcome(read_bytes(with_graph_field(nodes))) == "E501 limit");
}

TEST_CASE("a packed list that ends in half an element is refused") {
  const std::string tensor = concat(message(8, "w"), tag(2, 0), varint(1), message(4, std::string(15, 'f')));
  CHECK(outcome(read_bytes(with_graph_field(message(graph_initializer, tensor)))) == "E102 invalid");
  const std::string ints = concat(message(8, "w"), tag(2, 0), varint(7), message(7, "\x01\x80"));
  CHECK(outcome(read_bytes(with_graph_field(message(graph_initializer, ints)))) == "E102 invalid");
}

TEST_CASE("the rank limit holds in every form of dims") {
  const std::string packed = concat(message(8, "w"), message(1, std::string(9, '\x01')));
  CHECK(outcome(read_bytes(with_graph_field(message(graph_initializer, packed)))) == "E504 limit");
  std::string single = message(8, "w");
  for (int i = 0; i < 9; ++i) single += tag(1, 0) + varint(1);
  CHECK(outcome(read_bytes(with_graph_field(message(graph_initializer, single)))) == "E504 limit");
  proto::ModelProto model = relu_model();
  *model.mutable_graph()->mutable_input(0) = value_proto("x", {1, 1, 1, 1, 1, 1, 1, 1, 4});
  CHECK(outcome(read_proto(model)) == "E504 limit");
}

// `depth` Ifs inside one another.
proto::GraphProto nested_if(int depth) {
  proto::GraphProto graph;
  graph.set_name("branch");
  graph.add_output()->set_name(concat("v", depth));
  proto::NodeProto node = node_proto(depth == 0 ? "Relu" : "If", {depth == 0 ? "x" : "c"}, {concat("v", depth)});
  if (depth > 0) {
    for (const char* name : {"then_branch", "else_branch"}) {
      proto::AttributeProto& attribute = *node.add_attribute();
      attribute.set_name(name);
      attribute.set_type(proto::AttributeProto::GRAPH);
      *attribute.mutable_g() = name[0] == 't' ? nested_if(depth - 1) : nested_if(0);
      if (name[0] == 'e') {
        attribute.mutable_g()->mutable_node(0)->set_output(0, "other");
        attribute.mutable_g()->mutable_output(0)->set_name("other");
      }
    }
  }
  add(graph, std::move(node));
  return graph;
}

proto::ModelProto nested_model(int depth) {
  proto::ModelProto model = empty_model();
  proto::GraphProto graph = nested_if(depth);
  *graph.add_input() = value_proto("x", {4});
  *graph.add_input() = value_proto("c", {}, proto::TensorProto::BOOL);
  *graph.mutable_output(0) = value_proto(concat("v", depth), {4});
  *model.mutable_graph() = std::move(graph);
  return model;
}

TEST_CASE("subgraphs nest up to the limit and no further") {
  CHECK(outcome(read_proto(nested_model(32))) == "ok");
  const Result<Model> result = read_proto(nested_model(33));
  CHECK(outcome(result) == "E502 limit");
  CHECK(mentions(result, "--max-depth"));
  CHECK(outcome(read_proto(nested_model(100))) == "E502 limit");
}

TEST_CASE("a type nested without end is refused") {
  std::string type = message(1, concat(tag(1, 0), varint(1)));
  for (int i = 0; i < 200; ++i) type = message(4, message(1, type));
  CHECK(outcome(read_bytes(with_graph_field(message(11, concat(message(1, "s"), message(2, type)))))) == "E502 limit");
}

TEST_CASE("the numbers of a tensor are only located by the scan") {
  proto::TensorProto tensor = tensor_proto();
  tensor.set_raw_data(float_bytes({1, 2, 3, 4}));
  for (int64_t value : {5, 6, 7}) tensor.add_int64_data(value);
  const std::string bytes = model_with(tensor).SerializeAsString();
  const TempFolder folder;
  const auto file = File::open(folder.file("m.onnx", bytes));
  REQUIRE(file.ok());
  const Result<std::string> scanned = scan_model_file(**file, ReadLimits{});
  REQUIRE(scanned.ok());
  proto::ModelProto model;
  REQUIRE(model.ParseFromString(*scanned));
  const proto::TensorProto& located = model.graph().initializer(0);
  CHECK(located.int64_data_size() == 0);
  const std::vector<ScannedData> data = scanned_data(located.raw_data());
  REQUIRE(data.size() == 2);
  const auto in_file = [&](const FileRange& range) {
    return bytes.substr(static_cast<size_t>(range.offset), static_cast<size_t>(range.bytes));
  };
  CHECK(data[0].field == proto::TensorProto::kInt64DataFieldNumber);
  CHECK(data[0].elements == 3);
  CHECK(in_file(data[0].range) == tensor.SerializeAsString());
  CHECK(data[1].field == proto::TensorProto::kRawDataFieldNumber);
  CHECK(in_file(data[1].range) == float_bytes({1, 2, 3, 4}));
}

}  // namespace
}  // namespace rtx::onnx
