// Compiles with NVRTC, where there is one; skipped, not passed, elsewhere. This program is also its own worker.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/file.h"
#include "base/text.h"
#include "codegen/arch.h"
#include "codegen/fatbin.h"
#include "codegen/nvrtc.h"
#include "codegen/nvrtc_library.h"
#include "codegen/nvrtc_worker.h"
#include "runtime/package/fatbin.h"
#include "tests/temp_folder.h"

int main(int argc, char** argv) {
  if (argc == 3 && argv[1] == rtx::codegen::nvrtc_worker_argument) {
    return rtx::codegen::nvrtc_worker_main(argv[2]);
  }
  return doctest::Context(argc, argv).run();
}

namespace rtx::codegen {
namespace {

namespace fs = std::filesystem;

// Says why the rest of a case does not run.
#define REQUIRE_NVRTC()                                    \
  if (const auto nvrtc = find_nvrtc(""); !nvrtc) {         \
    MESSAGE("skipped: " << nvrtc.error().first().message); \
    return;                                                \
  }

std::vector<KernelSource> sample_kernels(int count) {
  std::vector<KernelSource> kernels;
  for (int i = 0; i < count; ++i) {
    kernels.push_back(
        {concat("pointwise_", i), concat("extern \"C\" __global__ void __launch_bounds__(256) pointwise_", i,
                                         "(const float* x, float* y, long long n) {\n"
                                         "  __shared__ float s[256];\n"
                                         "  long long i = blockIdx.x * 256LL + threadIdx.x;\n"
                                         "  s[threadIdx.x] = i < n ? x[i] : 0.0f;\n"
                                         "  __syncthreads();\n"
                                         "  if (i < n) y[i] = expf(s[255 - threadIdx.x]) + ",
                                         i, ".0f;\n}\n")});
  }
  return kernels;
}

bool equal(const std::vector<std::vector<CompiledKernel>>& a, const std::vector<std::vector<CompiledKernel>>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    return std::equal(x.begin(), x.end(), y.begin(), y.end(), [](const CompiledKernel& p, const CompiledKernel& q) {
      return p.cubin == q.cubin && p.resources == q.resources;
    });
  });
}

TEST_CASE("kernels compile to the same bytes with one and with two workers, and from the cache") {
  REQUIRE_NVRTC();
  const TempFolder folder;
  const auto kernels = sample_kernels(3);
  const std::vector<std::string> archs = {"sm_80", "sm_90a", "sm_120"};
  CompileOptions options;
  size_t last_done = 0;
  options.on_progress = [&](size_t done, size_t all) {
    CHECK(done == ++last_done);
    CHECK(all == 9);
  };
  const auto one = compile_kernels(kernels, archs, options);
  if (!one) FAIL_CHECK(to_string(one.error().first()));
  REQUIRE(one.ok());
  CHECK(last_done == 9);
  REQUIRE(one->size() == 3);
  REQUIRE(one->at(1).size() == 3);
  CHECK(one->at(1)[2].resources.arch == "sm_120");
  CHECK(one->at(1)[2].resources.registers > 4);
  CHECK(one->at(1)[2].resources.shared_bytes >= 1024);
  CHECK(one->at(0)[0].cubin != one->at(0)[1].cubin);
  CHECK(one->at(0)[0].cubin != one->at(1)[0].cubin);

  options.jobs = 2;
  options.on_progress = nullptr;
  options.cache_dir = folder / "cache";
  CompileStatistics cold, warm, repaired;
  // Variables of the user's environment that would change the code do not reach the compiler.
  setenv("NVRTC_APPEND_FLAGS", "--device-debug", 1);
  const auto two = compile_kernels(kernels, archs, options, &cold);
  unsetenv("NVRTC_APPEND_FLAGS");
  REQUIRE(two.ok());
  CHECK(equal(*one, *two));
  CHECK(cold.compiled == 9);
  const auto cached = compile_kernels(kernels, archs, options, &warm);
  REQUIRE(cached.ok());
  CHECK(equal(*one, *cached));
  CHECK(warm.compiled == 0);
  CHECK(warm.cached == 9);

  // A damaged entry is compiled again.
  const fs::path entry =
      *std::find_if(fs::recursive_directory_iterator(folder / "cache"), fs::recursive_directory_iterator(),
                    [](const fs::directory_entry& e) { return e.is_regular_file(); });
  TempFolder::write(entry, "rtxkern1 damaged");
  const auto again = compile_kernels(kernels, archs, options, &repaired);
  REQUIRE(again.ok());
  CHECK(equal(*one, *again));
  CHECK(repaired.compiled == 1);
}

