// What the kernels of one attention share: the parts of its body, how a block finds its rows and its keys, and what is
// done to a score.
//
// A row is one query of one head. The rows of a kv head are its queries in order, for each the heads of its group, so
// that they all read the same keys and values.
#pragma once

#include "codegen/emit/element_emitter.h"
#include "codegen/emit/kernel_writer.h"
#include "codegen/kernel_plan.h"
#include "codegen/strided_view.h"

namespace rtx::codegen {

// A tensor of four axes as strides of a kernel parameter.
struct AttentionTensor {
  std::string pointer;
  StridedView view;
};

struct AttentionParts {
  const Operation* operation = nullptr;
  DType dtype = DType::f32;
  Dim batch, kv_heads, group, queries, keys;
  Dim rows;  // of a kv head: queries * group
  int size = 0, value_size = 0;
  AttentionTensor q, k, v, out;
};

// The parts, or why the body is not one attention over views of its operands. `kind` names the kernel in the refusal.
Result<AttentionParts> find_attention_parts(const Block& body, const SymbolRanges& symbols);

// Writes what does not depend on how a kernel multiplies.
class AttentionEmitter {
 public:
  AttentionEmitter(KernelWriter& writer, const Block& body, const AttentionParts& parts)
      : writer_(writer), parts_(parts), emitter_(writer, body) {}

  // Declares tile_row (the first row of this block), kv_head, batch, key_begin and key_end (the keys that some row of
  // the block may see, or all where unseen ones count). One block for `row_tile` rows of a kv head.
  void begin(KernelPlan& plan, int row_tile, int key_tile);
  // Declares arrays of `count` for the rows tile_row + `first` + r: query_of, head_of, first_key and end_key (keys
  // outside are not seen).
  void declare_rows(int count, const std::string& first);
  // Statements that turn x (a float: the product q k) into the score of row r (a name or number) and key j.
  void finish_score(const std::string& r);
  // What a row adds up to: `y` given acc / total.
  std::string quotient(const std::string& acc, const std::string& total) const;
  // The index of element [batch, axis1, axis2, d] of a tensor.
  std::string index(const AttentionTensor& tensor, const std::string& axis1, const std::string& axis2,
                    const std::string& d) const;
  // Whether `width` neighbouring elements of the last axis can be moved at once.
  static bool moves_vectors(const AttentionTensor& tensor, int size, int width);

 private:
  bool limits_keys() const;
  bool skips_unseen() const;

  KernelWriter& writer_;
  const AttentionParts& parts_;
  ElementEmitter emitter_;
};

}  // namespace rtx::codegen
