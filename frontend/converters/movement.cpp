// Operators that move elements without arithmetic; Slice, Pad and Trilu are in slicing.cpp.

#include <algorithm>
#include <numeric>

#include "frontend/converters/tables.h"

namespace rtx::onnx {
namespace {

Dim product(const Shape& shape, size_t begin, size_t end) {
  Dim result = 1;
  for (size_t i = begin; i < end; ++i) result = result * shape[i];
  return result;
}

// ---- Reshape

// The size that makes the volume of `target` (with -1 at `hole`) that of `source`. Exact quotients of polynomials only:
// they hold for empty tensors too. Where there is none, two symbols on the same axis are taken to be one, as in
// [batch, seq] -> [batch_of_the_other_input, -1].
Result<Dim> infer_hole(Conversion& c, const Shape& target, size_t hole) {
  for (int attempt = 0; attempt < 8; ++attempt) {
    const Shape& source = c.type(0).shape;
    Dim volume = product(source, 0, source.size());
    Dim others = 1;
    for (size_t i = 0; i < target.size(); ++i)
      if (i != hole) others = others * c.fresh(target[i]);
    if (others.is(0)) {
      // 0 / 0: the specification leaves it open; the axis that stands where the hole is gives the useful answer.
      if (hole < source.size()) return source[hole];
      return c.invalid("E330", "-1 cannot be inferred, as another size is 0");
    }
    if (volume.overflowed() || others.overflowed())
      return c.invalid("E302", "the element count of the shape overflows 64 bits");
    if (auto exact = volume.divided_by(others)) return *exact;
    bool unified = false;
    for (size_t i = 0; !unified && i < std::min(source.size(), hole); ++i) {
      Dim wanted = c.fresh(target[i]);
      if (source[i] != wanted && source[i].as_symbol() && wanted.as_symbol()) unified = c.unify(source[i], wanted);
    }
    if (!unified && volume.is_constant() && others.is_constant())
      return c.invalid("E330", "the element count is not a multiple of the given sizes")
          .with_expected(concat("a multiple of ", others.str()))
          .with_got(volume.str());
    if (!unified)
      return c.unsupported(concat("-1 stands for ", volume.str(), " / (", others.str(), "), which is not exact"))
          .with_help("fix a dim with --dim NAME=SIZE");
  }
  return c.unsupported("-1 cannot be inferred");
}

// Cancels equal sizes of both shapes; where one symbol is left on each side, they must be equal.
void unify_leftovers(Conversion& c, const Shape& target) {
  Shape left = c.type(0).shape, right;
  for (const Dim& dim : target) {
    auto found = std::find(left.begin(), left.end(), dim);
    if (found != left.end())
      left.erase(found);
    else
      right.push_back(dim);
  }
  Dim a = product(left, 0, left.size()), b = product(right, 0, right.size());
  if (a != b) c.unify(a, b);
}

Result<void> reshape_to(Conversion& c, const std::vector<Dim>& requested, bool allow_zero) {
  const Shape& source = c.type(0).shape;
  Shape target;
  std::optional<size_t> hole;
  bool has_zero = false;
  for (size_t i = 0; i < requested.size(); ++i) {
    const Dim& dim = requested[i];
    if (dim.is(-1)) {
      if (hole) return c.invalid("E330", "the shape has more than one -1");
      hole = i;
      target.push_back(1);
    } else if (dim.is(0) && !allow_zero) {
      if (i >= source.size()) return c.invalid("E330", concat("size 0 at axis ", i, " has no axis to copy"));
      target.push_back(source[i]);
    } else if (dim.is_constant() && dim.constant() < 0) {
      return c.invalid("E330", concat("size ", dim.str(), " in the shape"));
    } else {
      has_zero = has_zero || dim.is(0);
      target.push_back(dim);
    }
  }
  if (hole && allow_zero && has_zero) return c.invalid("E330", "the shape has both 0 and -1 with allowzero = 1");
  if (hole) {
    RTX_ASSIGN(target[*hole], infer_hole(c, target, *hole));
  }
  for (Dim& dim : target) dim = c.fresh(dim);
  if (!hole) unify_leftovers(c, target);
  for (Dim& dim : target) dim = c.fresh(dim);
  RTX_ASSIGN(Value * x, c.input(0));
  RTX_ASSIGN(Value * y, c.reshape(x, std::move(target)));
  c.set(0, y);
  return Ok{};
}

Result<void> reshape_1(Conversion& c) {
  auto shape = c.integer_list("shape");
  if (!shape) return c.invalid("E324", "attribute 'shape' is missing");
  return reshape_to(c, std::vector<Dim>(shape->begin(), shape->end()), false);
}

Result<void> reshape_5(Conversion& c) {
  RTX_ASSIGN(std::vector<Dim> shape, c.shape_input(1));
  return reshape_to(c, shape, c.integer("allowzero", 0) != 0);
}

Result<void> flatten(Conversion& c) {
  const Shape& shape = c.type(0).shape;
  int64_t axis = c.integer("axis", 1), rank = static_cast<int64_t>(shape.size());
  if (axis < 0) axis += rank;
  if (axis < 0 || axis > rank) return c.invalid("E321", concat("axis ", axis, " is out of range"));
  Shape target = {product(shape, 0, axis), product(shape, axis, rank)};
  RTX_ASSIGN(Value * x, c.input(0));
  RTX_ASSIGN(Value * y, c.reshape(x, std::move(target)));
  c.set(0, y);
  return Ok{};
}

// ---- Squeeze, Unsqueeze: the axes are an attribute before opset 13, an input after

Result<std::optional<std::vector<int64_t>>> given_axes(Conversion& c) {
  if (c.node().opset < 13) return c.integer_list("axes");
  if (!c.has(1)) return std::optional<std::vector<int64_t>>();
  RTX_ASSIGN(std::vector<int64_t> axes, c.integers(1));
  return std::optional(std::move(axes));
}

Result<void> squeeze(Conversion& c) {
  RTX_ASSIGN(std::optional<std::vector<int64_t>> given, given_axes(c));
  std::vector<int64_t> axes;
  if (given) {
    RTX_ASSIGN(axes, c.axes(*given, c.rank(0)));
  } else {
    for (int i = 0; i < c.rank(0); ++i) {
      if (c.type(0).shape[i].is(1)) axes.push_back(i);
      if (!c.type(0).shape[i].is_constant())
        c.warn("W204",
               concat("axis ", i, " of size ", c.type(0).shape[i].str(), " is not squeezed, as it may differ from 1"));
    }
  }
  Shape target;
  for (int i = 0; i < c.rank(0); ++i) {
    Dim dim = c.type(0).shape[i];
    if (std::find(axes.begin(), axes.end(), i) == axes.end()) {
      target.push_back(dim);
    } else if (!dim.is(1) && !c.unify(dim, 1)) {
      return c.invalid("E331", concat("axis ", i, " of size ", dim.str(), " cannot be squeezed"));
    }
  }
  RTX_ASSIGN(Value * x, c.input(0));
  RTX_ASSIGN(Value * y, c.reshape(x, std::move(target)));
  c.set(0, y);
  return Ok{};
}

Result<void> unsqueeze(Conversion& c) {
  RTX_ASSIGN(std::optional<std::vector<int64_t>> given, given_axes(c));
  if (!given) return c.invalid("E324", "the axes are missing");
  int rank = c.rank(0) + static_cast<int>(given->size());
  RTX_ASSIGN(std::vector<int64_t> axes, c.axes(*given, rank));
  Shape target;
  int next = 0;
  for (int i = 0; i < rank; ++i) {
    bool is_new = std::find(axes.begin(), axes.end(), i) != axes.end();
    target.push_back(is_new ? Dim(1) : c.type(0).shape[next++]);
  }
  RTX_ASSIGN(Value * x, c.input(0));
  RTX_ASSIGN(Value * y, c.reshape(x, std::move(target)));
  c.set(0, y);
  return Ok{};
}

Result<void> transpose(Conversion& c) {
  std::vector<int64_t> reversed(c.rank(0));
  std::iota(reversed.rbegin(), reversed.rend(), 0);
  std::vector<int64_t> perm = c.integer_list("perm").value_or(std::move(reversed));
  RTX_ASSIGN(Value * x, c.input(0));
  RTX_ASSIGN(Value * y, c.transpose(x, std::move(perm)));
  c.set(0, y);
  return Ok{};
}

// ---- Expand, Tile

Result<void> expand(Conversion& c) {
  RTX_ASSIGN(std::vector<Dim> requested, c.shape_input(1));
  Shape source = c.type(0).shape, target;
  size_t rank = std::max(source.size(), requested.size());
  for (size_t i = 0; i < rank; ++i) {
    Dim from = i + source.size() < rank ? Dim(1) : source[i + source.size() - rank];
    Dim to = i + requested.size() < rank ? Dim(1) : requested[i + requested.size() - rank];
    if (to.is(-1)) {
      c.warn("W205", "-1 in the shape of Expand is not in the specification and is taken as 1");
      to = 1;
    }
    if (to.is(1)) to = from;
    if (!from.is(1) && from != to && !c.unify(from, to))
      return c.invalid("broadcast_c2",
                       concat("size ", from.str(), " of axis ", i, " does not broadcast to ", to.str()));
    target.push_back(to);
  }
  for (Dim& dim : target) dim = c.fresh(dim);
  RTX_ASSIGN(Value * x, c.input(0));
  RTX_ASSIGN(Value * y, c.broadcast(x, std::move(target)));
  c.set(0, y);
  return Ok{};
}

Result<void> tile(Conversion& c) {
  RTX_ASSIGN(std::vector<Dim> repeats, c.dims(1));
  Shape shape = c.type(0).shape;
  if (repeats.size() != shape.size())
    return c.invalid("E332", "repeats needs one entry for each axis").with_got(concat(repeats.size(), " entries"));
  // [a, b] -> [1, a, 1, b] -> [r0, a, r1, b] -> [r0*a, r1*b]; axes that are not repeated stay single.
  Shape split, repeated, merged;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (!repeats[i].is(1)) {
      split.push_back(1);
      repeated.push_back(repeats[i]);
    }
    split.push_back(shape[i]);
    repeated.push_back(shape[i]);
    merged.push_back(repeats[i] * shape[i]);
  }
  RTX_ASSIGN(Value * x, c.input(0));
  RTX_ASSIGN(Value * y, c.reshape(x, std::move(split)));
  RTX_ASSIGN(y, c.broadcast(y, std::move(repeated)));
  RTX_ASSIGN(y, c.reshape(y, std::move(merged)));
  c.set(0, y);
  return Ok{};
}

// ---- Concat, Split

Result<void> concat_inputs(Conversion& c) {
  if (!c.has_attribute("axis")) return c.invalid("E324", "attribute 'axis' is missing");
  RTX_ASSIGN(int axis, c.axis(c.integer("axis", 0), c.rank(0)));
  if (c.input_count() == 1) {
    c.alias(0, 0);
    return Ok{};
  }
  std::vector<Value*> parts;
  for (size_t i = 0; i < c.input_count(); ++i) {
    RTX_ASSIGN(Value * part, c.input(i));
    parts.push_back(part);
  }
  RTX_ASSIGN(Value * y, c.emit(Op::concat, std::move(parts), {{"axis", static_cast<int64_t>(axis)}}));
  c.set(0, y);
  return Ok{};
}

Result<void> split_into(Conversion& c, int axis, const std::vector<Dim>& sizes) {
  if (sizes.size() != c.output_count())
    return c.invalid("E332", concat("input 1 has ", sizes.size(), " sizes for ", c.output_count(), " outputs"));
  Dim total = 0;
  for (const Dim& size : sizes) {
    if (size.is_constant() && size.constant() < 0)
      return c.invalid("E332", concat("a part of axis ", axis, " has the negative size ", size.str()));
    total = total + size;
  }
  Dim length = c.type(0).shape[axis];
  if (total != length && !c.unify(total, length))
    return c.invalid("E332", "the sizes do not add up to the axis").with_expected(length.str()).with_got(total.str());
  RTX_ASSIGN(Value * x, c.input(0));
  Dim start = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i].is_constant() && sizes[i].constant() < 0)
      return c.invalid("E301", concat("input 1 has the negative size ", sizes[i].str()));
    if (c.wants(i)) {
      RTX_ASSIGN(Value * part, c.slice(x, axis, start, c.fresh(sizes[i])));
      c.set(i, part);
    }
    start = start + sizes[i];
  }
  return Ok{};
}

