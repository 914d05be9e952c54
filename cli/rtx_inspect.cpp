// rtx-inspect: what is inside a package, or a weights file on its own.
#include <filesystem>

#include <fmt/core.h>

#include "base/safetensors.h"
#include "cli/inspect.h"
#include "cli/run_inputs.h"
#include "cli/tool.h"
#include "cli/why.h"

namespace rtx::cli {
namespace {

// The header of a safetensors file, checked as strictly as that of a package: a line for each tensor, in name order.
Result<void> inspect_weights(const std::string& path) {
  RTX_ASSIGN(const auto file, File::open(path));
  RTX_ASSIGN(const SafetensorsIndex index, read_safetensors_index(*file));
  for (const auto& [name, entry] : index)
    fmt::print("{} {} {} bytes at {}\n", escape_text(name), runtime::type_text(entry.dtype, entry.shape), entry.bytes,
               entry.offset);
  return Ok{};
}

int run(int argc, char** argv) {
  Tool tool("rtx-inspect", "Shows what is inside a compiled package, or a safetensors file.");
  std::string path;
  bool json = false, verify = false, all = false;
  Sections sections;
  std::vector<std::string> dims;
  std::string why, target;
  tool.app.add_option("package", path, "Package folder, or a safetensors file")->required();
  tool.app.add_flag("--json", json, "Print everything as one JSON object");
  tool.app.add_flag("--kernels", sections.kernels, "Add the kernels with what the compiler measured for each arch");
  tool.app.add_flag("--plan", sections.plan, "Add the steps: kernel, buffers, ONNX nodes they come from");
  tool.app.add_flag("--memory", sections.memory, "Add the pieces of the arena and a map of it, step by step");
  tool.app.add_flag("--weights", sections.weights, "Add the weights");
  tool.app.add_flag("--all", all, "Add all of these");
  tool.app
      .add_option(
          "--dim", dims,
          "NAME=SIZE of a named dim for memory and estimates (default: its opt, else its least size above 0; for "
          "--why, else 128 brought into its range). Repeatable")
      ->allow_extra_args(false);
  CLI::Option* const why_option =
      tool.app
          .add_option(
              "--why", why,
              "Print what was considered for each step and why it was taken or not, with estimates; for a step's "
              "number, a kernel's name or part of an ONNX node's name, for those alone")
          ->expected(0, 1)
          ->type_name("[STEP|KERNEL|NODE]");
  tool.app
      .add_option("--target", target,
                  "Architecture whose GPU the estimates are for (default: the package's first one, else sm_120)")
      ->type_name("ARCH");
  tool.app.add_flag("--verify", verify, "Check the hashes of all files, the weights included");
  return tool.run(argc, argv, [&]() -> Result<void> {
    std::error_code not_there;
    if (std::filesystem::is_regular_file(path, not_there)) return inspect_weights(path);
    RTX_ASSIGN(const package::Package package, package::open_package(path, {.verify_weights = verify}));
    RTX_ASSIGN(const runtime::SymbolValues values, parse_dims(dims));
    RTX_ASSIGN(const std::vector<int64_t> symbols, runtime::choose_symbols(package.manifest, values));
    RTX_ASSIGN(const package::Gpu gpu, choose_gpu(package.manifest, target));
    if (json) {
      fmt::print("{}\n", inspect_json(package, symbols, gpu));
      return Ok{};
    }
    if (why_option->count() > 0) {
      RTX_ASSIGN(const std::vector<int64_t> planned, planned_symbols(package.manifest, values));
      RTX_ASSIGN(const std::string text, why_text(package.manifest, planned, gpu, why));
      fmt::print("{}", text);
      return Ok{};
    }
    if (all) sections = {true, true, true, true};
    fmt::print("{}", inspect_text(package, symbols, sections));
    if (verify) fmt::print("verified: every file matches its hash\n");
    return Ok{};
  });
}

}  // namespace
}  // namespace rtx::cli

int main(int argc, char** argv) { return rtx::cli::run(argc, argv); }
