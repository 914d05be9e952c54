// rtx-import: ONNX model to verified IR.

#include <iostream>

#include "cli/import_options.h"
#include "cli/operator_tables.h"
#include "cli/progress.h"
#include "cli/tool.h"
#include "ir/export_form.h"
#include "ir/module_file.h"
#include "ir/text.h"

namespace {

using namespace rtx;

struct Options {
  std::string input;
  std::string output;
  bool no_weights = false, check_support = false, list_ops = false, json = false;
  bool strip_metadata = false;
  std::string weights = "external";
  int64_t max_inline_bytes = int64_t{16} << 20;
  cli::Progress progress;
  cli::OnnxOptions onnx;
};

// The table goes to stdout whether the import succeeds or not; the error of the import is that of the tool.
Result<void> check_support(const cli::Tool& tool, const Options& options, const cli::OnnxInput& onnx) {
  onnx::OperatorUses uses;
  const Result<onnx::ImportResult> imported = onnx::import_model(onnx.model, onnx.import, &uses);
  std::cout << (options.json ? cli::support_json(onnx.model, uses, imported) : cli::support_table(uses, imported.ok()))
            << std::flush;
  if (!imported) return imported.error();
  for (const Diagnostic& warning : imported->warnings) tool.print(warning);
  return Ok{};
}

Result<void> run(const cli::Tool& tool, const Options& options) {
  if (options.list_ops) {
    std::cout << (options.json ? cli::converters_json() : cli::converters_table()) << std::flush;
    return Ok{};
  }
  if (options.input.empty() || (options.output.empty() && !options.check_support))
    return make_error(ErrorKind::usage, "E001", "a model and --output are required").with_help("see rtx-import --help");
  const bool inlined = options.weights == "inline";
  if (options.output == "-" && !options.no_weights && !inlined)
    return make_error(ErrorKind::usage, "E001", "'-o -' prints the IR, but has no place for the weights")
        .with_help("add --no-weights or --weights inline, or name a file");
  RTX_ASSIGN(const cli::OnnxInput onnx, cli::read_onnx(options.input, options.onnx));
  if (options.check_support) return check_support(tool, options, onnx);
  RTX_ASSIGN(const onnx::ImportResult imported, onnx::import_model(onnx.model, onnx.import));
  for (const Diagnostic& warning : imported.warnings) tool.print(warning);
  Module& module = *imported.module;
  if (options.strip_metadata) strip_metadata(module);
  if (inlined) RTX_TRY(inline_weights(module, options.max_inline_bytes));
  if (options.output == "-") {
    std::cout << print(module) << std::flush;
    return Ok{};
  }
  if (options.no_weights) return write_file(options.output, print(module));
  return save_module(module, options.output,
                     [&](int64_t done, int64_t all) { options.progress.bytes("writing weights", done, all); });
}

}  // namespace

int main(int argc, char** argv) {
  cli::Tool tool("rtx-import", "Converts an ONNX model to verified IR and a weights file.");
  Options options;
  tool.app.add_option("model", options.input, "ONNX file");
  tool.app.add_option("-o,--output", options.output,
                      "IR to write; its weights go beside it, 'm.rtxir' with 'm.safetensors'; '-' prints the IR");
  tool.app.add_flag("--check-support", options.check_support,
                    "Import, write nothing, and print what becomes of each operator; exit code 4 if one is refused");
  tool.app.add_flag("--list-ops", options.list_ops, "Print the ONNX operators that can be imported and exit");
  tool.app.add_flag("--json", options.json, "Print --check-support and --list-ops as JSON");
  tool.app.add_flag("--no-weights", options.no_weights, "Write no weights file");
  tool.app
      .add_option("--weights", options.weights,
                  "Where the weights go: external (the file beside the IR) or inline (into the text of the IR)")
      ->check(CLI::IsMember({"external", "inline"}))
      ->capture_default_str();
  tool.app.add_option("--max-inline-bytes", options.max_inline_bytes, "Bytes of weights that may go into the text")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  tool.app.add_flag(
      "--strip-metadata", options.strip_metadata,
      "Leave out the names of ONNX nodes, modules and values, and number the weights; the names of inputs, "
      "outputs and dims stay");
  options.progress.add_option(tool.app);
  cli::add_onnx_options(tool.app, options.onnx);
  return tool.run(argc, argv, [&] { return run(tool, options); });
}
