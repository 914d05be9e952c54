#include <cstdio>

#include "runtime/cpu/cpu_device.h"
#include "runtime/model.h"
#include "runtime/session.h"

using namespace rtx;

// Runs a package on inputs from .npy files and returns its outputs.
Result<std::vector<runtime::HostTensor>> run(const std::string& package, std::span<char*> files) {
  std::vector<runtime::HostTensor> inputs;
  for (const char* path : files) {
    RTX_ASSIGN(auto file, File::open(path));
    RTX_ASSIGN(auto input, read_npy(*file));
    inputs.push_back(std::move(input));
  }
  auto device = runtime::make_cpu_device(/*threads=*/0);
  RTX_ASSIGN(auto model, runtime::Model::load(package, *device));
  RTX_ASSIGN(auto session, runtime::Session::create(*model));  // keep these three; run() as often as you like
  return session->run(inputs);
}

int main(int argc, char** argv) {
  if (argc < 2) return static_cast<int>(ErrorKind::usage);
  const auto outputs = run(argv[1], {argv + 2, argv + argc});
  if (!outputs.ok()) {
    for (const Diagnostic& diagnostic : outputs.error().diagnostics)
      std::fputs(to_string(diagnostic).c_str(), stderr);
    return static_cast<int>(outputs.error().first().kind);
  }
  for (const runtime::HostTensor& output : *outputs)
    std::printf("%s\n", runtime::type_text(output.dtype, output.shape).c_str());
}
