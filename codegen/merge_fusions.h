// fused -> fused: a pointwise fusion moves into the one fusion that reads it, where each of its elements is still
// computed once:
//
//   pointwise -> elementwise     of the same shape
//   pointwise -> transpose       also through a reshape, which then stands in the body
//   elementwise -> row           as what is done to a row before it is reduced (residual + norm, mask + softmax)
//
// A value that is read twice, or is an output, stays where it is. Values keep their rounding, so results keep their
// bits under the evaluator.
#pragma once

#include "ir/module.h"

namespace rtx::codegen {

// `module` is in stage fused and stays there. Returns whether anything was merged.
bool merge_fusions(Module& module);

}  // namespace rtx::codegen