TEST_CASE("processes that share a cache at the same time do not disturb each other") {
  REQUIRE_NVRTC();
  const TempFolder folder;
  const auto kernels = sample_kernels(4);
  const std::vector<std::string> archs = {"sm_120"};
  CompileOptions options;
  options.cache_dir = folder / "cache";
  std::vector<pid_t> children;
  for (int i = 0; i < 2; ++i) {
    const pid_t child = fork();
    if (child == 0) _exit(compile_kernels(kernels, archs, options).ok() ? 0 : 1);
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = -1;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(status == 0);
  }
  CompileStatistics statistics;
  CHECK(compile_kernels(kernels, archs, options, &statistics).ok());
  CHECK(statistics.cached == 4);
  for (const auto& entry : fs::recursive_directory_iterator(folder / "cache")) {
    CHECK(entry.path().filename().string().find("partial") == std::string::npos);
  }
}

TEST_CASE("a kernel that does not compile is named, with the compiler's words, and others are reported too") {
  REQUIRE_NVRTC();
  auto kernels = sample_kernels(4);
  kernels[1].text = "extern \"C\" __global__ void k() { undefined_thing(); }\n";
  kernels[3].text = "#include <no_such_header.h>\n";
  CompileOptions options;
  options.jobs = 2;
  const auto result = compile_kernels(kernels, std::vector<std::string>{"sm_90a", "sm_120"}, options);
  REQUIRE(!result.ok());
  const auto& diagnostics = result.error().diagnostics;
  REQUIRE(diagnostics.size() == 2);
  CHECK(diagnostics[0].id == "E722");
  CHECK(diagnostics[0].where == "kernel 'pointwise_1' for sm_90a");
  CHECK(diagnostics[0].notes[0].find("undefined_thing") != std::string::npos);
  CHECK(diagnostics[0].notes[0].find("kernel.cu(1)") != std::string::npos);
  CHECK(diagnostics[1].where == "kernel 'pointwise_3' for sm_90a");
}

TEST_CASE("an unknown architecture is refused before anything runs") {
  CompileOptions options;
  options.worker_program = "/no/such/program";
  const auto result = compile_kernels(sample_kernels(1), std::vector<std::string>{"sm_120", "sm_13"}, options);
  REQUIRE(!result.ok());
  CHECK(result.error().first().id == "E411");
}

TEST_CASE("a missing NVRTC is explained") {
  CompileOptions options;
  options.nvrtc_path = "/no/such/folder";
  const auto result = compile_kernels(sample_kernels(1), std::vector<std::string>{"sm_120"}, options);
  REQUIRE(!result.ok());
  CHECK(result.error().first().id == "E721");
  CHECK(result.error().first().kind == ErrorKind::device);
  CHECK(result.error().first().notes[0] == "looked in /no/such/folder");
  CHECK(result.error().first().help.find("pip install") != std::string::npos);
}

TEST_CASE("a library that is not NVRTC is explained") {
  const TempFolder folder;
  CompileOptions options;
  options.nvrtc_path = folder.file("libnvrtc.so.13", "not a library");
  const auto result = compile_kernels(sample_kernels(2), std::vector<std::string>{"sm_120"}, options);
  REQUIRE(!result.ok());
  CHECK(result.error().first().id == "E721");
  CHECK(result.error().diagnostics.size() == 1);
}

