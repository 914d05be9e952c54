#include "frontend/input_dims.h"

#include <algorithm>
#include <set>

#include "base/nearest_name.h"
#include "base/text.h"

namespace rtx::onnx {
namespace {

// dynamo writes expressions ("s21 + s29"); whatever does not parse is one name.
Dim declared_dim(const ValueInfo& input, size_t axis) {
  const DeclaredDim& declared = (*input.shape)[axis];
  if (declared.value) return *declared.value;
  if (declared.param.empty()) return Dim::symbol(sanitize_symbol(concat(input.name, "_dim", axis)));
  auto parsed = parse_dim(declared.param);
  return parsed && !parsed->overflowed() ? *parsed : Dim::symbol(sanitize_symbol(declared.param));
}

// The runtime learns a symbol from an axis that is exactly that symbol. An axis with an expression over a symbol that
// has no such axis becomes a symbol of its own.
void bind_every_symbol(std::map<std::string, Shape>& shapes) {
  std::set<std::string> bound;
  for (const auto& [name, shape] : shapes)
    for (const Dim& dim : shape)
      if (auto symbol = dim.as_symbol()) bound.insert(*symbol);
  for (auto& [name, shape] : shapes) {
    for (Dim& dim : shape) {
      std::vector<std::string> names;
      dim.collect_symbols(names);
      if (std::all_of(names.begin(), names.end(), [&](auto& symbol) { return bound.contains(symbol); })) continue;
      dim = Dim::symbol(sanitize_symbol(dim.str()));
      bound.insert(*dim.as_symbol());
    }
  }
}

Diagnostic unknown_dim(const std::string& name, const std::set<std::string>& known) {
  Diagnostic diagnostic =
      make_error(ErrorKind::usage, "E001", concat("--dim ", escape_text(name), ": the model has no dim of this name"));
  const std::string nearest = nearest_name(name, {known.begin(), known.end()});
  diagnostic.with_expected(known.empty() ? std::string("no range: all dims are fixed")
                                         : concat("one of ", join(known, ", ", [](const std::string& symbol) {
                                                    return quote_text(symbol);
                                                  })));
  if (!nearest.empty()) diagnostic.with_help(concat("did you mean ", quote_text(nearest), "?"));
  return diagnostic;
}

}  // namespace

Result<InputDims> input_dims(const Model& model, const ImportOptions& options) {
  // Names as the user may write them, as they stand in the file, to symbols.
  SymbolRanges ranges;
  for (const auto& [name, range] : options.ranges) ranges[sanitize_symbol(name)] = range;
  std::set<std::string> constants;
  for (const Initializer& initializer : model.graph.initializers) constants.insert(initializer.name);
  for (const auto& [name, tensor] : options.constants) constants.insert(name);

  InputDims result;
  std::set<std::string> fixed;
  for (const ValueInfo& input : model.graph.inputs) {
    if (!input.is_tensor || !input.shape || constants.contains(input.name)) continue;
    Shape shape;
    for (size_t axis = 0; axis < input.shape->size(); ++axis) {
      Dim dim = declared_dim(input, axis);
      std::vector<std::string> names;
      dim.collect_symbols(names);
      for (const std::string& name : names) {
        auto range = ranges.find(name);
        if (range == ranges.end() || range->second.min != range->second.max) continue;
        dim = dim.substituted(name, range->second.min);
        fixed.insert(name);
      }
      shape.push_back(dim);
    }
    result.shapes.emplace(input.name, std::move(shape));
  }
  bind_every_symbol(result.shapes);

  std::set<std::string> known = fixed;
  for (auto& [name, shape] : result.shapes) {
    for (Dim& dim : shape) {
      std::vector<std::string> names;
      dim.collect_symbols(names);
      for (const std::string& symbol : names) {
        known.insert(symbol);
        auto range = ranges.find(symbol);
        if (range != ranges.end() && range->second.min == range->second.max)
          dim = dim.substituted(symbol, range->second.min);  // a symbol that bind_every_symbol made
        else
          result.symbols.try_emplace(symbol, range != ranges.end() ? range->second : SymbolRange{});
      }
    }
  }
  for (const auto& [name, range] : options.ranges)
    if (!known.contains(sanitize_symbol(name))) return unknown_dim(name, known);
  return result;
}

}  // namespace rtx::onnx
