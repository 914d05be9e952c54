// rtx-inspect --why on compiled models: what was considered for each step, and why.

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/text.h"
#include "tests/command.h"
#include "tests/temp_folder.h"

namespace rtx {
namespace {

using Json = nlohmann::json;

bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

size_t count(std::string_view text, std::string_view part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string_view::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

struct Compiled {
  explicit Compiled(std::string_view model, std::vector<std::string> options = {}) {
    options.insert(options.begin(), {RTX_COMPILE, concat(RTX_TEST_DIR, "/fixtures/models/", model, "/model.onnx"), "-o",
                                     package, "--arch", "cpu"});
    const CommandResult result = run_command(options);
    REQUIRE_MESSAGE(result.exit_code == 0, result.err);
  }
  CommandResult inspect(std::vector<std::string> options) const {
    options.insert(options.begin(), {RTX_INSPECT, package});
    return run_command(options);
  }
  Json json(std::vector<std::string> options = {}) const {
    options.emplace_back("--json");
    const CommandResult result = inspect(options);
    REQUIRE_MESSAGE(result.exit_code == 0, result.err);
    return Json::parse(result.out);
  }

  TempFolder folder;
  std::string package = folder / "p";
};

TEST_CASE("--why tells of every step what was considered") {
  const Compiled bert("bert.dyn20");
  const CommandResult all = bert.inspect({"--why"});
  REQUIRE(all.exit_code == 0);
  const Json json = bert.json();
  CHECK(count(all.out, "\nstep ") == json["programs"][0]["steps"].size());
  for (const char* part :
       {"estimated on RTX 5090 (sm_120)", "yes  own kernel, tiles of 64x64x16", "no   cublaslt and a kernel, ",
        ": estimated slower", "from node 'node_MatMul_79' (MatMul)", "no   cublaslt, ", ": estimated no faster",
        "(contract): blocks of a product make parts of rows, and only elementwise work follows them"})
    CHECK_MESSAGE(contains(all.out, part), part);
  CHECK(contains(Compiled("llama_step.ts17").inspect({"--why"}).out, "yes  cublaslt: a product alone"));
}

TEST_CASE("--why takes a step, a kernel or a part of a node's name") {
  const Compiled llama("llama_step.ts17");
  const Json json = llama.json();
  const std::string kernel = json["programs"][0]["steps"][3]["kernel"];
  CHECK(count(llama.inspect({"--why=3"}).out, "\nstep 3 ") == 1);
  CHECK(count(llama.inspect({"--why=3"}).out, "\nstep ") == 1);
  CHECK(contains(llama.inspect({"--why", kernel}).out, kernel));
  const std::string layer = llama.inspect({"--why", "layers.1/self_attn"}).out;
  CHECK(count(layer, "\nstep ") > 3);
  // What a movement kernel makes is read by attention, which takes in no work of this kind.
  CHECK(contains(layer, "    not done inside its readers\n      no   step "));
  CHECK(!contains(layer, "layers.0/"));
  const CommandResult none = llama.inspect({"--why", "no such node"});
  CHECK(none.exit_code == 2);
  CHECK(contains(none.err, "no step, kernel or ONNX node of the package is called 'no such node'"));
}

TEST_CASE("a plan that lost by its estimate is slower at the sizes and on the GPU that it was planned for") {
  const Compiled bert("bert.dyn20");
  const Json json = bert.json({"--dim=s10=128", "--dim=s12=64", "--dim=s86=128", "--target=sm_120"});
  int compared = 0;
  for (const Json& kernel : json["kernels"]) {
    for (const Json& decision : kernel["decisions"]) {
      if (decision["reason"] != "estimated slower") continue;
      CHECK(decision["estimated_ns"] > kernel["estimated_ns"]);
      ++compared;
    }
  }
  CHECK(compared > 0);
  // Half the memory bandwidth and a third of the arithmetic: everything takes longer.
  const Json older = bert.json({"--dim=s10=128", "--dim=s12=64", "--dim=s86=128", "--target=sm_86"});
  for (size_t i = 0; i < json["kernels"].size(); ++i)
    CHECK(older["kernels"][i]["estimated_ns"] >= json["kernels"][i]["estimated_ns"]);
  CHECK(bert.inspect({"--why", "--target=sm_42"}).exit_code == 4);
}

TEST_CASE("a tuning table is an input of the build") {
  const TempFolder folder;
  const std::string start =
      "rtx_tuning: 1\nproducts:\n  - arch: sm_90a\n    dtype: f32\n    batch: 1\n    m: 128\n    n: 32\n    k: 64\n";
  REQUIRE(write_file(folder / "good.yaml", start + "    plan: cublaslt\n"));
  REQUIRE(write_file(folder / "bad.yaml", start + "    plan: tensor.64x64x32\n"));
  const std::string model = RTX_TEST_DIR "/fixtures/models/bert.dyn20/model.onnx";
  REQUIRE(run_command({RTX_COMPILE, model, "-o", folder / "p", "--tuning-table", folder / "good.yaml"}).exit_code == 0);
  // The package has no code for sm_90a, so the table decides nothing; it is named all the same.
  const CommandResult shown = run_command({RTX_INSPECT, folder / "p", "--why"});
  CHECK(contains(shown.out, "plans chosen by tuning table "));
  const CommandResult bad =
      run_command({RTX_COMPILE, model, "-o", folder / "q", "--tuning-table", folder / "bad.yaml"});
  CHECK(bad.exit_code == 3);
  CHECK(contains(bad.err, "bad.yaml:9:11: error: no planner makes the plan 'tensor.64x64x32' for products of f32"));
  CHECK(run_command({RTX_COMPILE, model, "-o", folder / "q", "--tuning-table", folder / "none"}).exit_code == 9);
}

TEST_CASE("what a composite operation lacked is said where its pieces went") {
  const TempFolder folder;
  std::string text =
      read_text_file(RTX_TEST_DIR "/golden/recover_composites/not_attention_axis.rtxir", 1 << 20).value();
  text.resize(text.find("# expect:"));
  const std::string root = "{transpose_lhs = false, transpose_rhs = false} : tensor<[batch, 4, 20, 8], f32>";
  REQUIRE(contains(text, root));
  text.insert(text.find(root) + root.size(), " from \"node 'pv' (MatMul)\"");
  REQUIRE(write_file(folder / "m.rtxir", text));
  REQUIRE(run_command({RTX_COMPILE, folder / "m.rtxir", "-o", folder / "p"}).exit_code == 0);
  CHECK(contains(run_command({RTX_INSPECT, folder / "p", "--why=pv"}).out,
                 "no   attention: the softmax is not over the last axis"));
}

}  // namespace
}  // namespace rtx