TEST_CASE("a compiler process that dies costs an error that names the kernel, not the tool") {
  auto result_of = [](const std::string& program, const std::string& library) {
    const TempFolder folder;
    CompileOptions options;
    options.jobs = 2;
    options.worker_program = program;
    options.nvrtc_path = library;
    return compile_kernels(sample_kernels(3), std::vector<std::string>{"sm_120"}, options);
  };
  const TempFolder folder;
  const std::string library = folder.file("libnvrtc.so.13", "");
  const std::string killed = folder.file("killed", "#!/bin/sh\nkill -9 $$\n"),
                    quits = folder.file("quits", "#!/bin/sh\nexit 3\n"),
                    babbles = folder.file("babbles", "#!/bin/sh\necho this is no answer >&0\nexec sleep 60\n");
  for (const std::string& program : {killed, quits, babbles}) fs::permissions(program, fs::perms::owner_all);
  const auto by_signal = result_of(killed, library);
  REQUIRE(!by_signal.ok());
  REQUIRE(by_signal.error().diagnostics.size() == 3);
  CHECK(by_signal.error().first().id == "E723");
  CHECK(by_signal.error().first().where == "kernel 'pointwise_0' for sm_120");
  CHECK(by_signal.error().first().message == "the compiler process was killed by signal 9 (Killed)");
  const auto by_exit = result_of(quits, library);
  REQUIRE(!by_exit.ok());
  CHECK(by_exit.error().first().message == "the compiler process ended with exit code 3");
  CHECK(result_of(babbles, library).error().first().id == "E723");
  CHECK(result_of("/no/such/program", library).error().first().id == "E901");
}

TEST_CASE("a cache that cannot be used is a warning, not an error") {
  REQUIRE_NVRTC();
  const TempFolder folder;
  CompileOptions options;
  options.cache_dir = folder.file("file", "") + "/cache";
  int warnings = 0;
  options.on_warning = [&](const Diagnostic& diagnostic) {
    ++warnings;
    CHECK(diagnostic.severity == Severity::warning);
  };
  CHECK(compile_kernels(sample_kernels(1), std::vector<std::string>{"sm_120"}, options).ok());
  CHECK(warnings == 1);
}

TEST_CASE("no kernels or no architectures need no compiler") {
  CompileOptions options;
  options.nvrtc_path = "/no/such/folder";
  CHECK(compile_kernels({}, std::vector<std::string>{"sm_120"}, options)->empty());
  CHECK(compile_kernels(sample_kernels(2), {}, options)->size() == 2);
}

TEST_CASE("every architecture in the list compiles and goes into one fatbin") {
  REQUIRE_NVRTC();
  std::vector<std::string> archs;
  for (const Arch& arch : list_archs()) archs.emplace_back(arch.name);
  CompileOptions options;
  options.jobs = 2;
  const auto start = std::chrono::steady_clock::now();
  const auto kernels = compile_kernels(sample_kernels(1), archs, options);
  if (!kernels) FAIL_CHECK(to_string(kernels.error().first()));
  REQUIRE(kernels.ok());
  MESSAGE(archs.size() << " compiles in "
                       << std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count()
                       << " ms with 2 workers");
  std::vector<FatbinImage> images;
  for (const CompiledKernel& kernel : kernels->front()) images.push_back({kernel.resources.arch, kernel.cubin});
  const auto fatbin = make_fatbin(images);
  REQUIRE(fatbin.ok());
  const auto containers = package::read_fatbins(*fatbin);
  REQUIRE(containers.ok());
  REQUIRE(containers->front().entries.size() == archs.size());
  for (size_t i = 0; i < archs.size(); ++i) CHECK(containers->front().entries[i].arch == archs[i]);
#ifdef RTX_FATBINARY
  // NVIDIA's own tool makes the same bytes of the same cubins.
  const TempFolder folder;
  std::string command = concat(RTX_FATBINARY, " -64 --create ", folder / "reference");
  for (const CompiledKernel& kernel : kernels->front()) {
    const std::string& arch = kernel.resources.arch;
    folder.file(arch, std::string_view(reinterpret_cast<const char*>(kernel.cubin.data()), kernel.cubin.size()));
    command += concat(" --image3=kind=elf,sm=", arch.substr(3), ",file=", folder / arch);
  }
  REQUIRE(std::system(command.c_str()) == 0);
  CHECK(*read_text_file(folder / "reference", 1 << 24) ==
        std::string_view(reinterpret_cast<const char*>(fatbin->data()), fatbin->size()));
#endif
}

}  // namespace
}  // namespace rtx::codegen
