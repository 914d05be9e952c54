// rtx-opt: runs named passes on IR text.

#include <iostream>

#include "cli/tool.h"
#include "ir/module_file.h"
#include "ir/text.h"
#include "passes/pipeline.h"

namespace {

using namespace rtx;

struct Options {
  std::string input;
  std::string output = "-";
  std::vector<std::string> passes;
  bool canonical = false;
  bool list_passes = false;
  bool verify_each = true;
  bool print_after_all = false;
  bool time_passes = false;
  bool round_trip = false;
  std::string reproducer;
};

void list_passes() {
  for (const PassInfo& pass : all_passes())
    std::printf("%-32s %s\n", std::string(pass.name).c_str(), std::string(pass.summary).c_str());
}

Result<void> run(const Options& options) {
  if (options.list_passes) {
    list_passes();
    return Ok{};
  }
  if (options.input.empty()) return make_error(ErrorKind::usage, "E001", "no input file").with_help("see rtx-opt --help");
  RTX_ASSIGN(std::unique_ptr<Module> module, load_module(options.input));

  PassContext context;
  PipelineOptions pipeline;
  pipeline.verify_each = options.verify_each;
  pipeline.round_trip = options.round_trip;
  pipeline.reproducer = options.reproducer;
  pipeline.after_pass = [&](const Module& after, const PassTiming& timing) {
    if (options.print_after_all)
      std::cerr << "# --- after " << timing.name << (timing.changed ? "" : " (unchanged)") << " ---\n"
                << (timing.changed ? print(after) : "");
    if (options.time_passes) std::fprintf(stderr, "%10.3f ms  %s\n", timing.elapsed_ms, timing.name.c_str());
  };
  if (options.canonical) {
    RTX_TRY(run_canonical_pipeline(*module, context, pipeline));
  } else {
    const std::vector<std::string_view> names(options.passes.begin(), options.passes.end());
    RTX_TRY(run_passes(*module, names, context, pipeline));
  }

  if (options.output == "-") {
    std::cout << print(*module) << std::flush;
    return Ok{};
  }
  return save_module(*module, options.output);
}

}  // namespace

int main(int argc, char** argv) {
  rtx::cli::Tool tool("rtx-opt", "Runs passes on IR text, and prints or writes the result.");
  Options options;
  tool.app.add_option("input", options.input, "Module to read (.rtxir); '-' is the standard input");
  tool.app.add_option("-o,--output", options.output,
                      "Where the result goes: '-' prints it without weights; a file gets NAME.safetensors beside it")
      ->capture_default_str();
  auto* passes = tool.app.add_option("--passes", options.passes, "Passes to run, in order, separated by commas")->delimiter(',');
  tool.app.add_flag("--canonical", options.canonical, "Run the whole pipeline from stage imported to stage canonical")
      ->excludes(passes);
  tool.app.add_flag("--list-passes", options.list_passes, "Print the known passes and exit");
  tool.app.add_flag("--verify-each,!--no-verify-each", options.verify_each, "Verify after each pass (default: on)");
  tool.app.add_flag("--print-after-all", options.print_after_all, "Print the module to stderr after each pass that changed it");
  tool.app.add_flag("--time-passes", options.time_passes, "Print the milliseconds of each pass to stderr");
  tool.app.add_flag("--round-trip", options.round_trip, "After each pass, print, parse and print again: the texts must agree")
      ->envname("RTX_ROUND_TRIP");
  tool.app.add_option("--reproducer", options.reproducer, "If a pass fails, write the module before it to this file");
  return tool.run(argc, argv, [&] { return run(options); });
}
