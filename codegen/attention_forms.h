// The forms of an attention kernel: how its two products are computed. plan_attention chooses.
#pragma once

#include "codegen/attention_parts.h"

namespace rtx::codegen {

// Each writes the kernel, sets the launch but for what finish_launch adds, and returns how the work is cut, for the
// key. With `split` a block has 16 rows and one part of the keys (attention_split.h).

// f32, f16 and bf16 by fused multiply-adds in f32.
std::string emit_simt_attention(KernelPlan& plan, KernelWriter& writer, const Block& body, const AttentionParts& parts,
                                bool split);

// f16 and bf16 on tensor cores. The rows of a result have the same bits for every number of rows a block has.
struct TensorTile {
  bool split;        // all warps have the same 16 rows, and each 16 keys of a tile
  int warps;         // of a block
  int rows_a_warp;   // 16 or 32
  int keys;          // of a tile: 32 or 64
  int value_stages;  // tiles of v in memory at a time: 1 or 2
  bool q_in_registers;
  int blocks_per_sm;  // that registers are to suffice for

  bool operator==(const TensorTile&) const = default;
};
TensorTile tensor_tile_of(const AttentionParts& parts, const SymbolRanges& symbols, bool split, bool wide);
std::string emit_tensor_attention(KernelPlan& plan, KernelWriter& writer, const Block& body,
                                  const AttentionParts& parts, const TensorTile& tile);

}  // namespace rtx::codegen
