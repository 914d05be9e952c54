// rtx-run and rtx-inspect as their users call them.
#include <doctest/doctest.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "base/npy.h"
#include "tests/command.h"
#include "tests/e2e/hand_made_package.h"

namespace rtx {
namespace {

template <typename T>
NpyArray array(DType dtype, std::vector<int64_t> shape, const std::vector<T>& values) {
  NpyArray result{dtype, std::move(shape), std::vector<std::byte>(values.size() * sizeof(T))};
  std::memcpy(result.bytes.data(), values.data(), result.bytes.size());
  return result;
}

struct Fixture {
  TempFolder folder;
  std::string package = folder / "m.rtxpkg";
  std::string x = folder / "x.npy", k = folder / "k.npy", sum = folder / "sum.npy", k2 = folder / "k2.npy";

  Fixture() {
    write_hand_made_package(package);
    REQUIRE(write_npy(x, array<float>(DType::f32, {1, 4}, {1, 2, 3, 4})).ok());
    REQUIRE(write_npy(k, array<int64_t>(DType::i64, {1}, {21})).ok());
    REQUIRE(write_npy(sum, array<float>(DType::f32, {1, 4}, {21, 42, 63, 84})).ok());
    REQUIRE(write_npy(k2, array<int64_t>(DType::i64, {1}, {42})).ok());
  }

  CommandResult run(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {RTX_RUN, package});
    return run_command(arguments);
  }
  // With both inputs given.
  CommandResult run_inputs(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {"--input=x=@" + x, "--input=k=@" + k});
    return run(std::move(arguments));
  }
};

bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

TEST_CASE("outputs are summed up on stdout, notes go to stderr") {
  const Fixture f;
  const CommandResult r = f.run_inputs({});
  CHECK(r.exit_code == 0);
  CHECK(r.out == "output sum f32[1, 4]: min 21, max 84, mean 52.5; 21 42 63 84\noutput k2 i64[1]: 42\n");
  CHECK(contains(r.err, "running on cpu"));
  CHECK(f.run_inputs({"--quiet"}).err.empty());
}

TEST_CASE("inputs come by name or by position, as files, values, raw bytes or one npz") {
  const Fixture f;
  const std::string expected = f.run_inputs({"--output-hash"}).out;
  CHECK(contains(expected, "output-hash sha256:"));
  const auto hash = [&](std::vector<std::string> arguments) {
    arguments.push_back("--output-hash");
    const CommandResult r = f.run(arguments);
    CAPTURE(r.err);
    CHECK(r.exit_code == 0);
    return r.out;
  };
  CHECK(hash({"--input", "@" + f.x, "--input", "@" + f.k}) == expected);
  CHECK(hash({"--input", "k=1xi64=21", "--input", "1x4xf32=1,2,3,4"}) == expected);
  f.folder.file("x.bin", std::string("\0\0\x80\x3f\0\0\0\x40\0\0\x40\x40\0\0\x80\x40", 16));
  CHECK(hash({"--input", "x=1x4xf32=@" + f.folder / "x.bin", "--input=k=@" + f.k}) == expected);
  const NpyArray x = array<float>(DType::f32, {1, 4}, {1, 2, 3, 4}), k = array<int64_t>(DType::i64, {1}, {21});
  const std::string npz = f.folder / "in.npz";
  REQUIRE(write_npz(npz, std::vector<std::pair<std::string, const NpyArray*>>{{"k", &k}, {"x", &x}}).ok());
  CHECK(hash({"--inputs", npz}) == expected);
  // A different value gives a different hash.
  CHECK(hash({"--inputs", npz, "--input", "k=1xi64=22"}) != expected);
}

TEST_CASE("outputs are written as npy and npz") {
  const Fixture f;
  const std::string out = f.folder / "out.npy", npz = f.folder / "out.npz";
  const CommandResult r = f.run_inputs({"--output=sum=@" + out, "--outputs", npz, "--output", "k2=-"});
  REQUIRE(r.exit_code == 0);
  CHECK(r.out == "output k2 i64[1]: 42\n");
  CHECK(read_npy(*File::open(out).value()).value().bytes == read_npy(*File::open(f.sum).value()).value().bytes);
  const auto arrays = NpzFile::open(File::open(npz).value()).value();
  CHECK(arrays->names() == std::vector<std::string>{"sum", "k2"});
  CHECK(f.run_inputs({"--output", "-"}).out == f.run_inputs({}).out);
}

