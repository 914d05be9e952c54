// Element types in generated CUDA: how they lie in memory, how they are held in registers, and the conversions.
//
// In memory an element has its own width (f16 and bf16 as unsigned short, bool as unsigned char). In registers f16,
// bf16 and the f8 forms are `float` that holds a value of the narrow type exactly; i16, i8, i4, u8 and u4 are `int`
// within their range; bool is `bool`.
#pragma once

#include <string>
#include <string_view>

#include "base/dtype.h"
#include "codegen/emit/kernel_writer.h"

namespace rtx::codegen {

std::string_view memory_type(DType dtype);
std::string_view register_type(DType dtype);
// Bytes of one element in memory; 0 for the 4-bit types, two of which share a byte.
int memory_bytes(DType dtype);

// Declares the struct { T e[width]; } whose load and store move `width` elements at once; its name.
std::string vector_type(KernelWriter& writer, DType dtype, int width);

// The register form of element `index` of `pointer`.
std::string load_expression(KernelWriter& writer, DType dtype, std::string_view pointer, std::string_view index);
// The register form of a value that already has the memory type.
std::string unpack_expression(KernelWriter& writer, DType dtype, std::string_view memory_value);
// The memory form of a register value. Not for 4-bit types.
std::string pack_expression(KernelWriter& writer, DType dtype, std::string_view register_value);

// `expression`, computed in the register type (or wider), brought back into the range and precision of the type.
std::string round_expression(KernelWriter& writer, DType dtype, std::string_view expression);
// The conversion of a register value between two types, as the `cast` operation defines it.
std::string cast_expression(KernelWriter& writer, DType from, DType to, bool saturate, std::string_view value);

// A literal of the register type that has exactly this value.
std::string float_literal(DType dtype, double value);
std::string integer_literal(DType dtype, int64_t value);

}  // namespace rtx::codegen
