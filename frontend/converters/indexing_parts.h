// What gathers and scatters share.
#pragma once

#include "frontend/converters/tables.h"

namespace rtx::onnx {

// E333 for a constant index outside [-n, n) (H31). Index i of input 1 is for an axis of length lengths[i % count].
Result<void> check_indices(Conversion& c, std::span<const Dim> lengths);

// The axes that index tuples of length `depth` choose in `data`; none where the depth is not valid.
std::span<const Dim> indexed_axes(const Shape& data, const Shape& indices, size_t batch_dims);

}  // namespace rtx::onnx
