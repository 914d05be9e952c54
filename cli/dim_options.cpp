#include "cli/dim_options.h"

#include <array>
#include <charconv>
#include <optional>
#include <string_view>

#include "base/nearest_name.h"
#include "base/text.h"

namespace rtx::cli {
namespace {

Diagnostic usage(std::string message) { return make_error(ErrorKind::usage, "E001", std::move(message)); }

// A whole text of digits.
std::optional<int64_t> parse_size(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (size_t end; (end = text.find(separator)) != std::string_view::npos; text.remove_prefix(end + 1))
    parts.push_back(text.substr(0, end));
  parts.push_back(text);
  return parts;
}

// "NAME=1:4:8", or "NAME=4" for one size; `ranges`: false allows only the latter.
Result<void> add_dim(std::string_view option, const std::string& argument, bool ranges, Ranges& result) {
  const std::string where = concat(option, " ", escape_text(argument));
  const std::string_view expected = ranges ? "NAME=MIN:OPT:MAX or NAME=N" : "NAME=N";
  // A name may be an expression as files have it, with any character.
  const size_t equals = argument.rfind('=');
  if (equals == std::string::npos || equals == 0)
    return usage(concat(where, ": no name")).with_expected(std::string(expected));
  std::vector<int64_t> sizes;
  for (std::string_view part : split(std::string_view(argument).substr(equals + 1), ':')) {
    const std::optional<int64_t> size = parse_size(part);
    if (!size) return usage(concat(where, ": bad range")).with_expected(std::string(expected));
    sizes.push_back(*size);
  }
  if (sizes.size() != 1 && !(ranges && sizes.size() == 3))
    return usage(concat(where, ": bad range")).with_expected(std::string(expected));
  const SymbolRange range{sizes.front(), sizes.back(), sizes[sizes.size() / 2]};
  if (range.min > range.opt || range.opt > range.max)
    return usage(concat(where, ": the range is not ordered")).with_expected("MIN <= OPT <= MAX");
  if (!result.try_emplace(argument.substr(0, equals), range).second)
    return usage(concat(where, ": the dim is given twice"));
  return Ok{};
}

// ---- Shapes

constexpr std::array<std::string_view, 3> shape_options = {"--minShapes", "--optShapes", "--maxShapes"};
using Sizes = std::vector<int64_t>;
// By input; each of the three may be missing.
using ShapeTriples = std::map<std::string, std::array<std::optional<Sizes>, 3>>;

// "input_ids:1x128"; "x:" and "x:scalar" have no axis. trtexec allows quotes around a name, which may have colons.
Result<void> add_shape(size_t which, std::string_view text, ShapeTriples& triples) {
  const std::string where = concat(shape_options[which], " ", escape_text(text));
  const size_t colon = text.rfind(':');
  std::string_view name = text.substr(0, colon);
  if (name.size() >= 2 && name.front() == '\'' && name.back() == '\'') name = name.substr(1, name.size() - 2);
  if (colon == std::string_view::npos || name.empty())
    return usage(concat(where, ": no input and shape")).with_expected("INPUT:SIZExSIZE, such as input_ids:1x128");
  const std::string_view shape = text.substr(colon + 1);
  Sizes sizes;
  if (!shape.empty() && shape != "scalar") {
    for (std::string_view part : split(shape, 'x')) {
      const std::optional<int64_t> size = parse_size(part);
      if (!size) return usage(concat(where, ": bad shape")).with_expected("sizes with 'x' between them");
      sizes.push_back(*size);
    }
  }
  std::optional<Sizes>& place = triples[std::string(name)][which];
  if (place) return usage(concat(where, ": the shape of the input is given twice"));
  place = std::move(sizes);
  return Ok{};
}

std::string text_of(const SymbolRange& range) {
  return range.min == range.max ? concat(range.min) : concat(range.min, ":", range.opt, ":", range.max);
}

constexpr std::string_view by_name = "--dim or --fix-dim";

// What the command line says of a symbol, and where.
struct Claim {
  SymbolRange range;
  std::string by;
};

class ShapeRanges {
 public:
  explicit ShapeRanges(const Ranges& ranges) {
    for (const auto& [name, range] : ranges) claims_[sanitize_symbol(name)] = {range, std::string(by_name)};
  }

  Result<void> add(const std::string& input, const Shape& shape, const std::array<std::optional<Sizes>, 3>& triple) {
    const Sizes& opt = triple[1] ? *triple[1] : triple[2] ? *triple[2] : *triple[0];
    const Sizes &min = triple[0] ? *triple[0] : opt, &max = triple[2] ? *triple[2] : opt;
    for (const Sizes* sizes : {&min, &opt, &max})
      if (sizes->size() != shape.size())
        return usage(concat("a shape of ", sizes->size(), " axes for input ", quote_text(input)))
            .with_expected(concat(shape.size(), " axes, as in ", to_string(shape)));
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      const SymbolRange range{min[axis], max[axis], opt[axis]};
      const std::string place = concat("axis ", axis, " of input ", quote_text(input));
      if (range.min > range.opt || range.opt > range.max)
        return usage(concat(place, ": the shapes are not ordered"))
            .with_expected("min <= opt <= max")
            .with_got(text_of(range));
      RTX_TRY(add_axis(place, shape[axis], range));
    }
    return Ok{};
  }

