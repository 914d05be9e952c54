// rtx-opt from the command line.

#include <doctest/doctest.h>

#include <filesystem>

#include "base/file.h"
#include "base/text.h"
#include "ir/module_file.h"
#include "ir/text.h"
#include "tests/command.h"

namespace rtx {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view doubled =
    "rtxir 1\nstage imported\nsymbol n 1..8\nfunc @main(%0 \"x\": tensor<[n], f32>) {\n"
    "  %1 = neg(%0) : tensor<[n], f32>\n  %2 = neg(%1) : tensor<[n], f32>\n"
    "  %3 = add(%2, %2) : tensor<[n], f32>\n  yield(%3)\n} outputs \"y\"\n";

bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

CommandResult opt(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), RTX_OPT);
  return run_command(arguments);
}

TEST_CASE("rtx-opt runs the named passes and prints the module") {
  TempFolder folder;
  std::string path = folder.file("m.rtxir", doubled);
  CommandResult result = opt({"--passes=canonicalize", path});
  CAPTURE(result.err);
  CHECK(result.exit_code == 0);
  CHECK(result.err.empty());
  CHECK(result.out ==
        "rtxir 1\nstage imported\nsymbol n 1..8\n\nfunc @main(%0 \"x\": tensor<[n], f32>) {\n"
        "  %1 = add(%0, %0) : tensor<[n], f32>\n  yield(%1)\n} outputs \"y\"\n");
  // Its own output is already canonical.
  std::string again = folder.file("again.rtxir", result.out);
  CHECK(opt({"--passes=canonicalize,eliminate_dead_values", again}).out == result.out);
  CHECK(contains(opt({"--passes=canonical", path}).out, "stage canonical"));
}

TEST_CASE("rtx-opt shows what each pass did and how long it took on stderr") {
  TempFolder folder;
  std::string path = folder.file("m.rtxir", doubled);
  CommandResult result = opt({"--passes=canonicalize,eliminate_dead_values", "--print-after-all", "--time-passes",
                              "--round-trip", path, "-o", folder / "out.rtxir"});
  CHECK(result.exit_code == 0);
  CHECK(result.out.empty());
  CHECK(contains(result.err, "# after canonicalize\nrtxir 1"));
  CHECK(contains(result.err, "# after eliminate_dead_values\nrtxir 1"));
  CHECK(contains(result.err, "eliminate_dead_values (unchanged)"));
  CommandResult changes = opt({"--passes=canonicalize,eliminate_dead_values", "--print-after-change", path});
  CHECK_FALSE(contains(changes.err, "# after eliminate_dead_values"));
}

TEST_CASE("rtx-opt lists its passes and the operations") {
  CommandResult passes = opt({"--list-passes"});
  CHECK(passes.exit_code == 0);
  for (std::string_view name :
       {"canonicalize", "fold_constants", "eliminate_common_subexpressions", "mark_canonical"}) {
    CHECK(contains(passes.out, name));
  }
  CHECK(contains(opt({"--list-ops"}).out, "| `matmul` |"));
}

TEST_CASE("rtx-opt refuses bad command lines and bad modules") {
  TempFolder folder;
  std::string path = folder.file("m.rtxir", doubled);
  CommandResult unknown = opt({"--passes=canonicalise", path});
  CHECK(unknown.exit_code == 2);
  CHECK(contains(unknown.err, "there is no pass 'canonicalise' [RTX-E010]"));
  CHECK(contains(unknown.err, "--list-passes"));
  CHECK(opt({"--no-such-flag"}).exit_code == 2);
  CHECK(opt({folder / "missing.rtxir"}).exit_code == 9);
  std::string broken =
      folder.file("broken.rtxir", "rtxir 1\nstage imported\nfunc @main() {\n  %0 = frob() : tensor<[], f32>\n}\n");
  CommandResult refused = opt({broken, "-o", folder / "out.rtxir"});
  CHECK(refused.exit_code == 3);
  CHECK(contains(refused.err, "broken.rtxir:4:"));
  CHECK_FALSE(fs::exists(folder / "out.rtxir"));
  CHECK(contains(opt({"--diagnostics-format=json", broken}).err, "\"RTX-E151\""));
  CHECK(opt({"--reproduce", path}).exit_code == 2);
  std::string fused = folder.file(
      "fused.rtxir", "rtxir 1\nstage fused\nfunc @main(%0 \"x\": tensor<[2], f32>) {\n  yield(%0)\n} outputs \"y\"\n");
  CHECK(contains(opt({"--passes=canonicalize", fused}).err, "[RTX-E011]"));
}

