// Equalities and bounds of dims that come up while importing.
#include <algorithm>

#include "base/text.h"
#include "frontend/importer.h"

namespace rtx::onnx {
namespace {

// max(past, 7) == 11 is past == 11: an expression over one symbol that takes the value `target` exactly where the
// symbol does. Not min(seq, 512) == 512, which holds for many sizes.
std::optional<Dim::Solution> solve_by_trial(const Dim& a, const Dim& b) {
  const Dim &expression = a.is_constant() ? b : a, &target = a.is_constant() ? a : b;
  std::vector<std::string> names;
  expression.collect_symbols(names);
  if (!target.is_constant() || names.size() != 1 || target.constant() == INT64_MAX || target.constant() == INT64_MIN)
    return std::nullopt;
  auto hits = [&](int64_t value) { return expression.substituted(names[0], value) == target; };
  int64_t value = target.constant();
  if (!hits(value) || hits(value - 1) || hits(value + 1)) return std::nullopt;
  return Dim::Solution{names[0], value};
}

// 4*n == 24 is n == 6: one symbol, linear, with a whole solution.
std::optional<Dim::Solution> solve_scaled(const Dim& a, const Dim& b) {
  const Dim difference = a - b;
  std::vector<std::string> names;
  difference.collect_symbols(names);
  if (names.size() != 1) return std::nullopt;
  const Dim offset = difference.substituted(names[0], 0);
  const Dim slope = difference.substituted(names[0], 1) - offset;
  if (!offset.is_constant() || !slope.is_constant() || slope.is(0) || slope.is(-1)) return std::nullopt;
  if (difference != offset + slope * Dim::symbol(names[0]) || offset.constant() % slope.constant() != 0)
    return std::nullopt;
  return Dim::Solution{names[0], Dim(-(offset.constant() / slope.constant()))};
}

}  // namespace

Dim Importer::fresh(Dim dim) const {
  for (const auto& [symbol, value] : substitutions_) dim = dim.substituted(symbol, value);
  return dim;
}

bool Importer::unify(const Dim& stale_a, const Dim& stale_b) {
  Dim a = fresh(stale_a), b = fresh(stale_b);
  if (a == b) return true;
  auto solution = Dim::solve(a, b);
  if (!solution) solution = solve_scaled(a, b);
  if (!solution) solution = solve_by_trial(a, b);
  if (!solution) {
    // Only an expression such as max(past, total) may still equal a constant.
    std::vector<std::string> names;
    a.collect_symbols(names);
    b.collect_symbols(names);
    if (names.size() > 1)
      dims_to_fix_ =
          concat(a.str(), " and ", b.str(), " may be equal: fix one of the dims ",
                 join(names, ", ", [](auto& name) { return escape_text(name); }), " with --fix-dim NAME=SIZE");
    return false;
  }
  const auto& [symbol, value] = *solution;
  auto range = module_->symbols.find(symbol);
  if (range == module_->symbols.end()) return false;
  if (value.upper_bound(module_->symbols) < range->second.min ||
      value.lower_bound(module_->symbols) > range->second.max)
    return false;
  if (auto other = value.as_symbol()) {
    auto found = module_->symbols.find(*other);
    if (found == module_->symbols.end()) return false;
    found->second.min = std::max(found->second.min, range->second.min);
    found->second.max = std::min(found->second.max, range->second.max);
    if (found->second.opt == 0) found->second.opt = range->second.opt;
  }
  warn("W202", concat("dim '", symbol, "' is ", value.str()));
  std::string name = symbol;
  Dim replacement = value;
  module_->substitute(name, replacement);
  for (Imported& imported : values_) {
    if (imported.contents) imported.contents->substitute(name, replacement);
    for (Dim& dim : imported.type.shape)
      if (!dim.is_constant()) dim = dim.substituted(name, replacement);
  }
  substitutions_.emplace_back(std::move(name), std::move(replacement));
  return true;
}

void Importer::limit(const Dim& dim, int64_t bound) {
  if (dim.upper_bound(module_->symbols) <= bound) return;
  std::vector<std::string> names;
  dim.collect_symbols(names);
  if (names.size() != 1) return;
  Dim symbol = Dim::symbol(names[0]);
  Dim offset = dim - symbol;
  if (!offset.is_constant()) return;
  SymbolRange& range = module_->symbols[names[0]];
  if (bound - offset.constant() < range.min) return;
  range.max = bound - offset.constant();
  if (range.opt > range.max) range.opt = range.max;
  warn("W206", concat("dim '", names[0], "' is at most ", range.max));
}

void Importer::refresh(AttributeList& attributes) const {
  if (substitutions_.empty()) return;
  AttributeList replaced;
  for (const auto& [name, value] : attributes.entries()) {
    AttributeValue copy = value;
    if (auto* dim = std::get_if<Dim>(&copy)) *dim = fresh(std::move(*dim));
    if (auto* dims = std::get_if<std::vector<Dim>>(&copy))
      for (Dim& dim : *dims)
        if (!dim.is_constant()) dim = fresh(std::move(dim));
    replaced.set(name, std::move(copy));
  }
  attributes = std::move(replaced);
}

}  // namespace rtx::onnx