  // Axes with expressions, once every symbol that stands alone is known.
  Result<void> finish() {
    for (const auto& [place, dim, range] : later_) {
      const int64_t wanted[3] = {range.min, range.opt, range.max};
      Dim at[3] = {dim, dim, dim};
      for (const auto& [symbol, claim] : claims_) {
        const int64_t sizes[3] = {claim.range.min, claim.range.opt, claim.range.max};
        for (int i = 0; i < 3; ++i) at[i] = at[i].substituted(symbol, sizes[i]);
      }
      std::optional<Dim::Solution> solved[3];
      for (int i = 0; i < 3; ++i) {
        if (at[i].is(wanted[i])) continue;
        if (at[i].is_constant())
          return usage(concat(place, " is ", dim.str(), ", which is ", at[i].str(), " by the other sizes"))
              .with_got(concat(wanted[i]));
        solved[i] = Dim::solve(at[i], wanted[i]);
      }
      if (!solved[0] && !solved[1] && !solved[2]) continue;
      SymbolRange found;
      int64_t* const ends[3] = {&found.min, &found.opt, &found.max};
      for (int i = 0; i < 3; ++i) {
        const bool good = solved[i] && solved[i]->value.is_constant() && solved[i]->value.constant() >= 0;
        if (!good)
          return usage(concat(place, " is ", dim.str(), ": its symbols do not follow from ", text_of(range)))
              .with_help("give their ranges with --dim");
        *ends[i] = solved[i]->value.constant();
      }
      RTX_TRY(claim(solved[0]->symbol, found, place));
    }
    return Ok{};
  }

  const std::map<std::string, Claim>& claims() const { return claims_; }

 private:
  Result<void> add_axis(const std::string& place, const Dim& dim, const SymbolRange& range) {
    if (auto symbol = dim.as_symbol()) return claim(*symbol, range, place);
    if (!dim.is_constant()) {
      later_.push_back({place, dim, range});
    } else if (!dim.is(range.min) || !dim.is(range.max)) {
      return usage(concat(place, " has a fixed size")).with_expected(dim.str()).with_got(text_of(range));
    }
    return Ok{};
  }

  Result<void> claim(const std::string& symbol, const SymbolRange& range, const std::string& place) {
    const auto [known, is_new] = claims_.try_emplace(symbol, Claim{range, place});
    if (is_new || known->second.range == range) return Ok{};
    return usage(concat("two ranges for dim ", quote_text(symbol)))
        .with_expected(concat(text_of(known->second.range), " by ", known->second.by))
        .with_got(concat(text_of(range), " by ", place));
  }

  struct Later {
    std::string place;
    Dim dim;
    SymbolRange range;
  };
  std::map<std::string, Claim> claims_;  // by symbol
  std::vector<Later> later_;
};

}  // namespace

Result<Ranges> dim_ranges(const OnnxOptions& options) {
  Ranges ranges;
  for (const std::string& argument : options.dims) RTX_TRY(add_dim("--dim", argument, true, ranges));
  for (const std::string& argument : options.fixed_dims) RTX_TRY(add_dim("--fix-dim", argument, false, ranges));
  return ranges;
}

Result<std::vector<SymbolValues>> parse_specializations(const std::vector<std::string>& arguments) {
  std::vector<SymbolValues> result;
  for (const std::string& argument : arguments) {
    Ranges ranges;
    for (std::string_view part : split(argument, ','))
      RTX_TRY(add_dim("--specialize", std::string(part), false, ranges));
    result.emplace_back();
    for (const auto& [name, range] : ranges) result.back()[sanitize_symbol(name)] = range.opt;
  }
  return result;
}

Result<void> add_shape_ranges(const OnnxOptions& options, const std::map<std::string, Shape>& inputs, Ranges& ranges) {
  const std::vector<std::string>* given[3] = {&options.min_shapes, &options.opt_shapes, &options.max_shapes};
  ShapeTriples triples;
  for (size_t which = 0; which < 3; ++which)
    for (const std::string& argument : *given[which])
      for (std::string_view text : split(argument, ',')) RTX_TRY(add_shape(which, text, triples));
  if (triples.empty()) return Ok{};
  ShapeRanges found(ranges);
  for (const auto& [input, triple] : triples) {
    const auto shape = inputs.find(input);
    if (shape == inputs.end()) {
      std::vector<std::string> names;
      for (const auto& [name, any] : inputs) names.push_back(name);
      const std::string nearest = nearest_name(input, names);
      return usage(concat("a shape for ", quote_text(input), ", which is no input of the model"))
          .with_expected(concat("one of ", join(names, ", ", [](const std::string& name) { return quote_text(name); })))
          .with_help(nearest.empty() ? std::string() : concat("did you mean ", quote_text(nearest), "?"));
    }
    RTX_TRY(found.add(input, shape->second, triple));
  }
  RTX_TRY(found.finish());
  for (const auto& [symbol, claim] : found.claims())
    if (claim.by != by_name) ranges[symbol] = claim.range;
  return Ok{};
}

}  // namespace rtx::cli
