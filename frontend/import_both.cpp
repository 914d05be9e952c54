// Models whose branches an input decides: one function for each value of it.
#include "frontend/import_both.h"

#include <algorithm>

#include "base/text.h"
#include "frontend/importer.h"

namespace rtx::onnx {
namespace {

template <typename List>
void append_new(List& list, List more) {
  for (auto& diagnostic : more)
    if (std::none_of(list.begin(), list.end(), [&](auto& known) { return to_string(known) == to_string(diagnostic); }))
      list.push_back(std::move(diagnostic));
}

// Moves the function of `from` to `to`. A symbol that both have with other ranges is renamed.
void merge(Module& to, Module& from, std::string_view suffix) {
  const SymbolRanges symbols = from.symbols;
  for (const auto& [name, range] : symbols) {
    auto [known, is_new] = to.symbols.try_emplace(name, range);
    if (is_new || known->second == range) continue;
    std::string renamed = concat(name, ".", suffix);
    while (to.symbols.contains(renamed) || symbols.contains(renamed)) renamed += "_";
    from.substitute(name, Dim::symbol(renamed));
    to.symbols.emplace(renamed, range);
  }
  for (auto& function : from.functions) to.functions.push_back(std::move(function));
  from.functions.clear();
}

}  // namespace

Result<ImportResult> import_both(const Model& model, const ImportOptions& options, OperatorUses* uses,
                                 const std::string& input) {
  auto weights = std::make_shared<WeightStore>();
  ImportResult whole;
  std::vector<Diagnostic> errors;
  for (bool value : {true, false}) {
    Result<ImportResult> part = Importer(model, options, uses, weights, Selector{input, value}).run();
    if (!part) {
      std::vector<Diagnostic> found = part.error().diagnostics;
      for (Diagnostic& diagnostic : found)
        diagnostic.with_note(concat("where input '", escape_text(input), "' is ", value ? "true" : "false"));
      append_new(errors, std::move(found));
      continue;
    }
    append_new(whole.warnings, std::move(part->warnings));
    if (!whole.module)
      whole.module = std::move(part->module);
    else
      merge(*whole.module, *part->module, value ? "true" : "false");
  }
  if (!errors.empty()) return Error(std::move(errors));
  return whole;
}

}  // namespace rtx::onnx
