// The reader of ONNX files and the importer: what they accept is IR whose text gives the same module again.

#include "frontend/import.h"
#include "frontend/read_model.h"
#include "ir/text.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/temp_folder.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace rtx;
  static const TempFolder folder;
  static const bool prepared = [] {
    folder.file("w.bin", std::string(64, '\1'));  // for models with external data
    return true;
  }();
  fuzz::require(prepared, "the folder is there");
  onnx::ReadOptions options;
  options.limits.max_tensor_bytes = 16 << 20;  // a large tensor is legal, but slow under the sanitizers
  options.limits.max_inlined_nodes = 10'000;
  const Result<onnx::Model> model = onnx::read_model(folder.file("m.onnx", fuzz::as_text(data, size)), options);
  if (!model) {
    fuzz::require_clean(model.error());
    return 0;
  }
  onnx::ImportOptions import_options;
  import_options.max_tensor_bytes = options.limits.max_tensor_bytes;
  const Result<onnx::ImportResult> imported = onnx::import_model(*model, import_options);
  if (!imported) {
    fuzz::require_clean(imported.error());
    return 0;
  }
  for (const Diagnostic& warning : imported->warnings) fuzz::require_clean(Error(warning));
  const std::string printed = print(*imported->module);
  const Result<std::unique_ptr<Module>> again = parse_module(printed, "printed");
  if (!again)
    fuzz::require(false, "what is imported prints as text that parses", to_string(again.error().first()) + printed);
  fuzz::require(print(**again) == printed, "parse and print are inverse", print(**again) + printed);
  return 0;
}
