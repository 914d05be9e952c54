// Hostile model files through rtx-import: no model at all, cut files, counts, nesting, lengths, names.

#include <google/protobuf/stubs/logging.h>
#include <sys/stat.h>

#include <numeric>

#include "tests/e2e/import_site.h"

namespace rtx::onnx {
namespace {

std::string repeated(std::string_view bytes, size_t count) {
  std::string out;
  out.reserve(bytes.size() * count);
  for (size_t i = 0; i < count; ++i) out += bytes;
  return out;
}

// relu_model() with a value name of the caller's choice between two nodes.
proto::ModelProto with_value_name(std::string_view name) {
  proto::ModelProto model = empty_model();
  add(*model.mutable_graph(), node_proto("Relu", {"x"}, {name}));
  add(*model.mutable_graph(), node_proto("Neg", {name}, {"y"}));
  return model;
}

TEST_CASE("what is no model is named as such") {
  const Site site;
  const std::pair<std::string_view, std::string_view> files[] = {
      {"", "empty"},
      {std::string_view("\x89PNG\r\n\x1a\n\0\0\0\rIHDR", 16), "PNG"},
      {"This is text.\n", "not an ONNX model"},
      {"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n", "git lfs pull"},
      {"PK\x03\x04zip", "zip archive"},
      {"\x1f\x8b\x08gzip", "gzip"},
      {"\x7f"
       "ELF\x02\x01\x01",
       "ELF"},
      {"<html><body>404</body></html>", "HTML"},
      {"{\"model\": 1}", "JSON"},
      {std::string_view("\x10\0\0\0\0\0\0\0{\"a\": 1}        ", 24), "safetensors"},
      {"ir_version: 8\ngraph {\n}\n", "not an ONNX model"},
  };
  for (const auto& [bytes, words] : files) {
    CAPTURE(words);
    check_model(site, bytes, 3, "E101", words);
  }
}

TEST_CASE("a model cut at any byte is refused, whatever comes last in it") {
  const Site site;
  const std::string graph_last = with_graph_field("");
  const std::string graph = relu_model().graph().SerializeAsString();
  const std::string opset_last = concat(tag(model_ir_version, 0), varint(8), message(model_graph, graph),
                                        message(model_opset, concat(tag(2, 0), varint(17))));
  for (const std::string& whole : {graph_last, opset_last}) {
    for (size_t size = 0; size < whole.size(); ++size) {
      CAPTURE(size);
      const CommandResult result = site.import(std::string_view(whole).substr(0, size));
      CHECK(result.exit_code == 3);
      const bool named = result.err.find("E101") != std::string::npos || result.err.find("E102") != std::string::npos ||
                         result.err.find("E110") != std::string::npos;
      CHECK(named);
      CHECK(fs::is_empty(site.folder / "out"));
    }
    CHECK(site.import(whole).exit_code == 0);
    fs::remove(site.folder / "out/m.rtxir");
  }
}

TEST_CASE("a model without a graph, outputs or versions is refused") {
  const Site site;
  check_model(site, concat(tag(model_ir_version, 0), varint(8)), 3, "E110", "missing graph");
  check_model(site, concat(tag(model_ir_version, 0), varint(8), message(model_graph, "")), 3, "E110", "missing");
  proto::ModelProto model = relu_model();
  model.clear_opset_import();
  check_model(site, model, 3, "E110", "missing opset_import");
  model = relu_model();
  model.clear_ir_version();
  check_model(site, model, 3, "E110", "missing ir_version");
  model = relu_model();
  model.mutable_graph()->clear_output();
  check_model(site, model, 3, "E110", "missing outputs");
}

TEST_CASE("millions of empty messages reach a limit before they take memory") {
  const Site site;
  std::vector<std::string> small = {"prlimit", "--as=402653184"};  // 256 MiB above what the program itself maps
  if (RTX_SANITIZED) small = {"env", "ASAN_OPTIONS=hard_rss_limit_mb=512"};
  const auto run = [&](std::string_view model) {
    const std::string path = site.folder.file("model/m.onnx", model);
    std::vector<std::string> command = small;
    command.insert(command.end(), {RTX_IMPORT, path, "-o", site.folder / "out/m.rtxir"});
    return run_command(command);
  };
  constexpr size_t count = 4 << 20;  // 8 MB
  // nodes, initializers, inputs, outputs, value_info, sparse initializers, quantization annotations, metadata
  for (int field : {1, 5, 11, 12, 13, 15, 14, 16}) {
    CAPTURE(field);
    const std::string model = with_graph_field(repeated(message(field, ""), count));
    check_refused(
        site, [&] { return run(model); }, 5, "E501", "at most");
  }
  // Functions, opset imports, and strings in one node.
  const std::string good = relu_model().SerializeAsString();
  for (int field : {25, 8}) {
    CAPTURE(field);
    check_refused(
        site, [&] { return run(good + repeated(message(field, ""), count)); }, 5, "E501", "at most");
  }
  check_refused(
      site, [&] { return run(with_graph_field(message(graph_node, repeated(message(node_input, ""), 6 * count)))); }, 5,
      "E501", "at most");
  // Dims of one tensor, packed and single.
  for (const std::string& dims : {message(1, std::string(count, '\x01')), repeated(tag(1, 0) + varint(1), count)})
    check_refused(
        site, [&] { return run(with_graph_field(message(graph_initializer, message(8, "w") + dims))); }, 5, "E504",
        "--max-rank");
}

TEST_CASE("nesting reaches a limit") {
  const Site site;
  for (size_t depth : {101, 1'000'000}) {
    CAPTURE(depth);
    check_model(site, relu_model().SerializeAsString() + repeated(tag(99, 3), depth) + repeated(tag(99, 4), depth), 3,
                "E102", "group");
  }
  for (int depth : {33, 100}) {
    CAPTURE(depth);
    proto::GraphProto graph = relu_model().graph();
    for (int i = 0; i < depth; ++i) {
      proto::NodeProto node = node_proto("If", {"c"}, {"y"});
      *node.add_attribute() = graph_attribute("then_branch", graph);
      graph = empty_model().graph();
      add(graph, std::move(node));
    }
    proto::ModelProto model = empty_model();
    *model.mutable_graph() = std::move(graph);
    check_model(site, model, 5, "E502", "--max-depth");
  }
  for (size_t depth : {200, 100'000}) {
    CAPTURE(depth);
    std::string type = message(1, concat(tag(1, 0), varint(1)));
    // Lengths differ at each level, so the levels are written from the inside out, into the end of a buffer.
    std::string reversed(type.rbegin(), type.rend());
    for (size_t i = 0; i < depth; ++i) {
      for (int field : {1, 4}) {  // elem_type of a sequence; sequence_type
        const std::string head = tag(field, 2) + varint(reversed.size());
        reversed.append(head.rbegin(), head.rend());
      }
    }
    type.assign(reversed.rbegin(), reversed.rend());
    check_model(site, with_graph_field(message(11, message(1, "s") + message(2, type))), 5, "E502", "nested");
  }
}

TEST_CASE("a length beyond what is there is refused without an allocation") {
  const Site site;
  const std::string head = concat(tag(model_ir_version, 0), varint(8));
  for (uint64_t length : {uint64_t{4}, (uint64_t{1} << 31) - 1, uint64_t{1} << 31, (uint64_t{1} << 32) + 3,
                          (uint64_t{1} << 63) - 1, uint64_t{1} << 63, ~uint64_t{0}}) {
    CAPTURE(length);
    check_model(site, head + tag(model_graph, 2) + varint(length) + "abc", 3, "E102", "truncated");
    check_model(site, with_graph_field(tag(10, 2) + varint(length)), 3, "E102", "truncated");
    const std::string tensor = concat(message(8, "w"), tag(9, 2), varint(length), "abc");
    check_model(site, with_graph_field(message(graph_initializer, tensor)), 3, "E102", "truncated");
  }
  // A varint that is too long or does not end, wire types that do not exist, a number that is cut.
  for (std::string_view tail :
       {"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", "\x80", "\x9e\x06", "\x9f\x06", "\x9d\x06\x01"})
    check_model(site, relu_model().SerializeAsString() + std::string(tail), 3, "E102", "");
}

TEST_CASE("bad names are refused and shown escaped") {
  const Site site;
  using namespace std::string_view_literals;
  google::protobuf::SetLogHandler(nullptr);  // it reports every string that is not UTF-8
  for (std::string_view name : {"a\0b"sv, "\x1b[31mred"sv, "\xff"sv, "\xe2\x82"sv, "\xc2\x9b"sv, "\x7f"sv,
                                "a\nm.onnx: error: fake"sv, "tab\there"sv}) {
    check_model(site, with_value_name(name), 3, "E111", "bad name");
    proto::ModelProto model = relu_model();
    model.mutable_graph()->mutable_node(0)->set_name(std::string(name));
    check_model(site, model, 3, "E111", "bad name");
    model = relu_model();
    model.mutable_graph()->mutable_node(0)->set_domain(std::string(name));
    check_model(site, model, 3, "E111", "bad name");
    model = model_with(weight());
    model.mutable_graph()->mutable_initializer(0)->set_name(std::string(name));
    check_model(site, model, 3, "E111", "bad name");
  }
  check_model(site, with_value_name(std::string(1 << 20, 'n')), 5, "E111", "--max-name-bytes");
  check_model(site, with_value_name(std::string(1025, 'n')), 5, "E111", "--max-name-bytes");
  CHECK(site.accepts(with_value_name(std::string(1024, 'n'))));
}

TEST_CASE("a name that looks like a path is only a name") {
  const Site site;
  proto::ModelProto model = with_value_name("../x");
  model.mutable_graph()->mutable_output(0)->set_name("../../y");
  model.mutable_graph()->mutable_node(1)->set_output(0, "../../y");
  CHECK(site.accepts(model));
  CHECK(!fs::exists(site.folder / "x"));
  CHECK(!fs::exists(site.folder / "model/y"));
  CHECK(std::distance(fs::directory_iterator(site.folder.path()), {}) == 2);
}

TEST_CASE("a path that is no regular file is refused, and a FIFO does not hang") {
  const Site site;
  fs::create_directory(site.folder / "model/folder.onnx");
  REQUIRE(mkfifo((site.folder / "model/fifo.onnx").c_str(), 0600) == 0);
  for (const char* name : {"model/folder.onnx", "model/fifo.onnx"})
    check_refused(
        site, [&] { return site.import_path(site.folder / name); }, 3, "E314", "");
}

}  // namespace
}  // namespace rtx::onnx