// `even`: before opset 18 all parts are equal; from then on the last may be smaller.
Result<void> split_evenly(Conversion& c, int axis, int64_t parts, bool even) {
  if (parts < 1) return c.invalid("E332", "no outputs");
  const Dim& length = c.type(0).shape[axis];
  Dim size = ceildiv(length, parts);
  if (auto exact = length.divided_by(parts)) {
    size = *exact;
  } else if (!length.is_constant()) {
    return c.unsupported(concat("an axis of size ", length.str(), " in ", parts, " parts"));
  } else if (even) {
    return c.invalid("E332", concat("an axis of size ", length.str(), " has no ", parts, " equal parts"));
  }
  std::vector<Dim> sizes(parts, size);
  sizes.back() = length - Dim(parts - 1) * size;
  if (sizes.back().is_constant() && sizes.back().constant() < 0)
    return c.invalid("E332", concat("an axis of size ", length.str(), " has no ", parts, " parts"));
  return split_into(c, axis, sizes);
}

Result<void> split(Conversion& c) {
  RTX_ASSIGN(int axis, c.axis(c.integer("axis", 0), c.rank(0)));
  if (c.node().opset < 13) {
    if (auto sizes = c.integer_list("split"))
      return split_into(c, axis, std::vector<Dim>(sizes->begin(), sizes->end()));
  } else if (c.has(1)) {
    RTX_ASSIGN(std::vector<Dim> sizes, c.dims(1));
    return split_into(c, axis, sizes);
  }
  int64_t outputs = static_cast<int64_t>(c.output_count());
  int64_t parts = c.integer("num_outputs", outputs);
  if (parts != outputs) return c.invalid("E332", concat("num_outputs is ", parts, ", but there are ", outputs));
  return split_evenly(c, axis, parts, c.node().opset < 18);
}

}  // namespace

