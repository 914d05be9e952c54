#include "frontend/onnx_types.h"

namespace rtx::onnx {
namespace {

constexpr OnnxType types[] = {
    {1, "float", 32, DType::f32},
    {2, "uint8", 8, DType::u8},
    {3, "int8", 8, DType::i8},
    {4, "uint16", 16, std::nullopt},
    {5, "int16", 16, DType::i16},
    {6, "int32", 32, DType::i32},
    {7, "int64", 64, DType::i64},
    {8, "string", 0, std::nullopt},
    {9, "bool", 8, DType::boolean},
    {10, "float16", 16, DType::f16},
    {11, "double", 64, DType::f64},
    {12, "uint32", 32, std::nullopt},
    {13, "uint64", 64, std::nullopt},
    {14, "complex64", 64, std::nullopt},
    {15, "complex128", 128, std::nullopt},
    {16, "bfloat16", 16, DType::bf16},
    {17, "float8e4m3fn", 8, DType::f8e4m3},
    {18, "float8e4m3fnuz", 8, std::nullopt},
    {19, "float8e5m2", 8, DType::f8e5m2},
    {20, "float8e5m2fnuz", 8, std::nullopt},
    {21, "uint4", 4, DType::u4},
    {22, "int4", 4, DType::i4},
    {23, "float4e2m1", 4, std::nullopt},
    {24, "float8e8m0", 8, std::nullopt},
    {25, "uint2", 2, std::nullopt},
    {26, "int2", 2, std::nullopt},
    {27, "float6e2m3", 0, std::nullopt},
    {28, "float6e3m2", 0, std::nullopt},
};

}  // namespace

const OnnxType* find_onnx_type(int64_t number) {
  for (const OnnxType& type : types)
    if (type.number == number) return &type;
  return nullptr;
}

std::optional<DType> dtype_of(int64_t number) {
  const OnnxType* type = find_onnx_type(number);
  return type ? type->dtype : std::nullopt;
}

}  // namespace rtx::onnx
