#include "codegen/emit/c_types.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/text.h"

namespace rtx::codegen {
namespace {

struct CType {
  std::string_view memory, in_register;
  int bytes;
};

// In the order of DType.
constexpr CType c_types[dtype_count] = {
    {"double", "double", 8},        {"float", "float", 4},       {"unsigned short", "float", 2},  // f16
    {"unsigned short", "float", 2},                                                               // bf16
    {"unsigned char", "float", 1},                                                                // f8e4m3
    {"unsigned char", "float", 1},                                                                // f8e5m2
    {"long long", "long long", 8},  {"int", "int", 4},           {"short", "int", 2},
    {"signed char", "int", 1},      {"unsigned char", "int", 1},  // u8
    {"unsigned char", "int", 0},                                  // u4
    {"unsigned char", "int", 0},                                  // i4
    {"unsigned char", "bool", 1},
};

const CType& c_type(DType dtype) { return c_types[static_cast<int>(dtype)]; }

std::string to_f8(KernelWriter& writer, DType dtype, std::string_view value, bool saturate) {
  const char* name = dtype == DType::f8e4m3 ? "rtx_f32_to_f8e4m3" : "rtx_f32_to_f8e5m2";
  return concat(writer.call(name), "(", value, saturate ? ", true)" : ", false)");
}

std::string from_f8(KernelWriter& writer, DType dtype, std::string_view value) {
  return concat(writer.call(dtype == DType::f8e4m3 ? "rtx_f8e4m3_to_f32" : "rtx_f8e5m2_to_f32"), "(", value, ")");
}

bool is_f8(DType dtype) { return dtype == DType::f8e4m3 || dtype == DType::f8e5m2; }

}  // namespace

std::string_view memory_type(DType dtype) { return c_type(dtype).memory; }
std::string_view register_type(DType dtype) { return c_type(dtype).in_register; }
int memory_bytes(DType dtype) { return c_type(dtype).bytes; }

std::string vector_type(KernelWriter& writer, DType dtype, int width) {
  std::string element(memory_type(dtype)), name = element;
  std::replace(name.begin(), name.end(), ' ', '_');
  name = concat("rtx_", name, "_x", width);
  writer.declare(
      concat("struct __align__(", memory_bytes(dtype) * width, ") ", name, " { ", element, " e[", width, "]; };"));
  return name;
}

std::string load_expression(KernelWriter& writer, DType dtype, std::string_view pointer, std::string_view index) {
  if (dtype == DType::u4 || dtype == DType::i4) {
    const std::string low = concat(writer.call("rtx_load_u4"), "(", pointer, ", ", index, ")");
    return dtype == DType::u4 ? low : concat(writer.call("rtx_sign_extend_4"), "(", low, ")");
  }
  return unpack_expression(writer, dtype, concat(pointer, "[", index, "]"));
}

std::string unpack_expression(KernelWriter& writer, DType dtype, std::string_view value) {
  switch (dtype) {
    case DType::f16:
      return concat(writer.call("rtx_f16_to_f32"), "(", value, ")");
    case DType::bf16:
      return concat(writer.call("rtx_bf16_to_f32"), "(", value, ")");
    case DType::f8e4m3:
    case DType::f8e5m2:
      return from_f8(writer, dtype, value);
    case DType::boolean:
      return concat(value, " != 0");
    case DType::f64:
    case DType::f32:
    case DType::i64:
    case DType::i32:
    case DType::i16:
    case DType::i8:
    case DType::u8:
    case DType::u4:
    case DType::i4:
      return std::string(value);
  }
  return {};
}

std::string pack_expression(KernelWriter& writer, DType dtype, std::string_view value) {
  switch (dtype) {
    case DType::f16:
      return concat(writer.call("rtx_f32_to_f16"), "(", value, ")");
    case DType::bf16:
      return concat(writer.call("rtx_f32_to_bf16"), "(", value, ")");
    case DType::f8e4m3:
    case DType::f8e5m2:
      return to_f8(writer, dtype, value, false);
    case DType::i16:
    case DType::i8:
    case DType::u8:
    case DType::boolean:
      return concat("(", memory_type(dtype), ")", value);
    case DType::f64:
    case DType::f32:
    case DType::i64:
    case DType::i32:
    case DType::u4:
    case DType::i4:
      return std::string(value);
  }
  return {};
}

std::string round_expression(KernelWriter& writer, DType dtype, std::string_view expression) {
  switch (dtype) {
    case DType::f16:
      return concat(writer.call("rtx_round_f16"), "(", expression, ")");
    case DType::bf16:
      return concat(writer.call("rtx_round_bf16"), "(", expression, ")");
    case DType::f8e4m3:
    case DType::f8e5m2:
      return from_f8(writer, dtype, to_f8(writer, dtype, expression, true));
    case DType::i16:
    case DType::i8:
    case DType::u8:
      return concat("(", memory_type(dtype), ")(", expression, ")");
    case DType::u4:
      return concat("(int)(", expression, ") & 15");
    case DType::i4:
      return concat(writer.call("rtx_sign_extend_4"), "((int)(", expression, "))");
    case DType::f64:
    case DType::f32:
    case DType::i64:
    case DType::i32:
    case DType::boolean:
      return std::string(expression);
  }
  return {};
}

std::string cast_expression(KernelWriter& writer, DType from, DType to, bool saturate, std::string_view value) {
  if (from == to) return std::string(value);
  if (to == DType::boolean) return concat(value, " != 0");
  if (is_float(to)) {
    if (to == DType::f64) return concat("(double)", value);
    const std::string narrow =
        from == DType::f32 || memory_bytes(from) < 4 ? std::string(value) : concat("(float)", value);
    const std::string single = register_type(from) == "float" ? narrow : concat("(float)", value);
    if (to == DType::f32) return single;
    if (is_f8(to)) return from_f8(writer, to, to_f8(writer, to, single, saturate));
    return round_expression(writer, to, single);
  }
  if (is_float(from)) {
    switch (to) {
      case DType::i64:
        return concat(writer.call("rtx_to_i64"), "(", value, ")");
      case DType::i32:
        return concat(writer.call("rtx_to_int"), "(", value, ", -2147483648.0, 2147483647.0)");
      case DType::i16:
        return concat(writer.call("rtx_to_int"), "(", value, ", -32768.0, 32767.0)");
      case DType::i8:
        return concat(writer.call("rtx_to_int"), "(", value, ", -128.0, 127.0)");
      case DType::u8:
        return concat(writer.call("rtx_to_int"), "(", value, ", 0.0, 255.0)");
      default:  // 4-bit: the low bits of an i32
        return round_expression(writer, to, cast_expression(writer, from, DType::i32, saturate, value));
    }
  }
  if (to == DType::i64) return concat("(long long)", value);
  if (to == DType::i32) return concat("(int)", value);
  return round_expression(writer, to, value);
}

std::string float_literal(DType dtype, double value) {
  const bool is_double = dtype == DType::f64;
  if (std::isnan(value))
    return is_double ? "__longlong_as_double(0x7ff8000000000000LL)" : "__uint_as_float(0x7fc00000u)";
  if (std::isinf(value)) {
    if (is_double) {
      return value > 0 ? "__longlong_as_double(0x7ff0000000000000LL)" : "__longlong_as_double(0xfff0000000000000LL)";
    }
    return value > 0 ? "__uint_as_float(0x7f800000u)" : "__uint_as_float(0xff800000u)";
  }
  char text[64];
  // 9 (17) significant digits identify a float (double).
  std::snprintf(text, sizeof text, is_double ? "%.17g" : "%.9g", value);
  std::string literal = text;
  if (literal.find_first_of(".e") == std::string::npos) literal += ".0";
  if (!is_double) literal += "f";
  return std::signbit(value) ? concat("(", literal, ")") : literal;
}

std::string integer_literal(DType dtype, int64_t value) {
  if (dtype == DType::boolean) return value ? "true" : "false";
  if (value == INT64_MIN) return "(-9223372036854775807LL - 1)";
  if (dtype == DType::i64) return value < 0 ? concat("(", value, "LL)") : concat(value, "LL");
  if (value == INT32_MIN) return "(-2147483647 - 1)";
  return value < 0 ? concat("(", value, ")") : concat(value);
}

}  // namespace rtx::codegen
