// Which operations convert_precision moves to half precision, and why products stay in f32.
#pragma once

#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "passes/pass.h"

namespace rtx {

struct PrecisionChoice {
  // Operations whose f32 result becomes half, with the operands that is_computed_with names.
  std::unordered_set<const Operation*> half;
  // Products, convolutions and attentions that stay in f32, in program order, and what was asked for by name.
  std::vector<std::pair<const Operation*, std::string>> kept;
};

// Whether operand `index` has to have the type of the result: all f32 operands but the masks of attention.
bool is_computed_with(const Operation& operation, size_t index);

// Rules, the first that applies, for operations with an f32 result:
//
//   kept by name              f32: a glob of context.keep_f32 fits the operation, a node it comes from or a result
//   matmul, conv, attention   half; but f32 where the product is over one element, where the result is an angle (it
//                             reaches a sine or cosine), where a constant or weight would become infinite, where a
//                             weight of more than context.small_bytes is read in f32 elsewhere, and for an attention
//                             whose q, k and v are all computed in f32 by other operations
//   residual sum              f32: an add of two computed values of one shape, one of which is read elsewhere too
//   long sum or mean          f32: over more than 8 elements, or a number that is not known
//   follows                   half where the operands are computed in half (but for weights, constants and the tables
//   of
//                             rope) and every use leads into a product or attention in half, maybe through a concat
//                             that is an output too; f32 where a constant would become infinite, or zero
//   moves                     half where what is moved is computed in half or is all read by products in half; also
//                             where the same weight is an operand of a product in half (tied weights)
//   all else                  f32
//
// Error: E014, a glob fits nothing; those of reading weights.
Result<PrecisionChoice> choose_precision(const Module& module, const PassContext& context);

}  // namespace rtx