TEST_CASE("expected outputs that match pass, one that differs exits with 10 and a table") {
  const Fixture f;
  const CommandResult same = f.run_inputs({"--expected_output", "sum=@" + f.sum, "--expected-output", "k2=@" + f.k2});
  CHECK(same.exit_code == 0);
  CHECK(contains(same.out, "ok"));

  REQUIRE(write_npy(f.sum, array<float>(DType::f32, {1, 4}, {21, 42, 63.5, 84})).ok());
  const CommandResult other = f.run_inputs({"--expected_output", "sum=@" + f.sum, "--expected_output", "k2=@" + f.k2});
  CHECK(other.exit_code == 10);
  CHECK(contains(other.out, "FAIL"));
  CHECK(contains(other.out, "[0, 2]: 63, expected 63.5"));
  CHECK(contains(other.err, "RTX-E1001"));
  CHECK(f.run_inputs({"--expected_output", "sum=@" + f.sum, "--atol", "0.5"}).exit_code == 0);
  CHECK(f.run_inputs({"--expected_output", "sum=@" + f.sum, "--atol", "0.4"}).exit_code == 10);
  CHECK(f.run_inputs({"--expected_output", "sum=@" + f.sum, "--rtol", "0.01"}).exit_code == 0);
  CHECK(f.run_inputs({"--expected_output", "sum=@" + f.sum, "--norm-tol", "0.01"}).exit_code == 0);
  CHECK(f.run_inputs({"--expected_output", "sum=@" + f.sum, "--norm-tol", "0.001"}).exit_code == 10);
  // Another shape is a mismatch, too.
  REQUIRE(write_npy(f.sum, array<float>(DType::f32, {4}, {21, 42, 63, 84})).ok());
  const CommandResult shape = f.run_inputs({"--expected_output", "sum=@" + f.sum});
  CHECK(shape.exit_code == 10);
  CHECK(contains(shape.err, "expected f32[4], got f32[1, 4]"));
}

TEST_CASE("random inputs follow seed and dims") {
  const Fixture f;
  const auto hash = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--random-inputs", "--output-hash"});
    const CommandResult r = f.run(arguments);
    CHECK(r.exit_code == 0);
    return r.out;
  };
  CHECK(hash({}) == hash({"--seed=0", "--dim", "batch=2"}));
  CHECK(hash({"--seed=1"}) != hash({"--seed=0"}));
  CHECK(hash({"--dim=batch=3"}) != hash({}));
  CHECK(contains(f.run({"--random-inputs", "--dim=batch=3"}).out, "f32[3, 4]"));
  CHECK(contains(f.run({"--random-inputs", "--dim=batch=1", "--int-range=k=7:8"}).out, "i64[1]: 14"));
  // The given input decides the dim of the made-up one.
  CHECK(contains(f.run({"--random-inputs", "--input=k=5xi64=1"}).out, "f32[5, 4]"));
}

TEST_CASE("a second program and bf16 inputs") {
  const Fixture f;
  const CommandResult r = f.run({"--program=half", "--input=3xbf16=1,1.5,-2"});
  CHECK(r.exit_code == 0);
  CHECK(r.out == "output d bf16[3]: min -4, max 3, mean 0.333333; 2 3 -4\n");
  CHECK(f.run({"--program=half", "--input=0xbf16="}).out == "output d bf16[0]: no elements\n");
}

TEST_CASE("iterations print a table of times") {
  const Fixture f;
  const CommandResult r = f.run_inputs({"--iterations=5", "--warmup=2"});
  CHECK(r.exit_code == 0);
  CHECK(contains(r.out, "p99"));
  CHECK(contains(r.out, "device"));
}

