// The canonical pipeline on parsed IR text: what the parser accepts, the passes turn into another valid module or
// refuse.

#include "ir/text.h"
#include "passes/pipeline.h"
#include "tests/fuzz/fuzz_target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace rtx;
  Result<std::unique_ptr<Module>> module = parse_module(fuzz::as_text(data, size), "input");
  if (!module) return 0;
  PipelineOptions options;
  options.round_trip = true;
  const Result<PipelineReport> report = run_canonical_pipeline(**module, std::move(options));
  if (!report) fuzz::require_clean(report.error());
  return 0;
}
