// Resize: along each axis a product with a constant matrix [out, in]. The sizes of resized axes must be constants.

#include <algorithm>
#include <cmath>
#include <limits>

#include "frontend/converters/tables.h"

namespace rtx::onnx {
namespace {

struct ResizeForm {
  std::string mode, coordinates, nearest;
  double cubic_a, extrapolation;
  bool exclude_outside, antialias;
};

double source_position(const ResizeForm& form, double x, double scale, double out, double in, double start,
                       double end) {
  if (form.coordinates == "asymmetric") return x / scale;
  if (form.coordinates == "align_corners") {
    // The length that the scale gives, which may lie between integers; `out` where it is one but for rounding.
    double length = scale * in;
    if (std::abs(length - out) < 1e-9 * out) length = out;
    return length == 1 ? 0 : x * (in - 1) / (length - 1);
  }
  if (form.coordinates == "pytorch_half_pixel") return out > 1 ? (x + 0.5) / scale - 0.5 : 0;
  if (form.coordinates == "tf_half_pixel_for_nn") return (x + 0.5) / scale;
  if (form.coordinates == "half_pixel_symmetric") {
    // The output is centred where the scale does not divide evenly.
    double adjustment = out / (scale * in), centre = in / 2, offset = centre * (1 - adjustment);
    return offset + (x + 0.5) / scale - 0.5;
  }
  if (form.coordinates == "tf_crop_and_resize")
    return out > 1 ? start * (in - 1) + x * (end - start) * (in - 1) / (out - 1) : 0.5 * (start + end) * (in - 1);
  return (x + 0.5) / scale - 0.5;
}

int64_t nearest_index(const ResizeForm& form, double position) {
  if (form.nearest == "floor") return static_cast<int64_t>(std::floor(position));
  if (form.nearest == "ceil") return static_cast<int64_t>(std::ceil(position));
  bool half = position - std::floor(position) == 0.5;
  if (half)
    return static_cast<int64_t>(form.nearest == "round_prefer_ceil" ? std::ceil(position) : std::floor(position));
  return static_cast<int64_t>(std::round(position));
}

// Weight of a sample at `distance`.
double kernel(const ResizeForm& form, double distance) {
  double d = std::abs(distance), a = form.cubic_a;
  if (form.mode == "linear") return std::max(0.0, 1 - d);
  if (d <= 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
  if (d < 2) return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a;
  return 0;
}

// One row of the matrix: the weights of the inputs for output x.
void fill_row(const ResizeForm& form, double position, double scale, int64_t in, double* row) {
  if (form.mode == "nearest") {
    row[std::clamp<int64_t>(nearest_index(form, position), 0, in - 1)] = 1;
    return;
  }
  double stretch = form.antialias && scale < 1 ? scale : 1;
  double reach = (form.mode == "linear" ? 1 : 2) / stretch;
  int64_t first = static_cast<int64_t>(std::floor(position - reach)) + 1;
  int64_t last = static_cast<int64_t>(std::ceil(position + reach)) - 1;
  double sum = 0;
  for (int64_t i = first; i <= last; ++i) {
    if (form.exclude_outside && (i < 0 || i >= in)) continue;
    double weight = kernel(form, (static_cast<double>(i) - position) * stretch);
    sum += weight;
    row[std::clamp<int64_t>(i, 0, in - 1)] += weight;
  }
  if (form.exclude_outside || stretch != 1)
    for (int64_t i = 0; i < in && sum != 0; ++i) row[i] /= sum;
}

struct AxisPlan {
  int axis;
  int64_t out;
  double scale, start = 0, end = 1;
};

Result<Value*> resize_axis(Conversion& c, Value* x, const ResizeForm& form, const AxisPlan& plan) {
  int rank = x->type.rank();
  int64_t in = x->type.shape[plan.axis].constant();
  if (in == 0 || plan.out < 0) return c.invalid("E321", "Resize of an empty axis");
  if (plan.out != 0 && in > (int64_t{1} << 28) / plan.out) return c.unsupported("a matrix of more than 2^28 weights");
  Tensor weights(DType::f64, {plan.out, in});
  Tensor outside(DType::f64, {plan.out});
  bool any_outside = false;
  std::vector<double> row(in);
  for (int64_t i = 0; i < plan.out; ++i) {
    double position = source_position(form, static_cast<double>(i), plan.scale, static_cast<double>(plan.out),
                                      static_cast<double>(in), plan.start, plan.end);
    std::fill(row.begin(), row.end(), 0);
    if (form.coordinates == "tf_crop_and_resize" && (position < 0 || position > static_cast<double>(in - 1))) {
      outside.set_f64(i, 1);
      any_outside = true;
    } else {
      fill_row(form, position, plan.scale, in, row.data());
    }
    for (int64_t k = 0; k < in; ++k) weights.set_f64(i * in + k, row[k]);
  }
  // x with the axis last, times the matrix transposed.
  std::vector<int64_t> perm;
  for (int i = 0; i < rank; ++i)
    if (i != plan.axis) perm.push_back(i);
  perm.push_back(plan.axis);
  DType dtype = x->type.dtype;
  Value* y = nullptr;
  if (form.mode == "nearest") {
    Tensor indices(DType::i64, {plan.out});
    for (int64_t i = 0; i < plan.out; ++i)
      for (int64_t k = 0; k < in; ++k)
        if (weights.f64(i * in + k) != 0) indices.set_i64(i, k);
    RTX_ASSIGN(Value * index, c.constant(std::move(indices)));
    RTX_ASSIGN(y, c.emit(Op::gather, {x, index}, {{"axis", static_cast<int64_t>(plan.axis)}}));
  } else {
    DType wide = dtype == DType::f64 ? DType::f64 : DType::f32;
    Tensor matrix(wide, weights.shape);
    for (int64_t i = 0; i < weights.element_count(); ++i) matrix.set_f64(i, weights.f64(i));
    RTX_ASSIGN(Value * m, c.constant(std::move(matrix)));
    RTX_ASSIGN(y, c.cast(x, wide));
    RTX_ASSIGN(y, c.transpose(y, perm));
    Shape shape = y->type.shape;
    Dim rows = 1;
    for (int i = 0; i + 1 < rank; ++i) rows = rows * shape[i];
    RTX_ASSIGN(y, c.reshape(y, {rows, in}));
    RTX_ASSIGN(y, c.emit(Op::matmul, {y, m}, {{"transpose_rhs", true}}));
    shape[rank - 1] = plan.out;
    RTX_ASSIGN(y, c.reshape(y, std::move(shape)));
    std::vector<int64_t> back(rank);
    for (int i = 0; i < rank; ++i) back[perm[i]] = i;
    RTX_ASSIGN(y, c.transpose(y, std::move(back)));
    RTX_ASSIGN(y, c.cast(y, dtype));
  }
  if (!any_outside) return y;
  Shape column(rank, 1);
  column[plan.axis] = plan.out;
  RTX_ASSIGN(Value * flags, c.constant(std::move(outside)));
  RTX_ASSIGN(flags, c.cast(flags, DType::boolean));
  RTX_ASSIGN(flags, c.reshape(flags, std::move(column)));
  RTX_ASSIGN(Value * fill, c.scalar(dtype, form.extrapolation));
  return c.emit(Op::select, {flags, fill, y});
}

bool given(Conversion& c, size_t index) { return c.has(index) && !c.type(index).element_count().is(0); }

Result<std::vector<double>> constants(Conversion& c, size_t index) {
  RTX_ASSIGN(Tensor tensor, c.constant_input(index));
  std::vector<double> values;
  for (int64_t i = 0; i < tensor.element_count(); ++i) values.push_back(tensor.f64(i));
  return values;
}

Result<void> resize(Conversion& c) {
  // Upsample-7: X, with the scales in an attribute. Upsample-9, Resize-10: X, scales. From 11: X, roi, scales, sizes.
  const bool listed = c.has_attribute("scales");
  const bool first_form = c.node().op_type == "Upsample" || c.node().opset < 11;
  size_t scales_input = first_form ? 1 : 2;
  ResizeForm form{c.string("mode", "nearest"),
                  c.string("coordinate_transformation_mode", first_form ? "asymmetric" : "half_pixel"),
                  c.string("nearest_mode", first_form ? "floor" : "round_prefer_floor"),
                  c.real("cubic_coeff_a", -0.75),
                  c.real("extrapolation_value", 0),
                  c.integer("exclude_outside", 0) != 0,
                  c.integer("antialias", 0) != 0};
  if (form.mode != "nearest" && form.mode != "linear" && form.mode != "cubic")
    return c.invalid("E321", concat("mode '", escape_text(form.mode), "' of Resize"));
  int rank = c.rank(0);
  std::vector<int64_t> axes(rank);
  for (int i = 0; i < rank; ++i) axes[i] = i;
  if (auto chosen = c.integer_list("axes")) {
    axes = *chosen;
    for (int64_t& axis : axes) {
      RTX_ASSIGN(axis, c.axis(axis, rank));
    }
  }
  std::vector<double> scales, sizes, roi;
  if (!first_form && given(c, 3)) {
    RTX_ASSIGN(sizes, constants(c, 3));
  } else if (listed) {
    if (const auto* list = c.attribute<std::vector<float>>("scales")) scales.assign(list->begin(), list->end());
  } else {
    if (!given(c, scales_input)) return c.invalid("E221", "Resize needs scales or sizes");
    RTX_ASSIGN(scales, constants(c, scales_input));
  }
  if (form.coordinates == "tf_crop_and_resize") {
    if (!given(c, 1)) return c.invalid("E221", "tf_crop_and_resize needs the input roi");
    RTX_ASSIGN(roi, constants(c, 1));
    if (roi.size() != 2 * axes.size()) return c.invalid("E332", "roi needs two entries for each axis");
  }
  if ((sizes.empty() ? scales : sizes).size() != axes.size())
    return c.invalid("E332", "the scales or sizes input needs one entry for each axis");
  std::string policy = c.string("keep_aspect_ratio_policy", "stretch");

  std::vector<AxisPlan> plans;
  for (size_t i = 0; i < axes.size(); ++i) {
    int axis = static_cast<int>(axes[i]);
    const Dim& length = c.type(0).shape[axis];
    bool crops = !roi.empty() && (roi[i] != 0 || roi[axes.size() + i] != 1);
    if (sizes.empty() && scales[i] == 1 && !crops) continue;
    if (!length.is_constant()) return c.unsupported(concat("Resize of an axis of size ", length.str()));
    double in = static_cast<double>(length.constant());
    AxisPlan plan{axis, 0, sizes.empty() ? scales[i] : sizes[i] / in};
    if (!(plan.scale > 0) || !(plan.scale < 1e9))
      return c.invalid("E321", concat("scale ", plan.scale, " of axis ", axis));
    if (!roi.empty()) {
      plan.start = roi[i];
      plan.end = roi[axes.size() + i];
    }
    double extent = roi.empty() ? 1 : plan.end - plan.start;
    // In the type of the scales: 5 * 2.6f is 13.
    plan.out = sizes.empty() ? static_cast<int64_t>(static_cast<float>(in * extent) * static_cast<float>(plan.scale))
                             : static_cast<int64_t>(sizes[i]);
    plans.push_back(plan);
  }
  if (policy != "stretch" && !sizes.empty()) {
    bool larger = policy == "not_smaller";
    double scale = larger ? 0 : std::numeric_limits<double>::infinity();
    for (const AxisPlan& plan : plans) scale = larger ? std::max(scale, plan.scale) : std::min(scale, plan.scale);
    for (AxisPlan& plan : plans) {
      plan.scale = scale;
      plan.out =
          static_cast<int64_t>(std::floor(scale * static_cast<double>(c.type(0).shape[plan.axis].constant()) + 0.5));
    }
  }
  RTX_ASSIGN(Value * x, c.input(0));
  Value* y = x;
  for (const AxisPlan& plan : plans) {
    bool same = y->type.shape[plan.axis].is(plan.out) && plan.scale == 1 && plan.start == 0 && plan.end == 1;
    if (same) continue;
    RTX_ASSIGN(y, resize_axis(c, y, form, plan));
  }
  if (y == x)
    c.alias(0, 0);
  else
    c.set(0, y);
  return Ok{};
}

constexpr std::string_view resize_11 =
    "mode coordinate_transformation_mode cubic_coeff_a exclude_outside extrapolation_value nearest_mode";
constexpr std::string_view resize_18 =
    "mode coordinate_transformation_mode cubic_coeff_a exclude_outside extrapolation_value nearest_mode antialias axes "
    "keep_aspect_ratio_policy";

}  // namespace

constinit const Converter resize_converters[] = {
    {"Upsample", 7, resize, never, "mode scales", 1, 1}, {"Upsample", 9, resize, never, "mode", 2, 2},
    {"Resize", 10, resize, never, "mode", 2, 2},         {"Resize", 11, resize, never, resize_11, 1, 4},
    {"Resize", 18, resize, never, resize_18, 1, 4},
};
std::span<const Converter> resize_table() { return resize_converters; }

}  // namespace rtx::onnx