TEST_CASE("wrong use and wrong inputs say what was expected, with the right exit code") {
  const Fixture f;
  const auto expect = [&](std::vector<std::string> arguments, int exit_code, std::string_view id,
                          std::string_view part) {
    const CommandResult r = f.run(arguments);
    CAPTURE(arguments.empty() ? "" : arguments.back());
    CAPTURE(r.err);
    CHECK(r.exit_code == exit_code);
    CHECK(contains(r.err, id));
    CHECK(contains(r.err, part));
    CHECK(!contains(r.out, "output"));
  };
  const std::string x = "--input=x=@" + f.x, k = "--input=k=@" + f.k;
  expect({"--nonsense"}, 2, "RTX-E001", "--nonsense");
  expect({x}, 2, "RTX-E371", "no value for the input k");
  expect({x, k, "--input=z=@" + f.x}, 2, "RTX-E372", "one of: x, k");
  expect({x, "--input=k=1xi32=1"}, 3, "RTX-E373", "i64[batch]");
  expect({x, "--input=k=1x1xi64=1"}, 3, "RTX-E374", "i64[batch]");
  expect({"--input=x=1x5xf32=1", k}, 3, "RTX-E375", "expected: 4");
  expect({x, "--input=k=2xi64=1"}, 3, "RTX-E376", "two values for dim 'batch'");
  expect({"--input=x=9x4xf32=1", "--input=k=9xi64=1"}, 3, "RTX-E377", "batch from 1 to 8");
  expect({"--input=x=1x4xf32=1,2", k}, 2, "RTX-E007", "wrong number of elements");
  expect({"--input=x=1x4xf32=1,2,3,a", k}, 2, "RTX-E007", "'a' is no f32");
  expect({"--input=x=@/nonexistent.npy", k}, 9, "RTX-E901", "/nonexistent.npy");
  expect({"--input=x=1x4xf32=@" + f.x, k}, 3, "RTX-E379", "16 bytes");
  expect({x, k, "--program=other"}, 2, "RTX-E005", "main, half");
  expect({x, k, "--device=tpu"}, 2, "RTX-E008", "cuda:0");
  expect({x, k, "--dim=batch=2"}, 3, "RTX-E376", "the dim given by name");
  expect({x, k, "--dim=rows=2"}, 2, "RTX-E004", "batch, n");
  expect({x, k, "--deterministic"}, 7, "RTX-E711", "run_to_run");
  expect({x, k, "--outputs=/nonexistent/o.npz"}, 9, "RTX-E901", "/nonexistent");
  expect({"--random-inputs", "--int-range=5"}, 2, "RTX-E009", "LOW:HIGH");
  CHECK(run_command({RTX_RUN, f.folder / "absent"}).exit_code == 9);
  CHECK(run_command({RTX_RUN}).exit_code == 2);
}

TEST_CASE("a GPU named on a machine without one is an error of the device") {
  const Fixture f;
  const CommandResult r = f.run_inputs({"--device=cuda:99"});
  CHECK(r.exit_code == 7);
  CHECK((contains(r.err, "RTX-E702") || contains(r.err, "RTX-E708")));
}

TEST_CASE("diagnostics in JSON are one object a line") {
  const Fixture f;
  const CommandResult r = f.run({"--diagnostics-format=json", "--input=x=@" + f.x});
  CHECK(r.exit_code == 2);
  const auto object = nlohmann::json::parse(r.err, nullptr, false);
  REQUIRE(object.is_object());
  CHECK(r.err.find('\n') == r.err.size() - 1);
  CHECK(contains(r.err, "E371"));
}

TEST_CASE("one flipped byte in any file of the package is found before anything runs") {
  const Fixture f;
  for (const char* name : {"manifest.yaml", "weights.safetensors"}) {
    const std::string path = f.package + "/" + name;
    const std::string good = read_text_file(path, 1 << 20).value();
    for (size_t at = 0; at < good.size(); at += 1 + good.size() / 40) {
      std::string bad = good;
      bad[at] = static_cast<char>(bad[at] ^ 1);
      REQUIRE(write_file(path, bad).ok());
      const CommandResult r = f.run_inputs({});
      CAPTURE(name);
      CAPTURE(at);
      CHECK(r.exit_code == 6);
      CHECK(r.out.empty());
    }
    REQUIRE(write_file(path, good).ok());
  }
  CHECK(f.run_inputs({}).exit_code == 0);
}

TEST_CASE("--deterministic takes a package that promises it") {
  const Fixture f;
  package::Manifest manifest = hand_made_manifest();
  manifest.determinism = package::Determinism::batch_invariant;
  for (package::Kernel& kernel : manifest.kernels) kernel.determinism = package::Determinism::batch_invariant;
  write_hand_made_package(f.package, manifest);
  CHECK(f.run_inputs({"--deterministic"}).exit_code == 0);
}

