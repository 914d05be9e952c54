// Ranges of dims from the command line of rtx-import and rtx-compile, and the forms in which rtx-import writes a
// module.

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

#include "base/text.h"
#include "ir/module_file.h"
#include "tests/command.h"
#include "tests/unit/onnx_file.h"

namespace rtx::onnx {
namespace {

namespace fs = std::filesystem;

const std::string bert = concat(RTX_TEST_DIR, "/fixtures/models/bert.ts17/model.onnx");

bool contains(std::string_view text, std::string_view words) {
  const bool found = text.find(words) != std::string_view::npos;
  if (!found) MESSAGE("not found: " << std::string(words) << " in\n" << std::string(text.substr(0, 2000)));
  return found;
}

std::string contents(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

CommandResult import_to_stdout(const std::string& model, const std::vector<std::string>& more) {
  std::vector<std::string> command = {RTX_IMPORT, model, "-o", "-", "--no-weights"};
  command.insert(command.end(), more.begin(), more.end());
  return run_command(command);
}

void set_dims(proto::ValueInfoProto& value, std::initializer_list<std::string_view> names) {
  auto& shape = *value.mutable_type()->mutable_tensor_type()->mutable_shape();
  shape.clear_dim();
  for (std::string_view name : names) shape.add_dim()->set_dim_param(std::string(name));
}

// y = Relu(x) beside a second input, with dims of these names.
struct Dims {
  TempFolder folder;
  std::string path;
  Dims(std::initializer_list<std::string_view> x, std::initializer_list<std::string_view> second) {
    proto::ModelProto model = relu_model();
    auto& graph = *model.mutable_graph();
    *graph.add_input() = value_proto("mask", {});
    *graph.add_output() = value_proto("z", {});
    add(graph, node_proto("Neg", {"mask"}, {"z"}));
    set_dims(*graph.mutable_input(0), x);
    set_dims(*graph.mutable_output(0), x);
    set_dims(*graph.mutable_input(1), second);
    set_dims(*graph.mutable_output(1), second);
    path = folder.file("m.onnx", model.SerializeAsString());
  }
  CommandResult import(const std::vector<std::string>& more) const { return import_to_stdout(path, more); }
};

TEST_CASE("shapes as trtexec takes them become ranges of dims") {
  const CommandResult all = import_to_stdout(
      bert, {"--minShapes=input_ids:1x2,attention_mask:1x2", "--optShapes=input_ids:4x32,attention_mask:4x32",
             "--maxShapes='input_ids':8x64,'attention_mask':8x64"});
  CHECK(all.exit_code == 0);
  CHECK(contains(all.out, "symbol batch 1..8 opt 4\n"));
  CHECK(contains(all.out, "symbol seq 2..64 opt 32\n"));
  // Only one of the three: one size. The dims of one input are those of all.
  const CommandResult one = import_to_stdout(bert, {"--optShapes", "input_ids:3x16"});
  CHECK(contains(one.out, "func @main(%0 \"input_ids\": tensor<[3, 16], i64>, %1 \"attention_mask\": tensor<[3, 16]"));
  // Without opt the largest is planned for.
  const CommandResult two = import_to_stdout(bert, {"--minShapes=input_ids:0x1", "--maxShapes=input_ids:8x64"});
  CHECK(contains(two.out, "symbol batch 0..8 opt 8\n"));
}

TEST_CASE("shapes that contradict each other or the model are errors that name both") {
  struct Case {
    std::vector<std::string> options;
    std::vector<std::string> words;
  };
  const Case cases[] = {
      {{"--optShapes=input_ids:2x8,attention_mask:3x8"},
       {"two ranges for dim 'batch'", "2 by axis 0 of input 'input_ids'", "3 by axis 0 of input 'attention_mask'"}},
      {{"--fix-dim=batch=2", "--optShapes=input_ids:3x8"},
       {"two ranges for dim 'batch'", "2 by --dim or --fix-dim", "3 by axis 0 of input 'input_ids'"}},
      {{"--minShapes=input_ids:4x8", "--maxShapes=input_ids:2x8"}, {"not ordered", "axis 0 of input 'input_ids'"}},
      {{"--optShapes=input_ids:2x8x1"}, {"a shape of 3 axes", "[batch, seq]"}},
      {{"--optShapes=input_id:2x8"}, {"'input_id'", "did you mean 'input_ids'?"}},
      {{"--optShapes=input_ids:2x8", "--optShapes=input_ids:2x8"}, {"given twice"}},
      {{"--optShapes=input_ids"}, {"no input and shape"}},
      {{"--optShapes=input_ids:2xx8"}, {"bad shape"}},
      {{"--optShapes=input_ids:2x-8"}, {"bad shape"}},
      {{"--dim", "bach=3"}, {"no dim of this name", "did you mean 'batch'?"}},
      {{"--fix-dim", "batch=1:2:3"}, {"--fix-dim batch=1:2:3", "NAME=N"}},
      {{"--fix-dim", "batch=2", "--dim", "batch=2"}, {"given twice"}},
  };
  for (const Case& c : cases) {
    CAPTURE(join(c.options, " "));
    const CommandResult imported = import_to_stdout(bert, c.options);
    CHECK(imported.exit_code == 2);
    CHECK(imported.out.empty());
    const TempFolder folder;
    std::vector<std::string> command = {RTX_COMPILE, bert, "-o", folder / "p.rtxpkg"};
    command.insert(command.end(), c.options.begin(), c.options.end());
    const CommandResult compiled = run_command(command);
    CHECK(compiled.exit_code == 2);
    CHECK_FALSE(fs::exists(folder / "p.rtxpkg"));
    for (const std::string& words : c.words) {
      CHECK(contains(imported.err, words));
      CHECK(contains(compiled.err, words));
    }
  }
}

TEST_CASE("axes that are expressions follow from their symbols, or decide them") {
  const Dims dims({"batch", "past"}, {"batch", "past + seq"});
  const CommandResult known = dims.import({"--optShapes=x:2x5,mask:2x8"});
  CHECK(known.exit_code == 2);  // no axis is exactly seq: the axis is a symbol of its own
  CHECK(contains(known.err, "seq"));

  const Dims doubled({"n", "m"}, {"n", "n + m"});
  CHECK(contains(doubled.import({"--optShapes=x:2x5,mask:2x7"}).out, "tensor<[2, 7], f32>"));
  const CommandResult wrong = doubled.import({"--optShapes=x:2x5,mask:2x8"});
  CHECK(wrong.exit_code == 2);
  CHECK(contains(wrong.err, "axis 1 of input 'mask' is m + n, which is 7 by the other sizes"));
  // Only the sum and one part are given.
  const CommandResult solved =
      doubled.import({"--dim=n=1:2:4", "--minShapes=mask:1x4", "--optShapes=mask:2x7", "--maxShapes=mask:4x12"});
  CHECK(contains(solved.out, "symbol m 3..8 opt 5\n"));
}

TEST_CASE("names of dims are taken as they stand in the file, and a size may be fixed") {
  const Dims dims({"batch size", "3"}, {"batch size", "3"});
  CHECK(contains(dims.import({"--fix-dim", "batch size=4"}).out, "tensor<[4, "));
  CHECK(contains(dims.import({"--dim", "batch size=1:2:3"}).out, "symbol batch_size 1..3 opt 2\n"));
  CHECK(contains(dims.import({"--dim", "batch_size=1:2:3"}).out, "symbol batch_size 1..3 opt 2\n"));
}

TEST_CASE("an axis of an expression over an unbound symbol has a range of its own") {
  const Dims dims({"s + 1", "4"}, {"4", "4"});
  CHECK(contains(dims.import({}).out, "symbol s___1 0.."));
  CHECK(contains(dims.import({"--dim", "s___1=2:3:4"}).out, "symbol s___1 2..4 opt 3\n"));
  CHECK(contains(dims.import({"--fix-dim", "s=3"}).out, "tensor<[4, "));
  CHECK(dims.import({"--dim", "s=1:2:3"}).exit_code == 2);
}

TEST_CASE("sizes of zero and scalars are legal") {
  const CommandResult empty = import_to_stdout(bert, {"--optShapes=input_ids:0x8"});
  CHECK(empty.exit_code == 0);
  CHECK(contains(empty.out, "tensor<[0, 8], i64>"));
  const Dims scalar({}, {"n"});
  for (const char* shape : {"x:", "x:scalar"})
    CHECK(scalar.import({concat("--optShapes=", shape, ",mask:3")}).exit_code == 0);
  CHECK(scalar.import({"--optShapes=x:1"}).exit_code == 2);
}

TEST_CASE("a module that was imported earlier takes the same options") {
  const TempFolder folder;
  const std::string module = folder / "m.rtxir";
  REQUIRE(run_command({RTX_IMPORT, bert, "-o", module}).exit_code == 0);
  const auto compile = [&](const std::vector<std::string>& more) {
    std::vector<std::string> command = {RTX_COMPILE, module, "-o", folder / "p.rtxpkg"};
    command.insert(command.end(), more.begin(), more.end());
    return run_command(command);
  };
  CHECK(compile({"--optShapes=input_ids:2x8", "--progress=never"}).exit_code == 0);
  CHECK(contains(contents(folder / "p.rtxpkg/manifest.yaml"), "inputs"));
  CHECK(contains(compile({"--optShapes=input_ids:2x8", "--fix-dim=sequ=3"}).err, "did you mean 'seq'?"));
  CHECK(contains(compile({"--optShapes=input_ids:2x8", "--fix-dim=batch=3"}).err, "two ranges for dim 'batch'"));
}

TEST_CASE("--constant gives an input its value, so that shapes may depend on it") {
  proto::ModelProto model = empty_model();
  auto& graph = *model.mutable_graph();
  *graph.add_input() = value_proto("shape", {2}, proto::TensorProto::INT64);
  add(graph, node_proto("Reshape", {"x", "shape"}, {"y"}));
  graph.mutable_output(0)->mutable_type()->mutable_tensor_type()->clear_shape();
  const TempFolder folder;
  const std::string path = folder.file("m.onnx", model.SerializeAsString());
  const CommandResult refused = import_to_stdout(path, {});
  CHECK(refused.exit_code == 4);
  CHECK(contains(refused.err, "--constant 'shape=...'"));
  const CommandResult given = import_to_stdout(path, {"--constant", "shape=2,-1"});
  CHECK(given.exit_code == 0);
  CHECK(contains(given.out, "func @main(%0 \"x\": tensor<[4], f32>)"));
  CHECK(contains(given.out, "tensor<[2, 2], f32>"));
  for (const auto& [value, words] : {std::pair("shape=2", "another shape than the input"),
                                     {"shape=1,x", "'x' is no value"},
                                     {"shap=1,2", "'shape'?"},
                                     {"shape=@none.npy", "No such file"},
                                     {"shape", "no name"},
                                     {"shape=1,2.5", "'2.5' is no value"},
                                     {"x=1,2,3", "f32"}}) {
    CAPTURE(value);
    const CommandResult bad = import_to_stdout(path, {"--constant", value});
    CHECK(bad.exit_code != 0);
    CHECK(bad.out.empty());
    CHECK(contains(bad.err, words));
  }
  // A file of numpy: version 1.0, two int64.
  std::string header = "{'descr': '<i8', 'fortran_order': False, 'shape': (2,), }";
  header.resize(117, ' ');
  const std::string array = std::string("\x93NUMPY\x01\x00\x76\x00", 10) + header + "\n" +
                            std::string("\x04\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0", 16);
  const std::string npy = folder.file("shape.npy", array);
  CHECK(contains(import_to_stdout(path, {concat("--constant=shape=@", npy)}).out, "tensor<[4, 1], f32>"));
}

// ---- Forms

TEST_CASE("--strip-metadata leaves nothing of the file but its interface") {
  const TempFolder folder;
  const std::string plain = folder / "plain.rtxir", stripped = folder / "stripped.rtxir";
  REQUIRE(run_command({RTX_IMPORT, bert, "-o", plain}).exit_code == 0);
  REQUIRE(run_command({RTX_IMPORT, bert, "-o", stripped, "--strip-metadata"}).exit_code == 0);
  const std::string text = contents(stripped);
  for (const char* gone : {" from ", " as ", "node '", "embeddings", "onnx::", "/m/"}) {
    CAPTURE(gone);
    CHECK(contains(contents(plain), gone));
    CHECK(text.find(gone) == std::string::npos);
    CHECK(contents(folder / "stripped.safetensors").find(std::string(gone) == " as " ? "layer.0" : gone) ==
          std::string::npos);
  }
  for (const char* kept : {"\"input_ids\"", "\"attention_mask\"", "symbol batch", "name = \"w0\""})
    CHECK(contains(text, kept));
  // The same weights and the same operations.
  CHECK(fs::file_size(folder / "stripped.safetensors") < fs::file_size(folder / "plain.safetensors"));
  const auto first = load_module(plain), second = load_module(stripped);
  REQUIRE(first.ok());
  REQUIRE(second.ok());
  CHECK((*first)->functions[0]->block.size() == (*second)->functions[0]->block.size());
  CHECK(used_weights(**first).size() == used_weights(**second).size());
  CHECK((*first)->functions[0]->output_names == (*second)->functions[0]->output_names);

  REQUIRE(run_command({RTX_COMPILE, bert, "-o", folder / "p.rtxpkg", "--strip-metadata"}).exit_code == 0);
  CHECK(contents(folder / "p.rtxpkg/manifest.yaml").find("embeddings") == std::string::npos);
}

TEST_CASE("--weights inline gives one text with the same contents") {
  const TempFolder folder;
  const std::string inlined = folder / "inline.rtxir", external = folder / "external.rtxir";
  REQUIRE(run_command({RTX_IMPORT, bert, "-o", inlined, "--weights", "inline"}).exit_code == 0);
  REQUIRE(run_command({RTX_IMPORT, bert, "-o", external}).exit_code == 0);
  CHECK_FALSE(fs::exists(folder / "inline.safetensors"));
  const auto one = load_module(inlined), other = load_module(external);
  REQUIRE(one.ok());
  REQUIRE(other.ok());
  CHECK(used_weights(**one).empty());
  // Bit by bit, in the order of the operations.
  auto weight = (*other)->functions[0]->block.operations().begin();
  int64_t compared = 0;
  for (const auto& operation : (*one)->functions[0]->block.operations()) {
    REQUIRE(weight != (*other)->functions[0]->block.operations().end());
    if ((*weight)->is(Op::weight)) {
      REQUIRE(operation->is(Op::constant));
      const auto stored = (*other)->weights->load((*weight)->attributes.string("name"));
      REQUIRE(stored.ok());
      CHECK(operation->attributes.tensor("value").bytes == stored->bytes);
      CHECK(operation->origins == (*weight)->origins);
      ++compared;
    }
    ++weight;
  }
  CHECK(compared == 20);
  // The whole of it also fits through a pipe.
  const CommandResult printed = run_command({RTX_IMPORT, bert, "-o", "-", "--weights=inline"});
  CHECK(printed.out == contents(inlined));
  CHECK(run_command({RTX_COMPILE, inlined, "-o", folder / "p.rtxpkg"}).exit_code == 0);

  const CommandResult large = run_command({RTX_IMPORT, bert, "-o", "-", "--weights=inline", "--max-inline-bytes=9999"});
  CHECK(large.exit_code == 5);
  CHECK(contains(large.err, "RTX-E507"));
  CHECK(contains(large.err, "'m.embeddings.word_embeddings.weight' with 12672"));
}

TEST_CASE("progress is for terminals, unless it is wanted") {
  const TempFolder folder;
  const auto progress = [&](const std::string& mode) {
    return run_command({RTX_IMPORT, bert, "-o", folder / "m.rtxir", "--progress", mode}).err;
  };
  CHECK(progress("auto").find("writing weights") == std::string::npos);
  CHECK(progress("never").find("writing weights") == std::string::npos);
  CHECK(contains(progress("always"), "writing weights: 0.1 of 0.1 MiB"));
}

}  // namespace
}  // namespace rtx::onnx
