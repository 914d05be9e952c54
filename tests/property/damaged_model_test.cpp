// Models with random damage: each is read or refused with a clean message, and nothing else happens. Most worth under
// the sanitizers. RTX_TEST_SEED repeats a run, RTX_TEST_CASES makes it longer.

#include <cstdlib>
#include <random>

#include "tests/unit/onnx_file.h"

namespace rtx::onnx {
namespace {

uint64_t number_from_environment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

// A little of everything that the reader handles: typed, raw and sparse tensors, a branch, a function.
std::string varied_model() {
  proto::ModelProto model = empty_model();
  proto::GraphProto& graph = *model.mutable_graph();
  proto::TensorProto raw = tensor_proto(), typed = tensor_proto(proto::TensorProto::INT64);
  raw.set_raw_data(float_bytes({1, 2, 3, 4}));
  typed.set_name("v");
  for (int i = 0; i < 4; ++i) typed.add_int64_data(i);
  *graph.add_initializer() = raw;
  *graph.add_initializer() = typed;
  proto::SparseTensorProto& sparse = *graph.add_sparse_initializer();
  sparse.add_dims(8);
  *sparse.mutable_values() = raw;
  sparse.mutable_values()->set_name("s");
  *sparse.mutable_indices() = typed;

  proto::NodeProto choice = node_proto("If", {"v"}, {"c"});
  for (const char* name : {"then_branch", "else_branch"}) {
    proto::AttributeProto& attribute = *choice.add_attribute();
    attribute.set_name(name);
    attribute.set_type(proto::AttributeProto::GRAPH);
    attribute.mutable_g()->set_name(name);
    add(*attribute.mutable_g(), node_proto("Neg", {"b"}, {name}));
    attribute.mutable_g()->add_output()->set_name(name);
  }
  add(graph, choice);
  add(graph, node_proto("f", {"x", "w"}, {"b"}, "local"));
  add(graph, node_proto("Add", {"c", "b"}, {"y"}));
  proto::FunctionProto& function = *model.add_functions();
  function.set_domain("local");
  function.set_name("f");
  for (const char* input : {"i", "j"}) function.add_input(input);
  function.add_output("o");
  function.add_opset_import()->set_version(17);
  *function.add_node() = node_proto("Mul", {"i", "t"}, {"o"});
  *function.add_node() = node_proto("Exp", {"j"}, {"t"});
  return model.SerializeAsString();
}

TEST_CASE("a damaged model is read or refused") {
  const uint64_t seed = number_from_environment("RTX_TEST_SEED", 20260101);
  const uint64_t cases = number_from_environment("RTX_TEST_CASES", 3000);
  INFO("RTX_TEST_SEED=", seed);
  std::mt19937_64 random(seed);
  const auto below = [&](size_t bound) { return static_cast<size_t>(random() % bound); };
  const std::string good = varied_model();
  REQUIRE(outcome(read_bytes(good)) == "ok");
  ReadOptions options;
  options.limits.max_tensor_bytes = 1 << 20;
  options.limits.max_inlined_nodes = 1000;
  const TempFolder folder;
  uint64_t refused = 0;
  for (uint64_t i = 0; i < cases; ++i) {
    CAPTURE(i);
    std::string bytes = good;
    for (size_t change = 0; change <= below(3); ++change) {
      const size_t at = below(bytes.size());
      switch (below(4)) {
        case 0:
          bytes[at] = static_cast<char>(random());
          break;
        case 1:
          bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8)));
          break;
        case 2:
          bytes.erase(at, 1 + below(4));
          break;
        default:
          bytes.insert(at, bytes.substr(below(bytes.size()), 1 + below(8)));
          break;
      }
    }
    const Result<Model> result = read_model(folder.file("m.onnx", bytes), options);
    if (result) continue;
    ++refused;
    for (const Diagnostic& diagnostic : result.error().diagnostics) {
      CHECK(diagnostic.kind != ErrorKind::internal);
      CHECK(!diagnostic.help.empty());
      for (char c : to_string(diagnostic)) CHECK((c == '\n' || static_cast<unsigned char>(c) >= 0x20));
    }
  }
  CHECK(refused > cases / 2);  // the damage is real
  CHECK(refused < cases);
}

}  // namespace
}  // namespace rtx::onnx
