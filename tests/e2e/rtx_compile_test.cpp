// rtx-compile and rtx-conformance from the command line, on the committed models.

#include <doctest/doctest.h>

#include <filesystem>

#include "base/file.h"
#include "base/npy.h"
#include "base/sha256.h"
#include "base/text.h"
#include "tests/command.h"
#include "tests/unit/onnx_file.h"

namespace rtx::onnx {
namespace {

namespace fs = std::filesystem;

std::string fixture(std::string_view name) { return concat(RTX_TEST_DIR, "/fixtures/models/", name); }

CommandResult compile(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {RTX_COMPILE, "--no-kernel-cache"});
  return run_command(arguments);
}

// "name sha256" of every file of a folder, sorted.
std::vector<std::string> hashes(const std::string& folder) {
  std::vector<std::string> result;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const auto file = File::open(entry.path().string()).value();
    result.push_back(concat(entry.path().filename().string(), " ", sha256_hex(*file).value()));
  }
  std::sort(result.begin(), result.end());
  return result;
}

bool has_nvrtc() {
  const TempFolder folder;
  const CommandResult result = compile({fixture("vit.dyn20/model.onnx"), "--arch", "sm_80", "-o", folder / "p"});
  return result.err.find("RTX-E721") == std::string::npos;
}

TEST_CASE("compiling twice into two folders gives equal bytes") {
  const TempFolder one, two;
  for (const char* name : {"bert.dyn20", "llama_step.ts17"}) {
    const std::string model = concat(fixture(name), "/model.onnx");
    const CommandResult first = compile({model, "-o", one / name}),
                        second = compile({model, "-o", two / name, "--arch", "cpu"});
    REQUIRE_MESSAGE(first.exit_code == 0, first.err);
    REQUIRE_MESSAGE(second.exit_code == 0, second.err);
    CHECK(first.out.empty());
    CHECK(hashes(one / name) == hashes(two / name));
    CHECK(hashes(one / name).size() == 2);
  }
}

TEST_CASE("compiling for GPUs twice, with other job counts and orders of --arch, gives equal bytes") {
  if (!has_nvrtc()) {
    MESSAGE("skipped: no NVRTC");
    return;
  }
  const TempFolder folder;
  const std::string model = fixture("vit.dyn20/model.onnx");
  const CommandResult first = compile({model, "--arch", "sm_90a,sm_120", "-j", "1", "-o", folder / "a"});
  const CommandResult second = compile({model, "--arch", "sm_120", "--arch", "sm_90a", "-j", "2", "-o", folder / "b"});
  REQUIRE_MESSAGE(first.exit_code == 0, first.err);
  REQUIRE_MESSAGE(second.exit_code == 0, second.err);
  CHECK(hashes(folder / "a") == hashes(folder / "b"));
  CHECK(hashes(folder / "a").size() == 3);
  const std::string manifest = read_text_file(folder / "a/manifest.yaml", 1 << 24).value();
  CHECK(manifest.find("spill_bytes: 0") != std::string::npos);
}

TEST_CASE("--determinism=batch_invariant makes every kernel promise it, products too") {
  if (!has_nvrtc()) {
    MESSAGE("skipped: no NVRTC");
    return;
  }
  const TempFolder folder;
  const std::string model = fixture("gpt2.ts17/model.onnx");
  auto manifest_for = [&](const char* level) {
    const CommandResult result =
        compile({model, "--arch", "sm_120", "-o", folder / level, concat("--determinism=", level)});
    REQUIRE_MESSAGE(result.exit_code == 0, result.err);
    return read_text_file(concat(folder / level, "/manifest.yaml"), 1 << 24).value();
  };
  const std::string usual = manifest_for("run_to_run"), invariant = manifest_for("batch_invariant");
  CHECK(usual.find("determinism: run_to_run") != std::string::npos);
  CHECK(invariant.find("determinism: batch_invariant\n") != std::string::npos);
  CHECK(invariant.find("run_to_run") == std::string::npos);
  CHECK(invariant.find("    matmul: ") == std::string::npos);
}

