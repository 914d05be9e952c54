// The text form of a module. print then parse gives the same module; parse then print gives the canonical text.
//
//   rtxir 1
//   stage imported
//   symbol batch 1..64 opt 8
//
//   func @main(%0 "input_ids": tensor<[batch, seq], i64>) {
//     %1 = weight() {name = "wte", dtype = f32, shape = [99, 32]} : tensor<[99, 32], f32>
//     %2 = gather(%1, %0) {axis = 0} : tensor<[batch, seq, 32], f32> from "node 'emb' (Gather)" as "embedding"
//     yield(%2)
//   } outputs "last_hidden_state"
//
// '#' starts a comment.
//
// docs/ir.md has the grammar.
#pragma once

#include <string>
#include <string_view>

#include "ir/module.h"

namespace rtx {

std::string print(const Module& module);
std::string print(const Function& function);
// One operation as printed inside a function, without indentation; values are numbered within their function.
std::string print(const Operation& operation);
// A block in the form of the body of a kernel: canonical numbering from %0, no names, no origins. Equal bodies give
// equal text, whatever function they came from.
std::string print_body(const Block& block);

// `file` is used in diagnostics ("file:line:column"). The result is verified. Weights are not attached.
Result<std::unique_ptr<Module>> parse_module(std::string_view text, std::string_view file);
// The inverse of print_body.
Result<std::unique_ptr<Block>> parse_body(std::string_view text, std::string_view file);

}  // namespace rtx
