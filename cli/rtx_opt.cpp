// rtx-opt: runs passes on the text form of a module.

#include <cstdio>
#include <filesystem>

#include "base/file.h"
#include "cli/amp_options.h"
#include "cli/reduce_options.h"
#include "cli/tool.h"
#include "ir/equivalence.h"
#include "ir/module_file.h"
#include "ir/op_docs.h"
#include "ir/text.h"
#include "passes/pipeline.h"

namespace {

using rtx::ErrorKind;
using rtx::Result;

struct Arguments {
  std::string input = "-", output = "-", weights, passes, reproducer;
  bool list_passes = false, list_ops = false, print_after_all = false, print_after_change = false;
  bool verify_each = true, time_passes = false, round_trip = false, reproduce = false;
  rtx::PassContext limits;
  rtx::cli::AmpOptions amp;
  rtx::cli::ReduceOptions reduce;
};

constexpr int64_t max_text_bytes = int64_t{1} << 30;

Result<std::string> read_input(const std::string& path) {
  if (path != "-") return rtx::read_text_file(path, max_text_bytes);
  std::string text;
  char buffer[65536];
  for (size_t count; (count = std::fread(buffer, 1, sizeof buffer, stdin)) > 0;) {
    text.append(buffer, count);
    if (static_cast<int64_t>(text.size()) > max_text_bytes) {
      return rtx::make_error(ErrorKind::limit, "E501", "the standard input is too long").with_expected("at most 1 GiB");
    }
  }
  return text;
}

// Opens the weights of the module: the named file, which must exist, or the one beside the input, which may be missing.
Result<void> attach_weights(rtx::Module& module, const Arguments& arguments) {
  std::string path = arguments.weights;
  if (path.empty()) {
    if (arguments.input == "-") return rtx::Ok{};
    path = rtx::weights_path(arguments.input);
    if (!std::filesystem::exists(path)) return rtx::Ok{};
  }
  RTX_ASSIGN(module.weights, rtx::WeightStore::open(path));
  return rtx::Ok{};
}

// The weights that operations name and whose data is there.
std::vector<std::string> stored_weights(const rtx::Module& module) {
  std::vector<std::string> names = rtx::used_weights(module);
  std::erase_if(names, [&](const std::string& name) { return !module.weights->find(name); });
  return names;
}

// Beside the output, unless the output goes to stdout. Weights that folding made are then lost, which is said.
Result<void> write_weights(const rtx::Module& module, const Arguments& arguments, const rtx::cli::Tool& tool) {
  std::vector<std::string> names = stored_weights(module);
  if (names.empty()) return rtx::Ok{};
  if (arguments.output == "-") {
    bool folded = false;
    for (const std::string& name : names) folded = folded || module.weights->find(name)->memory != nullptr;
    if (folded) {
      rtx::Diagnostic warning = rtx::make_error(ErrorKind::usage, "E012", "folded weights are not written to stdout");
      warning.severity = rtx::Severity::warning;
      tool.print(warning.with_help("use -o FILE; the weights go beside it"));
    }
    return rtx::Ok{};
  }
  RTX_ASSIGN(auto written, module.weights->write(rtx::weights_path(arguments.output), names));
  (void)written;
  return rtx::Ok{};
}

Result<void> write_module(const rtx::Module& module, const Arguments& arguments, const rtx::cli::Tool& tool) {
  RTX_TRY(write_weights(module, arguments, tool));
  const std::string printed = rtx::print(module);
  if (arguments.output != "-") return rtx::write_file(arguments.output, printed);
  std::fwrite(printed.data(), 1, printed.size(), stdout);
  return rtx::Ok{};
}

void print_timings(const rtx::PipelineReport& report) {
  std::fprintf(stderr, "%10s  %9s  %9s  %s\n", "ms", "ops", "ops after", "pass");
  int64_t total = 0;
  for (const rtx::PassTiming& timing : report.timings) {
    total += timing.elapsed_ns;
    std::fprintf(stderr, "%10.3f  %9zu  %9zu  %s%s\n", static_cast<double>(timing.elapsed_ns) / 1e6,
                 timing.operations_before, timing.operations_after, timing.name.c_str(),
                 timing.changed ? "" : " (unchanged)");
  }
  std::fprintf(stderr, "%10.3f  total\n", static_cast<double>(total) / 1e6);
}

void print_passes() {
  for (const rtx::PassEntry& pass : rtx::all_passes()) {
    std::printf("%-32s %s\n", std::string(pass.name).c_str(), std::string(pass.summary).c_str());
  }
  const auto print_pipeline = [](const char* name, std::span<const std::string_view> passes) {
    std::printf("%-32s = %s\n", name, rtx::join(passes, ",", [](std::string_view pass) { return pass; }).c_str());
  };
  print_pipeline("canonical", rtx::canonical_pipeline());
  print_pipeline("optimize", rtx::optimize_pipeline());
  print_pipeline("precision", rtx::precision_pipeline());
}

Result<void> optimize(Arguments& arguments, const rtx::cli::Tool& tool) {
  RTX_ASSIGN(std::string text, read_input(arguments.input));
  std::string list = arguments.passes;
  if (arguments.reproduce) {
    list = rtx::reproducer_passes(text);
    if (list.empty()) {
      return rtx::make_error(ErrorKind::usage, "E013", "the file is not a reproducer").with_where(arguments.input);
    }
  }
  RTX_ASSIGN(std::vector<std::string> names, rtx::parse_pass_list(list));
  RTX_ASSIGN(std::unique_ptr<rtx::Module> module,
             rtx::parse_module(text, arguments.input == "-" ? "<stdin>" : arguments.input));
  RTX_TRY(attach_weights(*module, arguments));

  rtx::PipelineOptions options;
  options.verify_each = arguments.verify_each;
  options.round_trip = arguments.round_trip;
  options.reproducer_path = arguments.reproducer;
  options.context = arguments.limits;
  RTX_TRY(check_amp_options(arguments.amp));
  options.context.half = arguments.amp.dtype().value_or(rtx::DType::f16);
  options.context.keep_f32 = arguments.amp.keep_f32;
  options.context.precision_report = &arguments.amp.result;
  if (arguments.reduce.reduce) {
    rtx::fill_weights(*module);
    RTX_ASSIGN(module, rtx::cli::reduce(*module, names, options, arguments.reduce));
    return write_module(*module, arguments, tool);
  }
  auto print_after = [](std::string_view pass, const rtx::Module& changed) {
    std::fprintf(stderr, "# after %s\n%s", std::string(pass).c_str(), rtx::print(changed).c_str());
  };
  if (arguments.print_after_all) options.print_after_all = print_after;
  if (arguments.print_after_change) options.print_after_change = print_after;
  RTX_ASSIGN(rtx::PipelineReport report, rtx::run_pipeline(*module, names, std::move(options)));
  for (const rtx::Diagnostic& remark : report.remarks) tool.print(remark);
  if (arguments.time_passes) print_timings(report);
  RTX_TRY(write_amp_report(arguments.amp));

  return write_module(*module, arguments, tool);
}

}  // namespace