TEST_CASE("a module that was imported first compiles to the same bytes as the ONNX file") {
  const TempFolder folder;
  const std::string model = fixture("distilbert.dyn20/model.onnx");
  REQUIRE(run_command({RTX_IMPORT, model, "-o", folder / "m.rtxir"}).exit_code == 0);
  REQUIRE(compile({folder / "m.rtxir", "-o", folder / "a"}).exit_code == 0);
  REQUIRE(compile({model, "-o", folder / "b"}).exit_code == 0);
  CHECK(hashes(folder / "a") == hashes(folder / "b"));
}

TEST_CASE("--dump-phases-to and --dump-kernels-to write the phases and the CUDA text") {
  const TempFolder folder;
  const CommandResult result = compile({fixture("bert.ts17/model.onnx"), "-o", folder / "p", "--dump-phases-to",
                                        folder / "phases", "--dump-kernels-to", folder / "kernels", "--time-passes"});
  REQUIRE_MESSAGE(result.exit_code == 0, result.err);
  for (const char* name : {"imported.rtxir", "canonical.rtxir", "fused.rtxir", "plan.txt"}) {
    CHECK(fs::file_size(folder / concat("phases/", name)) > 0);
  }
  CHECK(std::distance(fs::directory_iterator(folder / "kernels"), fs::directory_iterator()) > 5);
  CHECK(result.err.find("canonical") != std::string::npos);
}

TEST_CASE("--amp converts, says how much on stderr, and lists the casts where asked") {
  const TempFolder folder;
  const std::string model = fixture("vit.dyn20/model.onnx");
  const CommandResult plain = compile({model, "-o", folder / "f32"});
  REQUIRE_MESSAGE(plain.exit_code == 0, plain.err);
  CHECK(plain.err.find("amp") == std::string::npos);
  const CommandResult half = compile({model, "-o", folder / "f16", "--amp=fp16", "--amp-report", folder / "casts.txt"});
  REQUIRE_MESSAGE(half.exit_code == 0, half.err);
  CHECK(half.err.find("amp fp16: ") != std::string::npos);
  CHECK(half.err.find("weights stored in f16\n") != std::string::npos);
  const std::string report = read_text_file(folder / "casts.txt", 1 << 20).value();
  CHECK(report.find("\ncasts:\n  pixel_values: f32 to f16, an operand of conv of node") != std::string::npos);
  CHECK(report.find("\nattention                  2         0       0\n") != std::string::npos);
  // All large weights are products' operands, and half as large.
  const auto size = [&](const char* name) { return fs::file_size(folder / concat(name, "/weights.safetensors")); };
  CHECK(size("f16") < size("f32") * 0.62);

  const CommandResult kept = compile(
      {model, "-o", folder / "kept", "--amp=bf16", "--amp-report=-", "--keep-fp32=conv", "--keep-fp32", "attention"});
  REQUIRE_MESSAGE(kept.exit_code == 0, kept.err);
  CHECK(kept.err.find(": kept by the name attention\n") != std::string::npos);
  CHECK(kept.err.find(": kept by the name conv\n") != std::string::npos);
  CHECK(kept.err.find("weights stored in bf16:\n") != std::string::npos);
}

TEST_CASE("a model in half precision is left alone by --amp, to the byte") {
  const TempFolder folder;
  for (const char* name : {"whisper_encoder.half17", "bert.bf20"}) {
    const std::string model = concat(fixture(name), "/model.onnx");
    REQUIRE(compile({model, "-o", folder / "a"}).exit_code == 0);
    const CommandResult result = compile({model, "-o", folder / "b", "--amp=fp16"});
    REQUIRE_MESSAGE(result.exit_code == 0, result.err);
    CHECK(result.err.find("amp fp16: nothing converted to f16") != std::string::npos);
    CHECK(hashes(folder / "a") == hashes(folder / "b"));
  }
}

// Refused with this exit code and id, and without a package.
void check_refused(const TempFolder& folder, const CommandResult& result, int exit_code, std::string_view id) {
  CAPTURE(result.err);
  CHECK(result.exit_code == exit_code);
  CHECK(result.err.find(concat("[RTX-", id, "]")) != std::string::npos);
  CHECK(!fs::exists(folder / "p"));
}

