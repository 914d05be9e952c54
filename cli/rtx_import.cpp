// rtx-import: ONNX model to verified IR.

#include <iostream>

#include "cli/import_options.h"
#include "cli/operator_tables.h"
#include "cli/tool.h"
#include "ir/module_file.h"
#include "ir/text.h"

namespace {

using namespace rtx;

struct Options {
  std::string input;
  std::string output;
  bool no_weights = false, check_support = false, list_ops = false, json = false;
  cli::OnnxOptions onnx;
};

// The table goes to stdout whether the import succeeds or not; the error of the import is that of the tool.
Result<void> check_support(const cli::Tool& tool, const Options& options, const onnx::Model& model,
                           const onnx::ImportOptions& import_options) {
  onnx::OperatorUses uses;
  const Result<onnx::ImportResult> imported = onnx::import_model(model, import_options, &uses);
  std::cout << (options.json ? cli::support_json(model, uses, imported) : cli::support_table(uses, imported.ok()))
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
  if (options.output == "-" && !options.no_weights)
    return make_error(ErrorKind::usage, "E001", "'-o -' prints the IR, but has no place for the weights")
        .with_help("add --no-weights, or name a file");
  RTX_ASSIGN(const onnx::ImportOptions import_options, cli::import_options(options.onnx));
  RTX_ASSIGN(const onnx::Model model, onnx::read_model(options.input, options.onnx.read));
  RTX_TRY(cli::check_dim_names(import_options, model));
  if (options.check_support) return check_support(tool, options, model, import_options);
  RTX_ASSIGN(const onnx::ImportResult imported, onnx::import_model(model, import_options));
  for (const Diagnostic& warning : imported.warnings) tool.print(warning);
  const Module& module = *imported.module;
  if (options.output == "-") {
    std::cout << print(module) << std::flush;
    return Ok{};
  }
  return options.no_weights ? write_file(options.output, print(module)) : save_module(module, options.output);
}

}  // namespace

int main(int argc, char** argv) {
  cli::Tool tool("rtx-import", "Converts an ONNX model to verified IR and a weights file.");
  Options options;
  tool.app.add_option("model", options.input, "ONNX file");
  tool.app
      .add_option("-o,--output", options.output,
                  "IR to write; its weights go beside it, 'm.rtxir' with 'm.safetensors'; '-' prints the IR");
  tool.app.add_flag("--check-support", options.check_support,
                    "Import, write nothing, and print what becomes of each operator; exit code 4 if one is refused");
  tool.app.add_flag("--list-ops", options.list_ops, "Print the ONNX operators that can be imported and exit");
  tool.app.add_flag("--json", options.json, "Print --check-support and --list-ops as JSON");
  tool.app.add_flag("--no-weights", options.no_weights, "Write no weights file");
  cli::add_onnx_options(tool.app, options.onnx);
  return tool.run(argc, argv, [&] { return run(tool, options); });
}
