// rtx-import from the command line: what it writes, and that bad input gives a clear error, the right exit code and no
// output.

#include "tests/e2e/import_site.h"

namespace rtx::onnx {
namespace {

// y = x + w with w of 64 elements, so that it becomes a weight.
proto::ModelProto large_model() {
  proto::TensorProto tensor = tensor_proto();
  tensor.set_dims(0, 64);
  tensor.set_raw_data(std::string(256, '\0'));
  proto::ModelProto model = model_with(tensor);
  *model.mutable_graph()->mutable_input(0) = value_proto("x", {64});
  *model.mutable_graph()->mutable_output(0) = value_proto("y", {64});
  return model;
}

TEST_CASE("a model becomes text and weights beside it, the same bytes every time") {
  const Site site;
  CommandResult result = site.import(large_model());
  CAPTURE(result.err);
  CHECK(result.exit_code == 0);
  CHECK(result.out.empty());
  CHECK(fs::file_size(site.folder / "out/m.safetensors") > 256);
  const auto text = [&] {
    std::ifstream stream(site.folder / "out/m.rtxir");
    return std::string(std::istreambuf_iterator<char>(stream), {});
  };
  const std::string first = text();
  CHECK(first.find("rtxir 1") == 0);
  CHECK(first.find("weight() {name = \"w\"") != std::string::npos);
  CHECK(site.import(large_model()).exit_code == 0);
  CHECK(text() == first);
}

TEST_CASE("the IR alone goes to the standard output on request") {
  const Site site;
  const std::string path = site.folder.file("model/m.onnx", large_model().SerializeAsString());
  const CommandResult result = run_command({RTX_IMPORT, path, "-o", "-", "--no-weights"});
  CHECK(result.exit_code == 0);
  CHECK(result.out.find("rtxir 1") == 0);
  check_refused(
      site,
      [&] {
        return run_command({RTX_IMPORT, path, "-o", "-"});
      },
      2, "E001", "--no-weights");
}

TEST_CASE("a truncated file is refused") {
  const Site site;
  const std::string whole = large_model().SerializeAsString();
  check_refused(
      site, [&] { return site.import(whole.substr(0, whole.size() - 10)); }, 3, "E102", "truncated");
}

TEST_CASE("a file that is no model is refused") {
  const Site site;
  check_refused(
      site, [&] { return site.import("This is text.\n"); }, 3, "E101", "not an ONNX model");
  check_refused(
      site, [&] { return site.import(""); }, 3, "E101", "empty");
}

TEST_CASE("an undefined value is refused with its node") {
  const Site site;
  proto::ModelProto model = empty_model();
  add(*model.mutable_graph(), node_proto("Add", {"x", "nope"}, {"y"}));
  check_refused(
      site, [&] { return site.import(model); }, 3, "E203", "node 'y' (Add): error: value 'nope'");
}

TEST_CASE("a cycle is refused with its nodes") {
  const Site site;
  proto::ModelProto model = empty_model();
  add(*model.mutable_graph(), node_proto("Add", {"x", "b"}, {"a"}));
  add(*model.mutable_graph(), node_proto("Neg", {"a"}, {"b"}));
  add(*model.mutable_graph(), node_proto("Neg", {"a"}, {"y"}));
  check_refused(
      site, [&] { return site.import(model); }, 3, "E201", "node 'b' (Neg)");
}

TEST_CASE("a duplicate name is refused") {
  const Site site;
  proto::ModelProto model = relu_model();
  add(*model.mutable_graph(), node_proto("Neg", {"x"}, {"y"}));
  check_refused(
      site, [&] { return site.import(model); }, 3, "E202", "'y' is already defined");
  model = model_with(weight());
  *model.mutable_graph()->add_initializer() = weight();
  check_refused(
      site, [&] { return site.import(model); }, 3, "E204", "duplicate initializer 'w'");
}

TEST_CASE("raw data of the wrong size is refused") {
  const Site site;
  proto::TensorProto tensor = weight();
  tensor.mutable_raw_data()->pop_back();
  check_refused(
      site, [&] { return site.import(model_with(tensor)); }, 3, "E303", "got: 15 bytes");
}

TEST_CASE("a negative dim is refused") {
  const Site site;
  proto::TensorProto tensor = weight();
  tensor.set_dims(0, -4);
  check_refused(
      site, [&] { return site.import(model_with(tensor)); }, 3, "E301", "[-4]");
}

TEST_CASE("dims whose product overflows are refused") {
  const Site site;
  proto::TensorProto tensor = weight();
  tensor.set_dims(0, int64_t{1} << 32);
  tensor.add_dims(int64_t{1} << 32);
  tensor.set_raw_data("");
  check_refused(
      site, [&] { return site.import(model_with(tensor)); }, 3, "E302", "overflows");
}

TEST_CASE("external data outside the folder is refused") {
  const Site site;
  site.folder.file("secret.bin", float_bytes({1, 2, 3, 4}));
  check_refused(
      site, [&] { return site.import(model_with(external_weight("../secret.bin", "0"))); }, 3, "E311", "secret.bin");
  fs::create_symlink("../secret.bin", site.folder / "model/link.bin");
  const proto::ModelProto linked = model_with(external_weight("link.bin", "0"));
  check_refused(
      site, [&] { return site.import(linked); }, 3, "E312", "--follow-symlinks-within");
  CHECK(site.import(linked, {"--follow-symlinks-within", site.folder.path()}).exit_code == 0);
}

TEST_CASE("external data past the end is refused") {
  const Site site;
  site.folder.file("model/w.bin", float_bytes({1, 2, 3, 4}));
  CHECK(site.import(model_with(external_weight("w.bin", "0"))).exit_code == 0);
  fs::remove(site.folder / "out/m.rtxir");
  check_refused(
      site, [&] { return site.import(model_with(external_weight("w.bin", "4"))); }, 3, "E316", "w.bin");
}

TEST_CASE("an unknown operator is named with its domain, opset, node and count") {
  const Site site;
  proto::ModelProto model = empty_model();
  add(*model.mutable_graph(), node_proto("Frobnicate", {"x"}, {"a"}));
  add(*model.mutable_graph(), node_proto("Frobnicate", {"a"}, {"b"}));
  add(*model.mutable_graph(), node_proto("Zorp", {"b"}, {"y"}, "my.domain"));
  const CommandResult result = site.import(model);
  CAPTURE(result.err);
  CHECK(result.exit_code == 4);
  for (const char* words :
       {"RTX-E401", "Frobnicate", "opset 17", "2 nodes", "node 'a' (Frobnicate)", "Zorp", "my.domain"}) {
    CAPTURE(words);
    CHECK(result.err.find(words) != std::string::npos);
  }
  CHECK(fs::is_empty(site.folder / "out"));
}

TEST_CASE("a missing file is refused") {
  const Site site;
  check_refused(
      site, [&] { return site.import_path(site.folder / "model/none.onnx"); }, 9, "E901", "No such file");
}

TEST_CASE("a limit names its flag, and the flag raises it") {
  const Site site;
  check_refused(
      site,
      [&] {
        return site.import(large_model(), {"--max-nodes", "1", "--max-initializers", "1", "--max-file-bytes", "100"});
      },
      5, "E501", "--max-file-bytes");
  CHECK(site.import(large_model(), {"--max-nodes", "1"}).exit_code == 0);
}

TEST_CASE("dims are given by name, with a range or a size") {
  const Site site;
  proto::ModelProto model = relu_model();
  for (auto* value : {model.mutable_graph()->mutable_input(0), model.mutable_graph()->mutable_output(0)})
    value->mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim(0)->set_dim_param("batch");
  const std::string path = site.folder.file("model/m.onnx", model.SerializeAsString());
  const auto with_dim = [&](const std::string& dim) {
    return run_command({RTX_IMPORT, path, "-o", "-", "--no-weights", "--dim", dim});
  };
  CHECK(with_dim("batch=1:4:8").out.find("symbol batch 1..8 opt 4") != std::string::npos);
  CHECK(with_dim("batch=3").out.find("tensor<[3], f32>") != std::string::npos);
  for (const char* bad :
       {"batch=8:4:1", "batch=1:2", "batch=", "batch", "=3", "batch=-1", "batch=1:2:3:4", "other=3"}) {
    CAPTURE(bad);
    check_refused(
        site, [&] { return with_dim(bad); }, 2, "E001", "--dim");
  }
}

TEST_CASE("diagnostics for machines are one JSON object a line") {
  const Site site;
  const CommandResult result = site.import("text", {"--diagnostics-format=json"});
  CHECK(result.exit_code == 3);
  CHECK(result.err.find("{\"") == 0);
  CHECK(result.err.find("E101") != std::string::npos);
}

}  // namespace
}  // namespace rtx::onnx
