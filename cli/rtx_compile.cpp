// rtx-compile: a module (.rtxir) or an ONNX model to a package.

#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "base/file.h"
#include "cli/amp_options.h"
#include "cli/dim_options.h"
#include "cli/import_options.h"
#include "cli/progress.h"
#include "cli/report.h"
#include "cli/tool.h"
#include "codegen/arch.h"
#include "codegen/build_package.h"
#include "codegen/nvrtc_worker.h"
#include "codegen/tuning_table.h"
#include "ir/export_form.h"
#include "ir/module_file.h"
#include "runtime/package/yaml.h"

namespace rtx::cli {
namespace {

namespace fs = std::filesystem;

struct Options {
  std::string input, output;
  std::vector<std::string> archs, specializations;
  std::string dump_phases, dump_kernels, kernel_cache, tuning_table, report;
  std::string determinism = "run_to_run";
  int jobs = 0;
  bool no_kernel_cache = false, list_archs = false, time_passes = false;
  bool strip_metadata = false;
  Progress progress;
  OnnxOptions onnx;
  AmpOptions amp;
};

std::string default_kernel_cache() {
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache && *cache) return concat(cache, "/rtx/kernels");
  if (const char* home = std::getenv("HOME"); home && *home) return concat(home, "/.cache/rtx/kernels");
  return {};
}

Result<std::unique_ptr<Module>> load(const Tool& tool, const Options& options) {
  if (options.input.ends_with(".onnx")) {
    RTX_ASSIGN(const OnnxInput onnx, read_onnx(options.input, options.onnx));
    RTX_ASSIGN(onnx::ImportResult imported, onnx::import_model(onnx.model, onnx.import));
    for (const Diagnostic& warning : imported.warnings) tool.print(warning);
    return std::move(imported.module);
  }
  RTX_ASSIGN(std::unique_ptr<Module> module, load_module(options.input));
  RTX_TRY(apply_ranges(*module, options.onnx));
  return module;
}

// "sm_120,cpu" and repeated options; "cpu" stands for the bodies that every package holds. In order of capability, so
// that the order on the command line does not matter.
Result<std::vector<std::string>> chosen_archs(const Options& options) {
  for (const std::string& arch : options.archs) {
    if (arch != "cpu") RTX_TRY(codegen::find_arch(arch));
  }
  std::vector<std::string> chosen;
  for (const codegen::Arch& arch : codegen::list_archs()) {
    if (std::find(options.archs.begin(), options.archs.end(), arch.name) != options.archs.end())
      chosen.emplace_back(arch.name);
  }
  return chosen;
}

Result<void> write_dump(const Options& options, std::string_view name, std::string_view text) {
  const bool is_kernel = name.starts_with("kernels/");
  const std::string& folder = is_kernel ? options.dump_kernels : options.dump_phases;
  if (folder.empty()) return Ok{};
  std::error_code error;
  fs::create_directories(folder, error);
  if (error)
    return make_error(ErrorKind::io, "E901", concat("cannot make the folder '", folder, "': ", error.message()));
  return write_file(concat(folder, "/", is_kernel ? name.substr(name.find('/') + 1) : name), text);
}

// Of the package that was just written, at the sizes that it is planned for.
Result<void> write_report(const Options& options, std::span<const ImportedOp> imported) {
  RTX_ASSIGN(const package::Package package, package::open_package(options.output, {.verify_weights = false}));
  RTX_ASSIGN(const std::vector<int64_t> symbols, planned_symbols(package.manifest, {}));
  RTX_ASSIGN(const package::Gpu gpu, choose_gpu(package.manifest, {}));
  const fs::path model(options.input);
  const bool is_folder_named = model.stem() == "model" && model.has_parent_path();
  const std::string title = (is_folder_named ? model.parent_path().filename() : model.stem()).string();
  return write_file(options.report, report_html({title, imported, package, symbols, gpu}));
}

Result<void> run(const Tool& tool, Options& options) {
  if (options.list_archs) {
    for (const codegen::Arch& arch : codegen::list_archs()) fmt::print("{}\n", arch.name);
    fmt::print("cpu\n");
    return Ok{};
  }
  if (options.input.empty() || options.output.empty()) {
    return make_error(ErrorKind::usage, "E001", "a model and --output are required")
        .with_help("see rtx-compile --help");
  }
  RTX_TRY(check_amp_options(options.amp));
  codegen::BuildOptions build;
  build.amp = options.amp.dtype();
  build.keep_f32 = options.amp.keep_f32;
  build.precision_report = &options.amp.result;
  RTX_ASSIGN(build.archs, chosen_archs(options));
  RTX_ASSIGN(build.specializations, parse_specializations(options.specializations));
  build.determinism = *package::parse_determinism(options.determinism);
  build.jobs = options.jobs > 0 ? options.jobs : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  if (!options.no_kernel_cache)
    build.kernel_cache = options.kernel_cache.empty() ? default_kernel_cache() : options.kernel_cache;
  std::optional<codegen::TuningTable> tuning;
  if (!options.tuning_table.empty()) {
    RTX_ASSIGN(const std::string text, read_text_file(options.tuning_table, package::largest_yaml_bytes));
    RTX_ASSIGN(tuning, codegen::TuningTable::parse(text, fs::path(options.tuning_table).filename().string()));
    build.tuning = &*tuning;
  }
  build.on_warning = [&](const Diagnostic& warning) { tool.print(warning); };
  if (!options.dump_phases.empty() || !options.dump_kernels.empty()) {
    build.dump = [&](std::string_view name, std::string_view text) { return write_dump(options, name, text); };
  }
  if (options.time_passes) {
    build.on_phase = [](std::string_view phase, double ms) { fmt::print(stderr, "{:<34} {:>10.2f} ms\n", phase, ms); };
  }
  build.on_kernel = [&](size_t done, size_t all) { options.progress.count("compiling kernels", done, all); };
  build.on_weights = [&](int64_t done, int64_t all) { options.progress.bytes("writing weights", done, all); };
  RTX_ASSIGN(std::unique_ptr<Module> module, load(tool, options));
  if (options.strip_metadata) strip_metadata(*module);
  const std::vector<ImportedOp> imported =
      options.report.empty() ? std::vector<ImportedOp>() : imported_operations(*module);
  RTX_TRY(codegen::build_package(*module, options.output, build));
  if (!options.report.empty()) RTX_TRY(write_report(options, imported));
  return write_amp_report(options.amp);
}

int main_of_compile(int argc, char** argv) {
  if (argc == 3 && argv[1] == codegen::nvrtc_worker_argument) return codegen::nvrtc_worker_main(argv[2]);
  Tool tool("rtx-compile", "Compiles a module (.rtxir) or an ONNX model (.onnx) to a package.");
  Options options;
  tool.app.add_option("model", options.input, ".rtxir or .onnx file");
  tool.app.add_option("-o,--output", options.output, "Folder of the package; an older package there is replaced")
      ->type_name("DIR");
  tool.app
      .add_option(
          "--arch", options.archs,
          "GPU architectures to make machine code for, separated by commas; 'cpu' (the default): none, the package "
          "then runs on the CPU device alone")
      ->delimiter(',');
  tool.app
      .add_option(
          "--determinism", options.determinism,
          "What equal inputs give on a GPU: run_to_run (the default), equal bits in every run; batch_invariant, "
          "also for each row whatever else is in its batch, by own kernels for all matrix products")
      ->check(CLI::IsMember({"run_to_run", "batch_invariant"}));
  tool.app
      .add_option("--specialize", options.specializations,
                  "NAME=N,NAME=N: adds a variant of each program with these dims constant, which runs instead of the "
                  "general one where the sizes are these; may be repeated")
      ->type_name("DIMS")
      ->allow_extra_args(false);
  add_amp_options(tool.app, options.amp);
  tool.app.add_flag("--list-archs", options.list_archs, "Print the architectures and exit");
  tool.app.add_option("-j,--jobs", options.jobs, "Compiler processes at once (default: one a processor)")
      ->check(CLI::NonNegativeNumber);
  tool.app
      .add_option("--kernel-cache", options.kernel_cache,
                  "Folder that keeps compiled kernels (default: rtx/kernels in $XDG_CACHE_HOME or ~/.cache)")
      ->type_name("DIR");
  tool.app.add_flag("--no-kernel-cache", options.no_kernel_cache, "Compile every kernel anew");
  tool.app
      .add_option("--dump-phases-to", options.dump_phases,
                  "Write the IR after each phase and the plan into this folder")
      ->type_name("DIR");
  tool.app.add_option("--dump-kernels-to", options.dump_kernels, "Write the CUDA text of each kernel into this folder")
      ->type_name("DIR");
  tool.app
      .add_option(
          "--report", options.report,
          "Write a page of HTML that shows the package: a layer before and after, kernels, roofline, memory, and "
          "why each step is what it is")
      ->type_name("FILE.html");
  tool.app
      .add_option("--tuning-table", options.tuning_table,
                  "Plans to take for the products that this file names (docs/tuning_table.md)")
      ->type_name("FILE");
  tool.app.add_flag("--time-passes", options.time_passes, "Print the time of each phase on stderr");
  tool.app.add_flag(
      "--strip-metadata", options.strip_metadata,
      "Leave out the names of ONNX nodes, modules and values, and number the weights; the names of inputs, "
      "outputs and dims stay");
  options.progress.add_option(tool.app);
  add_onnx_options(tool.app, options.onnx);
  return tool.run(argc, argv, [&] { return run(tool, options); });
}

}  // namespace
}  // namespace rtx::cli

int main(int argc, char** argv) { return rtx::cli::main_of_compile(argc, argv); }
