// QuantizeLinear, DequantizeLinear and DynamicQuantizeLinear.

#include "frontend/converters/quantization_parts.h"
#include "frontend/converters/tables.h"
#include "frontend/onnx_types.h"

namespace rtx::onnx {
namespace {

// The dtype that an attribute of ONNX type numbers names; `fallback` where it is 0 or missing.
Result<DType> dtype_attribute(Conversion& c, std::string_view name, DType fallback) {
  int64_t number = c.integer(name, 0);
  if (number == 0) return fallback;
  const OnnxType* type = find_onnx_type(number);
  if (!type) return c.invalid("E321", concat(name, " ", number, " is no element type"));
  if (!type->dtype) return c.unsupported(concat(name, " ", type->name));
  return *type->dtype;
}

Result<void> quantize_linear(Conversion& c) {
  RTX_ASSIGN(Value * x, c.input(0));
  RTX_ASSIGN(Value * scale, c.input(1));
  RTX_ASSIGN(Value * zero, optional_input(c, 2));
  RTX_ASSIGN(DType to, dtype_attribute(c, "output_dtype", zero ? zero->type.dtype : DType::u8));
  if (zero && zero->type.dtype != to)
    return c.invalid("E321", "output_dtype differs from the type of the zero point").with_got(zero->type.str());
  // ONNX divides in the type of the scale unless `precision` says otherwise; onnxruntime's own operator in f32.
  DType wide = scale->type.dtype;
  if (!c.node().domain.empty() && wide != DType::f64) wide = DType::f32;
  RTX_ASSIGN(wide, dtype_attribute(c, "precision", wide));
  if (!float_dtype(wide)) return c.invalid("E321", concat("precision ", to_string(wide)));
  RTX_ASSIGN(scale, c.cast(scale, wide));
  RTX_ASSIGN(Value * y, quantized(c, x,
                                  {.scale = scale,
                                   .zero = zero,
                                   .axis = c.integer("axis", 1),
                                   .block_size = c.integer("block_size", 0),
                                   .saturate = c.integer("saturate", 1) != 0},
                                  to));
  c.set(0, y);
  return Ok{};
}

Result<void> dequantize_linear(Conversion& c) {
  RTX_ASSIGN(Value * x, c.input(0));
  RTX_ASSIGN(Value * scale, c.input(1));
  RTX_ASSIGN(Value * zero, optional_input(c, 2));
  RTX_ASSIGN(DType to, dtype_attribute(c, "output_dtype", scale->type.dtype));
  if (!float_dtype(to)) return c.invalid("E321", concat("output_dtype ", to_string(to)));
  RTX_ASSIGN(
      Value * y,
      dequantized(
          c, x, {.scale = scale, .zero = zero, .axis = c.integer("axis", 1), .block_size = c.integer("block_size", 0)},
          to));
  c.set(0, y);
  return Ok{};
}

Result<void> dynamic_quantize_linear(Conversion& c) {
  RTX_ASSIGN(Value * x, c.input(0));
  RTX_ASSIGN(DynamicallyQuantized q, quantized_dynamically(c, x));
  c.set(0, q.value);
  if (c.wants(1)) c.set(1, q.scale);
  if (c.wants(2)) c.set(2, q.zero);
  return Ok{};
}

constexpr std::string_view microsoft = "com.microsoft";
constexpr std::string_view quantize_21 = "axis saturate block_size output_dtype";
constexpr std::string_view quantize_23 = "axis saturate block_size output_dtype precision";

}  // namespace

constinit const Converter quantization_converters[] = {
    {"QuantizeLinear", 10, quantize_linear, never, "", 2, 3},
    {"QuantizeLinear", 13, quantize_linear, never, "axis", 2, 3},
    {"QuantizeLinear", 19, quantize_linear, never, "axis saturate", 2, 3},
    {"QuantizeLinear", 21, quantize_linear, never, quantize_21, 2, 3},
    {"QuantizeLinear", 23, quantize_linear, never, quantize_23, 2, 3},
    {"DequantizeLinear", 10, dequantize_linear, never, "", 2, 3},
    {"DequantizeLinear", 13, dequantize_linear, never, "axis", 2, 3},
    {"DequantizeLinear", 21, dequantize_linear, never, "axis block_size", 2, 3},
    {"DequantizeLinear", 23, dequantize_linear, never, "axis block_size output_dtype", 2, 3},
    {"DynamicQuantizeLinear", 11, dynamic_quantize_linear, never, "", 1, 1, "", 3},
    {"QuantizeLinear", 1, quantize_linear, never, "axis", 2, 3, microsoft},
    {"DequantizeLinear", 1, dequantize_linear, never, "axis", 2, 3, microsoft},
};
std::span<const Converter> quantization_table() { return quantization_converters; }

}  // namespace rtx::onnx