TEST_CASE("rtx-opt folds weights into a new file beside its output") {
  TempFolder folder;
  std::string path = folder.file(
      "m.rtxir",
      "rtxir 1\nstage imported\nsymbol n 1..8\nfunc @main(%0 \"x\": tensor<[n, 8], f32>) {\n"
      "  %1 = weight() {name = \"w\", dtype = f32, shape = [6, 8]} : tensor<[6, 8], f32>\n"
      "  %2 = neg(%1) : tensor<[6, 8], f32>\n  %3 = matmul(%0, %2) {transpose_rhs = true} : tensor<[n, 6], f32>\n"
      "  yield(%3)\n} outputs \"y\"\n");
  WeightStore store;
  Tensor w(DType::f32, {6, 8});
  for (int64_t i = 0; i < 48; ++i) w.set_f64(i, static_cast<double>(i));
  store.add("w", w);
  const std::vector<std::string> names = {"w"};
  REQUIRE(store.write(folder / "m.safetensors", names));

  CommandResult result = opt({"--passes=canonical", path, "-o", folder / "out.rtxir"});
  CAPTURE(result.err);
  REQUIRE(result.exit_code == 0);
  auto module = load_module(folder / "out.rtxir");
  REQUIRE_MESSAGE(module, to_string(module.error().first()));
  CHECK(used_weights(**module) == std::vector<std::string>{"w.neg"});
  CHECK((*module)->weights->entries().size() == 1);  // the weight without users is gone
  CHECK((*module)->weights->load("w.neg").value().f64(47) == -47);

  // Equal bytes each time.
  REQUIRE(opt({"--passes=canonical", path, "-o", folder / "two.rtxir"}).exit_code == 0);
  auto bytes = [&](std::string_view name) { return read_text_file(folder / name, 1 << 20).value(); };
  CHECK(bytes("out.safetensors") == bytes("two.safetensors"));
  CHECK(bytes("out.rtxir") == bytes("two.rtxir"));

  // To stdout there is no place for new weights: said, not silent.
  CHECK(contains(opt({"--passes=canonical", path}).err, "[RTX-E012]"));
  // A budget of nothing folds nothing.
  CHECK(contains(opt({"--passes=canonical", "--max-folded-total-bytes=0", path}).out, "neg("));
}

TEST_CASE("--reduce shrinks a module for a command, writes it with its weights and says each step on stderr") {
  TempFolder folder;
  const std::string path =
      folder.file("m.rtxir",
                  "rtxir 1\nstage imported\nsymbol n 1..8\nfunc @main(%0 \"x\": tensor<[n, 40], f32>) {\n"
                  "  %1 = weight() {name = \"w\", dtype = f32, shape = [40, 40]} : tensor<[40, 40], f32>\n"
                  "  %2 = matmul(%0, %1) : tensor<[n, 40], f32>\n  %3 = gelu(%2) : tensor<[n, 40], f32>\n"
                  "  %4 = softmax(%3) {axis = 1} : tensor<[n, 40], f32>\n  %5 = matmul(%4, %1) : tensor<[n, 40], f32>\n"
                  "  yield(%5, %3)\n} outputs \"y\", \"z\"\n");
  const auto reduce = [&](std::string_view check, std::string_view out) {
    return opt({"--reduce", concat("--check=", check), path, "-o", folder / out});
  };
  const CommandResult result = reduce("! grep -q softmax", "small.rtxir");
  REQUIRE_MESSAGE(result.exit_code == 0, result.err);
  CHECK(result.err.starts_with("       5 operations\n"));
  CHECK(contains(result.err, "       1 operations: "));
  CHECK(read_text_file(folder / "small.rtxir", 1 << 16).value() ==
        "rtxir 1\nstage imported\n\nfunc @main(%0 \"in1\": tensor<[1, 1], f32>) {\n"
        "  %1 = softmax(%0) {axis = 1} : tensor<[1, 1], f32>\n  yield(%0)\n} outputs \"z\"\n");
  // The exit code tells failures apart, and weights go along.
  REQUIRE(reduce("f() { grep -q 'matmul' \"$1\" && exit 3; exit 0; }; f", "product.rtxir").exit_code == 0);
  CHECK(contains(read_text_file(folder / "product.rtxir", 1 << 16).value(), "matmul"));
  REQUIRE(reduce("f() { grep -q 'weight()' \"$1\" && test -s \"${1%.rtxir}.safetensors\" && exit 3; exit 0; }; f",
                 "weight.rtxir")
              .exit_code == 0);
  CHECK(fs::exists(folder / "weight.safetensors"));
  CHECK(opt({folder / "weight.rtxir"}).exit_code == 0);
}

TEST_CASE("--reduce refuses what does not fail and commands that cannot be run") {
  TempFolder folder;
  const std::string path = folder.file("m.rtxir", doubled);
  const CommandResult fine = opt({"--reduce", "--passes=canonical,optimize", path, "-o", folder / "o.rtxir"});
  CHECK(fine.exit_code == 2);
  CHECK(contains(fine.err, "[RTX-E016]"));
  CHECK_FALSE(fs::exists(folder / "o.rtxir"));
  const CommandResult missing = opt({"--reduce", "--check=/no/such/program", path});
  CHECK(missing.exit_code == 2);
  CHECK(contains(missing.err, "[RTX-E017]"));
}

}  // namespace
}  // namespace rtx