constinit const Converter movement_converters[] = {
    {"Reshape", 1, reshape_1, moves_first, "shape consumed_inputs"},
    {"Reshape", 5, reshape_5, moves_first, "", 2, 2},
    {"Reshape", 14, reshape_5, moves_first, "allowzero", 2, 2},
    {"Flatten", 1, flatten, moves_first, "axis"},
    {"Squeeze", 1, squeeze, moves_first, "axes"},
    {"Squeeze", 13, squeeze, moves_first, "", 1, 2},
    {"Unsqueeze", 1, unsqueeze, moves_first, "axes"},
    {"Unsqueeze", 13, unsqueeze, moves_first, "", 2, 2},
    {"Transpose", 1, transpose, moves_first, "perm"},
    {"Expand", 8, expand, moves_first, "", 2, 2},
    {"Tile", 6, tile, moves_first, "", 2, 2},
    {"Concat", 4, concat_inputs, moves_all, "axis", 1, any_number},
    {"Split", 2, split, moves_first, "axis split", 1, 1, "", any_number},
    {"Split", 13, split, moves_first, "axis", 1, 2, "", any_number},
    {"Split", 18, split, moves_first, "axis num_outputs", 1, 2, "", any_number},
};
std::span<const Converter> movement_table() { return movement_converters; }

}  // namespace rtx::onnx