TEST_CASE("--help and --version go to stdout, --list-devices ends with the CPU") {
  CHECK(contains(run_command({RTX_RUN, "--help"}).out, "--expected_output"));
  CHECK(run_command({RTX_RUN, "--version"}).out == std::string("rtx-run ") + RTX_VERSION + "\n");
  const CommandResult devices = run_command({RTX_RUN, "--list-devices", "--quiet"});
  CHECK(devices.exit_code == 0);
  CHECK(contains(devices.out, "cpu "));
}

TEST_CASE("rtx-run needs no library but libc") {
  if (RTX_SANITIZED) return;  // the sanitizers are libraries of their own
  const CommandResult r = run_command({"readelf", "-d", RTX_RUN});
  REQUIRE(r.exit_code == 0);
  int needed = 0;
  for (size_t at = r.out.find("(NEEDED)"); at != std::string::npos; at = r.out.find("(NEEDED)", at + 1)) {
    const std::string line = r.out.substr(at, r.out.find('\n', at) - at);
    CHECK_MESSAGE((contains(line, "[libc.so.6]") || contains(line, "[libm.so.6]") || contains(line, "[ld-linux")),
                  line);
    ++needed;
  }
  CHECK(needed > 0);
}

TEST_CASE("rtx-inspect shows the parts of a package") {
  const Fixture f;
  const CommandResult r = run_command({RTX_INSPECT, f.package, "--all", "--verify"});
  CHECK(r.exit_code == 0);
  for (const char* part :
       {"made by      hand", "archs        cpu device alone", "batch                    1 to 8, planned for 2",
        "1 tensors, 16 B, largest 'w' f32[4]", "program main (3 steps)", "f32[batch, 4]",
        "arena 256 B (lower bound 256 B", "0  add_w: arena[0] <- input x, weight 'w'", "from /layer.0/Add",
        "arena[0] at 0", "verified: every file matches its hash", "add_w (pointwise, run_to_run), 2 launches"})
    CHECK_MESSAGE(contains(r.out, part), part);
  CHECK(contains(run_command({RTX_INSPECT, f.package, "--dim=batch=8"}).out, "lower bound 256 B"));
  CHECK(run_command({RTX_INSPECT, f.package, "--dim=batch=9"}).exit_code == 3);
  CHECK(run_command({RTX_INSPECT, f.folder / "absent"}).exit_code == 9);
}

TEST_CASE("rtx-inspect lists a safetensors file and refuses a damaged one") {
  const Fixture f;
  const std::string path = f.package + "/weights.safetensors";
  const CommandResult whole = run_command({RTX_INSPECT, path});
  CHECK(whole.exit_code == 0);
  CHECK(contains(whole.out, "w f32[4] 16 bytes at "));
  const std::string bytes = read_text_file(path, 1 << 20).value();
  const std::string cut = f.folder / "cut.safetensors";
  REQUIRE(write_file(cut, std::string_view(bytes).substr(0, bytes.size() - 1)).ok());
  CHECK(run_command({RTX_INSPECT, cut}).exit_code == 6);
}

TEST_CASE("rtx-inspect --json is one object with everything") {
  const Fixture f;
  const CommandResult r = run_command({RTX_INSPECT, f.package, "--json"});
  CHECK(r.exit_code == 0);
  const auto root = nlohmann::json::parse(r.out, nullptr, false);
  REQUIRE(root.is_object());
  CHECK(root["programs"][0]["inputs"][0]["shape"] == nlohmann::json::parse(R"(["batch", 4])"));
  CHECK(root["programs"][0]["memory"]["chosen"]["arena_bytes"] == 256);
  CHECK(root["programs"][0]["memory"]["max"]["arena_lower_bound"] == 256);
  CHECK(root["programs"][0]["steps"][2]["origins"].size() == 2);
  CHECK(root["kernels"][0]["launches"] == 2);
  CHECK(root["weights"][0]["bytes"] == 16);
  CHECK(root["chosen_dims"]["batch"] == 2);
}

TEST_CASE("rtx-inspect --verify finds a damaged weights file that the plain view does not read") {
  const Fixture f;
  const std::string path = f.package + "/weights.safetensors";
  std::string bytes = read_text_file(path, 1 << 20).value();
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  REQUIRE(write_file(path, bytes).ok());
  CHECK(run_command({RTX_INSPECT, f.package}).exit_code == 0);
  CHECK(run_command({RTX_INSPECT, f.package, "--verify"}).exit_code == 6);
}

}  // namespace
}  // namespace rtx
