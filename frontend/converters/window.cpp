// Window functions of signal processing: tables that depend on a size alone.

#include <numbers>

#include "frontend/converters/tables.h"
#include "frontend/onnx_types.h"

namespace rtx::onnx {
namespace {

// a - b * cos(t) + c * cos(2 * t)
struct Cosines {
  double a, b, c;
};

// t = 2 * pi * n / N for n < size; N is the size, or size - 1 where the window is symmetric.
Result<void> window(Conversion& c, Cosines form) {
  const OnnxType* type = find_onnx_type(c.integer("output_datatype", 1));
  auto dtype = dtype_of(c.integer("output_datatype", 1));
  if (!dtype) return c.unsupported(concat("output_datatype ", type ? type->name : "that does not exist"));
  const Contents* known = c.contents(0);
  if (!known || known->elements.size() != 1 || !known->all_known()) return c.depends_on_data(0);
  auto size = known->elements[0].as_dim();
  if (!size || (size->is_constant() && size->constant() < 0)) return c.invalid("E321", "size is not a whole number");
  DType wide = *dtype == DType::f64 || !is_float(*dtype) ? DType::f64 : DType::f32;
  RTX_ASSIGN(Value * n, c.iota(wide, 1, 0, *size));
  RTX_ASSIGN(Value * length, c.dim_scalar(c.integer("periodic", 1) != 0 ? *size : *size - Dim(1)));
  RTX_ASSIGN(length, c.cast(length, wide));
  RTX_ASSIGN(Value * turn, c.scalar(wide, 2 * std::numbers::pi));
  RTX_ASSIGN(Value * t, c.emit(Op::div, {n, length}));
  RTX_ASSIGN(t, c.emit(Op::mul, {t, turn}));
  RTX_ASSIGN(Value * y, c.emit(Op::cos, {t}));
  RTX_ASSIGN(Value * a, c.scalar(wide, form.a));
  RTX_ASSIGN(Value * b, c.scalar(wide, form.b));
  RTX_ASSIGN(y, c.emit(Op::mul, {y, b}));
  RTX_ASSIGN(y, c.emit(Op::sub, {a, y}));
  if (form.c != 0) {
    RTX_ASSIGN(Value * factor, c.scalar(wide, form.c));
    RTX_ASSIGN(t, c.emit(Op::add, {t, t}));
    RTX_ASSIGN(t, c.emit(Op::cos, {t}));
    RTX_ASSIGN(t, c.emit(Op::mul, {t, factor}));
    RTX_ASSIGN(y, c.emit(Op::add, {y, t}));
  }
  RTX_ASSIGN(y, c.cast(y, *dtype));
  c.set(0, y);
  return Ok{};
}

Result<void> hann(Conversion& c) { return window(c, {0.5, 0.5, 0}); }
Result<void> hamming(Conversion& c) { return window(c, {25.0 / 46, 21.0 / 46, 0}); }
Result<void> blackman(Conversion& c) { return window(c, {0.42, 0.5, 0.08}); }

}  // namespace

constinit const Converter window_converters[] = {
    {"HannWindow", 17, hann, never, "output_datatype periodic"},
    {"HammingWindow", 17, hamming, never, "output_datatype periodic"},
    {"BlackmanWindow", 17, blackman, never, "output_datatype periodic"},
};
std::span<const Converter> window_table() { return window_converters; }

}  // namespace rtx::onnx
