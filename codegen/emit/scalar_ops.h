// Elementwise operations as C expressions of register values.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "codegen/emit/kernel_writer.h"
#include "ir/module.h"

namespace rtx::codegen {

// The register value of an elementwise operation given those of its operands (names or literals), rounded to the
// result type; nullopt for operations that are not elementwise.
std::optional<std::string> scalar_expression(KernelWriter& writer, const Operation& operation,
                                             std::span<const std::string> operands);

// True if scalar_expression handles the operation.
bool is_scalar_op(Op op);

// Arithmetic operations counted for one element; a transcendental function counts as 8.
int flops_per_element(Op op);

}  // namespace rtx::codegen
