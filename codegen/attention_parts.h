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

// Whether a mask depends on the row, not on the key alone.
bool masks_rows(const AttentionParts& parts);

// In what unit a kernel holds a score x while it takes the maximum, and the weight of a key at the maximum `base`.
enum class ScoreUnit {
  natural,  // as it is: exp(x - base)
  binary,   // times log2(e): exp2(x - base)
  raw,      // the product q k: exp2(x c - base c), c = scale log2(e)
};

// The cheapest unit in which no float of the attention overflows: raw needs that unseen keys are at -inf and nothing is
// done to a score but a scale between 0 and 1/log2(e); binary that no float mask is added.
ScoreUnit unit_of(const AttentionParts& parts);

// Writes what does not depend on how a kernel multiplies.
class AttentionEmitter {
 public:
  AttentionEmitter(KernelWriter& writer, const Block& body, const AttentionParts& parts,
                   ScoreUnit unit = ScoreUnit::natural)
      : writer_(writer), parts_(parts), unit_(unit), emitter_(writer, body) {}

  // Declares tile_row (the first row of this block), kv_head, batch, key_begin and key_end (the keys that some row of
  // the block may see, or all where unseen ones count). One block for `row_tile` rows of a kv head and, where the keys
  // come in more than one part of `part_keys`, one of `parts`; then also row_group and split, its number in each.
  void begin(KernelPlan& plan, int row_tile, int key_tile, const Dim& parts = 1, int part_keys = 0);
  // Declares query and head of `row`, a name.
  void declare_query();
  // Declares open_begin and open_end: no limit touches a tile of keys in this range, for any row of the block.
  void declare_open_keys(int row_tile);
  // Declares arrays of `count`: query_of, head_of, first_key and end_key (keys outside are not seen), of row tile_row +
  // `offset`, an expression of r; of the last row where there is none.
  void declare_rows(int count, const std::string& offset);
  // Assigns keep[w] for key j = tile_key + 32 w + lane: whether the bool masks that depend on the key alone let it be
  // seen; false beyond the keys.
  void look_at_key_masks(int key_tile);
  // Statements that turn x (a float) from the product q k into a score, as yet without masks.
  void scale_score();
  // Statements that add the masks to x, the score of row r (a name or number) and key j, which lies below `keys`.
  // `seen`: an expression for what look_at_key_masks found; empty where those masks are to be looked at here.
  void mask_score(const std::string& r, const std::string& seen = "");
  static std::string lowest() { return "__uint_as_float(0xff800000u)"; }  // -inf
  // The weight of score x at the maximum `base`, as a call of the prelude's exp2.
  std::string weight(const std::string& x, const std::string& base);
  // `y`, what a row adds up to, where `total` says that there is something to add up; else 0.
  std::string guarded(const std::string& y, const std::string& total) const;
  // The index of element [batch, axis1, axis2, d] of a tensor.
  std::string index(const AttentionTensor& tensor, const std::string& axis1, const std::string& axis2,
                    const std::string& d) const;
  // Whether `width` neighbouring elements of the last axis can be moved at once.
  static bool moves_vectors(const AttentionTensor& tensor, int size, int width);

  // Whether causal or window limits apply; whether bool masks that depend on the key alone do; whether others do.
  bool limits_keys() const;
  bool masks_keys() const;
  bool masks_scores() const;
  // Whether scale_score writes anything.
  bool scales_scores() const;
  // Whether an unseen key weighs nothing, even where all keys are unseen.
  bool ignores_unseen() const;

 private:
  bool skips_unseen() const;
  double factor() const;
  std::string mask_element(const Value* mask, const std::string& head, const std::string& query);

  KernelWriter& writer_;
  const AttentionParts& parts_;
  ScoreUnit unit_;
  ElementEmitter emitter_;
};

}  // namespace rtx::codegen