TEST_CASE("what cannot be compiled gives a clear error, the right exit code and no package") {
  const TempFolder folder;
  const std::string model = fixture("vit.dyn20/model.onnx");
  check_refused(folder, compile({model}), 2, "E001");
  check_refused(folder, compile({model, "-o", folder / "p", "--arch", "sm_13"}), 4, "E411");
  check_refused(folder, compile({model, "-o", folder / "p", "--amp=fp8"}), 2, "E001");
  check_refused(folder, compile({model, "-o", folder / "p", "--keep-fp32=conv"}), 2, "E001");
  check_refused(folder, compile({model, "-o", folder / "p", "--amp=fp16", "--keep-fp32=covn"}), 2, "E014");
  check_refused(folder, compile({folder / "missing.onnx", "-o", folder / "p"}), 9, "E901");
  check_refused(folder, compile({folder.file("m.onnx", "not a model"), "-o", folder / "p"}), 3, "E101");
  check_refused(folder, compile({folder.file("m.rtxir", "rtxir 1\nstage fused\n"), "-o", folder / "p"}), 3, "E412");
  check_refused(
      folder,
      compile({folder.file(
                   "n.rtxir",
                   "rtxir 1\nstage imported\nfunc @main(%0 \"x\": tensor<[2], f32>) {\n  yield(%0)\n} outputs \"y\"\n"),
               "-o", folder / "p", "--dim", "x=3"}),
      2, "E001");
  proto::ModelProto unknown = relu_model();
  unknown.mutable_graph()->mutable_node(0)->set_op_type("Frobnicate");
  check_refused(folder, compile({folder.file("u.onnx", unknown.SerializeAsString()), "-o", folder / "p"}), 4, "E401");
}

TEST_CASE("a folder that is not a package is not replaced") {
  const TempFolder folder;
  fs::create_directory(folder / "mine");
  folder.file("mine/notes.txt", "keep");
  const CommandResult result = compile({fixture("vit.dyn20/model.onnx"), "-o", folder / "mine"});
  CHECK(result.exit_code != 0);
  CHECK(fs::exists(folder / "mine/notes.txt"));
}

TEST_CASE("--list-archs prints the architectures") {
  const CommandResult result = run_command({RTX_COMPILE, "--list-archs"});
  CHECK(result.exit_code == 0);
  for (const char* arch :
       {"sm_80\n", "sm_86\n", "sm_89\n", "sm_90a\n", "sm_100a\n", "sm_120\n", "sm_120a\n", "cpu\n"}) {
    CHECK(result.out.find(arch) != std::string::npos);
  }
}

TEST_CASE("rtx-conformance passes the committed models on the CPU device") {
  const TempFolder folder;
  const CommandResult result =
      run_command({RTX_CONFORMANCE, concat(RTX_TEST_DIR, "/fixtures/models"), "--json", folder / "r.json"});
  CHECK_MESSAGE(result.exit_code == 0, result.out);
  CHECK(result.out.find("22 passed, 0 failed, 0 skipped\n") != std::string::npos);
  CHECK(read_text_file(folder / "r.json", 1 << 20).value().find("\"status\": \"passed\"") != std::string::npos);
}

// Negative control: an output that is off by a little more than the tolerance.
TEST_CASE("rtx-conformance fails a model whose recorded outputs differ, with exit code 10") {
  const TempFolder folder;
  const std::string from = fixture("vit.dyn20");
  fs::create_directory(folder / "case");
  for (const char* name : {"model.onnx", "inputs.npz"})
    fs::copy(concat(from, "/", name), folder / concat("case/", name));
  const auto npz = NpzFile::open(File::open(from + "/outputs.npz").value()).value();
  NpyArray output = npz->read(npz->names()[0]).value();
  reinterpret_cast<float*>(output.bytes.data())[3] += 1e-3f;
  const std::pair<std::string, const NpyArray*> arrays[] = {{npz->names()[0], &output}};
  REQUIRE(write_npz(folder / "case/outputs.npz", arrays));
  const CommandResult result = run_command({RTX_CONFORMANCE, folder.path()});
  CHECK(result.exit_code == 10);
  CHECK(result.out.find("0 passed, 1 failed, 0 skipped\n") != std::string::npos);
  CHECK(result.out.find("1 of ") != std::string::npos);
}

}  // namespace
}  // namespace rtx::onnx
