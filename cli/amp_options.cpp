#include "cli/amp_options.h"

#include <cstdio>

#include "base/file.h"
#include "base/text.h"

namespace rtx::cli {

std::optional<DType> AmpOptions::dtype() const {
  if (type.empty()) return std::nullopt;
  return type == "bf16" ? DType::bf16 : DType::f16;
}

void add_amp_options(CLI::App& app, AmpOptions& options) {
  app.add_option("--amp", options.type,
                 "Mixed precision: products, convolutions and attention of f32 models in fp16 or bf16, norms, softmax, "
                 "sums and outputs in f32 (docs/precision.md)")
      ->check(CLI::IsMember({"fp16", "bf16"}));
  app.add_option("--keep-fp32", options.keep_f32,
                 "What --amp leaves in f32: a glob of operations, ONNX nodes or values; may be repeated")
      ->type_name("GLOB")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_option("--amp-report", options.report, "Where --amp lists each cast with its reason; - for stderr")
      ->type_name("FILE");
}

Result<void> check_amp_options(const AmpOptions& options) {
  if (!options.type.empty() || (options.keep_f32.empty() && options.report.empty())) return Ok{};
  return make_error(ErrorKind::usage, "E001", "--keep-fp32 and --amp-report say how --amp works")
      .with_help("add --amp=fp16 or --amp=bf16");
}

Result<void> write_amp_report(const AmpOptions& options) {
  if (options.type.empty()) return Ok{};
  if (options.report.empty() || options.report != "-")
    std::fprintf(stderr, "amp %s: %s\n", options.type.c_str(), options.result.summary().c_str());
  if (options.report == "-") std::fprintf(stderr, "amp %s: %s", options.type.c_str(), options.result.str().c_str());
  if (options.report.empty() || options.report == "-") return Ok{};
  return write_file(options.report, options.result.str());
}

}  // namespace rtx::cli
