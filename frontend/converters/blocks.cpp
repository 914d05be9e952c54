// Operators that regroup the axes of an image or cut and pad around its centre.

#include "frontend/converters/tables.h"

namespace rtx::onnx {
namespace {

Result<int64_t> block_size(Conversion& c) {
  int64_t block = c.integer("blocksize", 0);
  if (block < 1 || block >= int64_t{1} << 15) return c.invalid("E321", concat("attribute blocksize is ", block));
  RTX_TRY(c.need_rank(size_t{0}, 4));
  return block;
}

Result<bool> blocks_slowest(Conversion& c) {
  std::string mode = c.string("mode", "DCR");
  if (mode != "DCR" && mode != "CRD") return c.invalid("E321", concat("attribute mode is '", escape_text(mode), "'"));
  return mode == "DCR";
}

// [N, C, H, W] -> [N, C / b^2, H * b, W * b]; DCR: the blocks vary slowest in C, CRD: fastest.
Result<void> depth_to_space(Conversion& c) {
  RTX_ASSIGN(int64_t b, block_size(c));
  RTX_ASSIGN(bool dcr, blocks_slowest(c));
  RTX_ASSIGN(Value * x, c.input(0));
  const Shape shape = x->type.shape;
  auto depth = shape[1].divided_by(b * b);
  if (!depth)
    return c.invalid("E327", concat(shape[1].str(), " channels are no multiple of the ", b * b, " of a block"));
  Value* y = nullptr;
  if (dcr) {
    RTX_ASSIGN(y, c.reshape(x, {shape[0], b, b, *depth, shape[2], shape[3]}));
    RTX_ASSIGN(y, c.transpose(y, {0, 3, 4, 1, 5, 2}));
  } else {
    RTX_ASSIGN(y, c.reshape(x, {shape[0], *depth, b, b, shape[2], shape[3]}));
    RTX_ASSIGN(y, c.transpose(y, {0, 1, 4, 2, 5, 3}));
  }
  RTX_ASSIGN(y, c.reshape(y, {shape[0], *depth, shape[2] * Dim(b), shape[3] * Dim(b)}));
  c.set(0, y);
  return Ok{};
}

// [N, C, H, W] -> [N, C * b^2, H / b, W / b], the inverse.
Result<void> space_to_depth(Conversion& c) {
  RTX_ASSIGN(int64_t b, block_size(c));
  RTX_ASSIGN(bool dcr, blocks_slowest(c));
  RTX_ASSIGN(Value * x, c.input(0));
  const Shape shape = x->type.shape;
  auto height = shape[2].divided_by(b), width = shape[3].divided_by(b);
  if (!height || !width) return c.invalid("E327", concat("height or width is no multiple of blocksize ", b));
  RTX_ASSIGN(Value * y, c.reshape(x, {shape[0], shape[1], *height, b, *width, b}));
  RTX_ASSIGN(y, c.transpose(y, dcr ? std::vector<int64_t>{0, 3, 5, 1, 2, 4} : std::vector<int64_t>{0, 1, 3, 5, 2, 4}));
  RTX_ASSIGN(y, c.reshape(y, {shape[0], shape[1] * Dim(b * b), *height, *width}));
  c.set(0, y);
  return Ok{};
}

// Each axis cut to, or padded with zeros to, the wanted size; of an odd difference the larger half is at the end.
Result<void> center_crop_pad(Conversion& c) {
  int rank = c.rank(0);
  std::vector<int64_t> listed = c.integer_list("axes").value_or(std::vector<int64_t>{});
  if (!c.has_attribute("axes"))
    for (int i = 0; i < rank; ++i) listed.push_back(i);
  RTX_ASSIGN(std::vector<Dim> sizes, c.dims(1));
  if (sizes.size() != listed.size())
    return c.invalid("E332", concat("shape has ", sizes.size(), " entries for ", listed.size(), " axes"));
  RTX_TRY(c.axes(listed, rank));  // none twice
  RTX_ASSIGN(Value * x, c.input(0));
  Shape low(rank, 0), high(rank, 0);
  bool pads = false;
  for (size_t i = 0; i < listed.size(); ++i) {
    RTX_ASSIGN(int axis, c.axis(listed[i], rank));
    Dim length = x->type.shape[axis], size = sizes[i], more = size - length;
    if (more.is(0)) continue;
    if (more.upper_bound(c.ranges()) <= 0) {
      RTX_ASSIGN(x, c.slice(x, axis, floordiv(length - size, 2), size));
    } else if (more.lower_bound(c.ranges()) >= 0) {
      low[axis] = floordiv(more, 2);
      high[axis] = more - low[axis];
      pads = true;
    } else {
      return c.unsupported(concat("an axis of size ", length.str(), " to ", size.str(), ", which may be more or less"));
    }
  }
  if (pads) {
    RTX_ASSIGN(Value * zero, c.scalar(x->type.dtype, 0));
    RTX_ASSIGN(x, c.emit(Op::pad, {x, zero}, {{"low", low}, {"high", high}}));
  }
  RTX_ASSIGN(Value * given, c.input(0));
  if (x == given)
    c.alias(0, 0);
  else
    c.set(0, x);
  return Ok{};
}

}  // namespace

constinit const Converter blocks_converters[] = {
    {"DepthToSpace", 1, depth_to_space, never, "blocksize"},
    {"DepthToSpace", 11, depth_to_space, never, "blocksize mode"},
    {"SpaceToDepth", 1, space_to_depth, never, "blocksize"},
    {"SpaceToDepth", 28, space_to_depth, never, "blocksize mode"},
    {"CenterCropPad", 18, center_crop_pad, never, "axes", 2, 2},
};
std::span<const Converter> blocks_table() { return blocks_converters; }

}  // namespace rtx::onnx
