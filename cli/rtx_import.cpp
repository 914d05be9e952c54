// rtx-import: ONNX model to verified IR.

#include <iostream>

#include "cli/import_options.h"
#include "cli/tool.h"
#include "ir/module_file.h"
#include "ir/text.h"

namespace {

using namespace rtx;

struct Options {
  std::string input;
  std::string output;
  bool no_weights = false;
  cli::OnnxOptions onnx;
};

Result<void> run(const cli::Tool& tool, const Options& options) {
  if (options.output == "-" && !options.no_weights)
    return make_error(ErrorKind::usage, "E001", "'-o -' prints the IR, but has no place for the weights")
        .with_help("add --no-weights, or name a file");
  RTX_ASSIGN(const onnx::ImportOptions import_options, cli::import_options(options.onnx));
  RTX_ASSIGN(const onnx::Model model, onnx::read_model(options.input, options.onnx.read));
  RTX_TRY(cli::check_dim_names(import_options, model));
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
  tool.app.add_option("model", options.input, "ONNX file")->required();
  tool.app
      .add_option("-o,--output", options.output,
                  "IR to write; its weights go beside it, 'm.rtxir' with 'm.safetensors'; '-' prints the IR")
      ->required();
  tool.app.add_flag("--no-weights", options.no_weights, "Write no weights file");
  cli::add_onnx_options(tool.app, options.onnx);
  return tool.run(argc, argv, [&] { return run(tool, options); });
}
