// rtx-compile --specialize: variants of a program for fixed sizes, and which one runs.

#include <doctest/doctest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/text.h"
#include "tests/command.h"
#include "tests/temp_folder.h"

namespace rtx {
namespace {

std::string fixture(std::string_view name) { return concat(RTX_TEST_DIR, "/fixtures/models/", name, "/model.onnx"); }

CommandResult compile(const std::string& package, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {RTX_COMPILE, "--no-kernel-cache", "-o", package});
  return run_command(arguments);
}

nlohmann::json inspect(const std::string& package) {
  return nlohmann::json::parse(run_command({RTX_INSPECT, package, "--json"}).out, nullptr, false);
}

// Which program ran, and the hash of its outputs.
struct Ran {
  std::string program, hash;
};
Ran run(const std::string& package, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {RTX_RUN, package, "--random-inputs", "--output-hash", "--device", "cpu"});
  const CommandResult result = run_command(arguments);
  REQUIRE_MESSAGE(result.exit_code == 0, result.err);
  constexpr std::string_view line = "rtx-run: program ";
  const size_t at = result.err.find(line);
  if (at == std::string::npos) return {"", result.out};
  const size_t begin = at + line.size();
  return {result.err.substr(begin, result.err.find('\n', begin) - begin), result.out};
}

TEST_CASE("the most specific variant for the sizes runs, else the general program, with equal outputs") {
  const TempFolder folder;
  const std::string package = folder / "p", plain = folder / "plain";
  REQUIRE(compile(plain, {fixture("bert.ts17")}).exit_code == 0);
  const CommandResult made =
      compile(package, {fixture("bert.ts17"), "--specialize", "batch=1", "--specialize", "seq=7,batch=1"});
  REQUIRE_MESSAGE(made.exit_code == 0, made.err);
  auto dims = [](int batch, int seq) {
    return std::vector<std::string>{concat("--dim=batch=", batch), concat("--dim=seq=", seq)};
  };
  const std::pair<std::pair<int, int>, std::string> expected[] = {
      {{1, 7}, "main.batch_1.seq_7"}, {{1, 8}, "main.batch_1"}, {{2, 7}, "main"}};
  for (const auto& [sizes, program] : expected) {
    CAPTURE(program);
    const Ran ran = run(package, dims(sizes.first, sizes.second));
    CHECK(ran.program == program);
    std::vector<std::string> general = dims(sizes.first, sizes.second);
    general.insert(general.end(), {"--program", "main"});
    CHECK(run(package, general).program == "main");
    CHECK(run(package, general).hash == ran.hash);
    CHECK(run(plain, dims(sizes.first, sizes.second)).hash == ran.hash);
  }
  // A variant by name takes no other sizes.
  const CommandResult other = run_command({RTX_RUN, package, "--random-inputs", "--dim=batch=2", "--dim=seq=7",
                                           "--program", "main.batch_1", "--device", "cpu"});
  CHECK(other.exit_code != 0);
  // Sizes are numbers in the variant; weights are shared.
  const nlohmann::json with = inspect(package), without = inspect(plain);
  REQUIRE(with["programs"].size() == 3);
  CHECK(with["programs"][2]["variant"] == "main for batch=1, seq=7");
  CHECK(with["programs"][2]["inputs"][0]["shape"] == nlohmann::json({1, 7}));
  CHECK(with["programs"][1]["inputs"][0]["shape"] == nlohmann::json({1, "seq"}));
  CHECK(with["weights"] == without["weights"]);
  CHECK(with["kernels"].size() <= 3 * without["kernels"].size());
  CHECK(with["kernels"].size() > without["kernels"].size());
}

TEST_CASE("under batch_invariant a variant runs the kernels of its general program") {
  const TempFolder folder;
  const std::string package = folder / "p", plain = folder / "plain";
  const std::string level = "--determinism=batch_invariant";
  REQUIRE(compile(plain, {fixture("gpt2.ts17"), level}).exit_code == 0);
  const CommandResult made = compile(package, {fixture("gpt2.ts17"), level, "--specialize", "batch=2,seq=5"});
  REQUIRE_MESSAGE(made.exit_code == 0, made.err);
  const nlohmann::json with = inspect(package), without = inspect(plain);
  REQUIRE(with["programs"].size() == 2);
  CHECK(with["kernels"].size() == without["kernels"].size());
  CHECK(with["programs"][0]["steps"].size() == with["programs"][1]["steps"].size());
  for (size_t i = 0; i < with["programs"][0]["steps"].size(); ++i)
    CHECK(with["programs"][0]["steps"][i]["kernel"] == with["programs"][1]["steps"][i]["kernel"]);
  const std::vector<std::string> dims = {"--dim=batch=2", "--dim=seq=5"};
  CHECK(run(package, dims).program == "main.batch_2.seq_5");
  CHECK(run(package, dims).hash == run(plain, dims).hash);
}

TEST_CASE("what cannot be specialized is refused by name, and there is no package") {
  const TempFolder folder;
  auto refused = [&](std::vector<std::string> arguments, std::string_view message) {
    arguments.insert(arguments.begin(), {fixture("bert.ts17"), "--dim=batch=1:2:8"});
    const CommandResult result = compile(folder / "p", std::move(arguments));
    CAPTURE(result.err);
    CHECK(result.exit_code == 2);
    CHECK(result.err.find(message) != std::string::npos);
    CHECK(!std::filesystem::exists(folder / "p"));
  };
  refused({"--specialize", "length=3"}, "the model has no dim 'length' to specialize");
  refused({"--specialize", "batch=9"}, "batch=9, which is outside the range of the dim");
  refused({"--specialize", "batch=0"}, "expected: batch from 1 to 8");
  refused({"--specialize", "batch=1,batch=2"}, "the dim is given twice");
  refused({"--specialize", "batch=1", "--specialize", "batch=1"}, "the specialization batch=1 is given twice");
  refused({"--specialize", "batch"}, "no name");
  refused({"--specialize", "batch=1:2"}, "bad range");
  refused({"--specialize", "batch=-1"}, "bad range");
}

}  // namespace
}  // namespace rtx
