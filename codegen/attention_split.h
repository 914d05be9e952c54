// Attention of few rows over many keys: the keys of a row are cut into parts of a fixed number, each a block of its
// own, so that a short step fills the GPU. A part leaves its sums in the workspace; of the blocks of some rows the last
// one to end adds them up, in the order of the keys. Where the cuts are depends on the number of a key alone, so a row
// has the same bits in every batch and whichever block ends last.
#pragma once

#include "codegen/attention_parts.h"

namespace rtx::codegen {

class SplitEmitter {
 public:
  // Parts of this many keys.
  static constexpr int keys = 256;
  static constexpr int shared_bytes = 16;  // static, a block

  // The number of parts. 1: there is nothing to add up.
  static Dim parts_of(const AttentionParts& parts, const SymbolRanges& symbols);

  // For blocks of `row_tile` rows and `threads` threads.
  SplitEmitter(KernelWriter& writer, const AttentionParts& parts, AttentionEmitter& common, int row_tile, int threads);

  bool joins() const { return !count_.is(1); }
  const Dim& count() const { return count_; }
  // Rows that a block can have, of its row_tile.
  int rows() const { return rows_; }

  // After AttentionEmitter::begin: asks for memory, and declares where the sums of this block go.
  void begin(LaunchPlan& launch);
  // Statements for row `at` of the block and element `d` (names): `sum` and `total` at the maximum `top`; divided and
  // stored in the result where there is one part. One thread gives `top` and `total`: where d is 0.
  void store(const std::string& sum, const std::string& top, const std::string& total);
  // The block that ends last adds up; it closes the kernel.
  void join();

 private:
  void store_quotient(const std::string& sum, const std::string& total);

  KernelWriter& writer_;
  const AttentionParts& parts_;
  AttentionEmitter& common_;
  Dim count_, groups_;
  int rows_, threads_;
};

}  // namespace rtx::codegen