int main(int argc, char** argv) {
  rtx::cli::Tool tool("rtx-opt", "Runs passes on the text form of a module.");
  Arguments arguments;
  CLI::App& app = tool.app;
  app.add_option("module", arguments.input, "IR file, or - for stdin")->capture_default_str();
  app.add_option("-o,--output", arguments.output, "Where the IR goes, or - for stdout; weights go beside a file")
      ->capture_default_str();
  app.add_option(
      "--passes", arguments.passes,
      "Passes to run, separated by commas; 'canonical', 'optimize' and 'precision' stand for their pipelines (default: "
      "none, only verify)");
  app.add_option("--weights", arguments.weights,
                 "The safetensors file of the module (default: the one of the same name beside it, if there)");
  rtx::cli::add_amp_options(app, arguments.amp);
  rtx::cli::add_reduce_options(app, arguments.reduce);
  app.add_flag("--list-passes", arguments.list_passes, "Print the passes and exit");
  app.add_flag("--list-ops", arguments.list_ops, "Print the operations as Markdown and exit");
  app.add_flag("--print-after-all", arguments.print_after_all, "Print the IR to stderr after each pass");
  app.add_flag("--print-after-change", arguments.print_after_change,
               "Print the IR to stderr after each pass that changed something");
  app.add_flag("--verify-each,!--no-verify-each", arguments.verify_each, "Verify after each pass (default: on)");
  app.add_flag("--time-passes", arguments.time_passes, "Print the time of each pass, in milliseconds, to stderr");
  app.add_flag("--round-trip", arguments.round_trip,
               "Print and parse after each pass and compare (default: on if RTX_ROUND_TRIP=1)");
  app.add_option("--write-reproducer", arguments.reproducer,
                 "Where a failing pass leaves its input and the remaining passes (default: nowhere)");
  app.add_flag("--reproduce", arguments.reproduce, "Run the passes that a reproducer file names in its first line");
  app.add_option("--max-folded-value-bytes", arguments.limits.max_folded_value_bytes,
                 "Largest value that fold_constants reads or computes, in bytes")
      ->capture_default_str();
  app.add_option("--max-folded-total-bytes", arguments.limits.max_folded_total_bytes,
                 "All values that fold_constants computes, in bytes")
      ->capture_default_str();
  return tool.run(argc, argv, [&]() -> Result<void> {
    if (arguments.list_passes) return print_passes(), rtx::Ok{};
    if (arguments.list_ops) return std::fputs(rtx::ops_markdown().c_str(), stdout), rtx::Ok{};
    return optimize(arguments, tool);
  });
}
