// Attention of f16 and bf16 on tensor cores: y = softmax(scores) v, scores = masks(scale q k^T), one pass over the keys
// with a running maximum and total for each row.
//
// Operands: q [rows, depth], k [keys, depth], v [keys, width] of one kv head, in any strides; sizes of 1 to 256, in
// memory of a block filled with zeros to multiples of 16. Products by mma.m16n8k16 with f32 sums; scores, maxima,
// totals and y in f32; weights are rounded to the type of v for the second product, their total is not.
//
// A block of 4 warps has 64 or 128 rows and walks tiles of 64 keys (32 for sizes above 128). Each warp has 16 or 32
// rows whole: thread 4 g + c of it holds, of the scores, rows g and g + 8 of each 16 and keys 8 n + 2 c and the next,
// which is also how it gives them to the second product. q stays in registers (size / 4 a thread and 16 rows) for sizes
// up to 192, y takes value_size / 2, scores 32 or 16. k comes in two tiles that are filled in turn by asynchronous
// copies, v in two, or in one where that keeps the block below 48 KiB: 16 bytes at a time where rows start at multiples
// of that, else in parts of 8, 4 or 2. Tiles without a limit or an unseen key skip the masks; tiles that no row of the
// block sees are not visited.
//
// For few rows (attention_split.h) a block has 16, which are packed from the queries and heads of a group, and the
// warps have 16 keys each of a tile (2 warps where tiles have 32); they add up at the end, in their order.
//
// The bound is the rate of mma.sync, 4 keys size flops a row, where keys and sizes are large; the exponentials (one a
// score) weigh as much for sizes of 64 and below. For few rows it is reading k and v once. A row walks its keys in
// rising order in tiles that the sizes of a head fix, so that its bits depend on nothing but the row and its keys.

#include <algorithm>
#include <functional>

#include "base/text.h"
#include "codegen/attention_forms.h"
#include "codegen/attention_split.h"
#include "codegen/attention_tensor_text.h"
#include "codegen/emit/c_types.h"
#include "codegen/emit/text_template.h"
#include "codegen/plan_common.h"
#include "codegen/representative_values.h"

namespace rtx::codegen {

using namespace attention_text;

namespace {

constexpr int static_shared_bytes = 48 << 10;  // more is dynamic
constexpr int chunk_elements = 8;              // of 16 bytes
// A GPU wants two blocks for each of its 132 (H200) to 170 (RTX 5090) multiprocessors.
constexpr int64_t blocks_wanted = 264;

int whole_steps(int size) { return (size + 15) / 16 * 16; }

// Elements of a tile of `lines` rows of `size`, as rtx_place lays them out.
int tile_elements(int lines, int size) {
  const int chunks = size / chunk_elements;
  const bool exchanged = chunks % 8 == 0 || chunks == 4 || chunks == 2;
  return lines * (exchanged ? chunks : chunks | 1) * chunk_elements;
}

// Where tiles lie in shared memory, in elements. q lies where the second tiles will come, if it moves to registers.
struct Layout {
  int depth, width;  // of q and k, and of v
  int rows;          // of the block
  int k_tile, v_tile, q_at, v_at, elements;

  Layout(const AttentionParts& parts, const TensorTile& tile)
      : depth(whole_steps(parts.size)),
        width(whole_steps(parts.value_size)),
        rows(tile.split ? 16 : tile.rows_a_warp * tile.warps) {
    k_tile = tile_elements(tile.keys, depth);
    v_tile = tile_elements(tile.keys, width);
    const int q_tile = tile_elements(rows, depth);
    // k 0, k 1, v of odd tiles, v of even tiles
    const int v_last = 2 * k_tile + (tile.value_stages - 1) * v_tile;
    q_at = tile.q_in_registers ? k_tile : v_last + v_tile;
    v_at = tile.q_in_registers && tile.value_stages == 2 ? std::max(v_last, q_at + q_tile) : v_last;
    // What the warps put together at the end: their rows, or f32 sums with a maximum and a total each (leave_text).
    const int last = tile.split ? 2 * tile.warps * 16 * (width + 8 + 2) : tile_elements(rows, width);
    elements = std::max({v_at + v_tile, q_at + q_tile, last});
  }
  int bytes() const { return 2 * elements; }
};

class TensorEmitter {
 public:
  TensorEmitter(KernelWriter& writer, const Block& body, const AttentionParts& parts, const TensorTile& tile)
      : writer_(writer),
        parts_(parts),
        tile_(tile),
        layout_(parts, tile),
        common_(writer, body, parts, unit_of(parts)),
        split_(writer, parts, common_, layout_.rows, threads()),
        index_(writer.index_type()) {}

  void emit(KernelPlan& plan) {
    for (const char* name :
         {"rtx_load_tiles", "rtx_load_tiles_transposed", "rtx_copy_commit", "rtx_copy_wait", "rtx_place"})
      writer_.call(name);
    writer_.declare(std::string(along_text));
    mma_ = writer_.call(concat("rtx_mma_", to_string(parts_.dtype)));
    pack_ = writer_.call(concat("rtx_pack_", to_string(parts_.dtype)));
    common_.begin(plan, layout_.rows, tile_.keys, tile_.split ? split_.count() : Dim(1), SplitEmitter::keys);
    plan.launch->block = {threads(), 1, 1};
    writer_.set_blocks_per_sm(tile_.blocks_per_sm);
    const bool is_static = layout_.bytes() + (tile_.split ? SplitEmitter::shared_bytes : 0) <= static_shared_bytes;
    if (!is_static) plan.launch->shared_bytes = layout_.bytes();
    const std::string count = is_static ? concat(layout_.elements) : "";
    writer_.lines(
        fill(begin_text, {{"row_parts", concat(row_parts())},
                          {"key_tile", concat(tile_.keys)},
                          {"warps", concat(tile_.warps)},
                          {"key_part", concat(tile_.split ? 16 : tile_.keys)},
                          {"warp_row", tile_.split ? "0" : "warp * (16 * row_parts)"},
                          {"warp_key", tile_.split ? "warp * 16" : "0"},
                          {"depth", concat(layout_.depth)},
                          {"width", concat(layout_.width)},
                          {"k_line", concat(tile_elements(1, layout_.depth))},
                          {"v_line", concat(tile_elements(1, layout_.width))},
                          {"q_at", concat(layout_.q_at)},
                          {"shared", concat(is_static ? "" : "extern ",
                                            "__shared__ __align__(16) unsigned short shared[", count, "]")}}));
    if (tile_.split) split_.begin(*plan.launch);
    common_.declare_open_keys(layout_.rows);
    if (common_.limits_keys() || common_.masks_scores()) common_.declare_rows(2 * row_parts(), "line + r * 8");
    declare_loads();
    if (common_.masks_keys()) declare_look();
    load_first();
    writer_.lines(fill(registers_text, {{"lowest", lowest()}}));
    writer_.line("int stage = 0;");
    writer_.open(
        concat("for (", index_, " tile_key = key_begin; tile_key < key_end; tile_key += key_tile, stage ^= 1) {"));
    writer_.line("rtx_copy_wait<0>();");
    writer_.line("__syncthreads();  // this tile has come, the one before has been read");
    load_next();
    if (common_.masks_keys()) take_look();
    writer_.lines(fill(keys_text, {{"k_tile", concat(layout_.k_tile)},
                                   {"load_q", tile_.q_in_registers ? "" : load_q_step_text},
                                   {"steps", tile_.q_in_registers ? "" : " 4"},
                                   {"at", at()},
                                   {"mma", mma_}}));
    finish_scores();
    writer_.lines(fill(weigh_text, {{"lowest", lowest()},
                                    {"fade", common_.weight("top[r]", "base")},
                                    {"weight", common_.weight("s[r / 2][n][e]", "base")}}));
    if (tile_.value_stages == 1) {
      writer_.line("rtx_copy_wait<1>();");
      writer_.line("__syncthreads();  // v has come");
    }
    writer_.lines(fill(values_text, {{"v_now", v_place("stage")}, {"pack", pack_}, {"mma", mma_}}));
    writer_.close();
    tile_.split ? store_sums() : store();
  }

 private:
  static std::string lowest() { return AttentionEmitter::lowest(); }
  int threads() const { return 32 * tile_.warps; }
  int row_parts() const { return tile_.rows_a_warp / 16; }
  // The fragment of q for step d.
  std::string at() const { return tile_.q_in_registers ? "[d]" : ""; }
  std::string v_place(const std::string& stage) const {
    if (tile_.value_stages == 1) return concat(layout_.v_at);
    return concat("(", stage, " ? ", 2 * layout_.k_tile, " : ", layout_.v_at, ")");
  }

  // How lines of a tile lie in memory: `base`, and what to add for line number `line` (a C expression) and element d.
  struct Lines {
    std::string base, condition;
    std::function<std::string(const std::string& d)> offset;
  };

  // A function that fills `lines` lines of `size` elements, padded to `padded` with zeros. `begin_line` declares what
  // stands for line `first + at` and says where it lies.
  template <typename BeginLine>
  void declare_load(const std::string& name, int lines, int padded, int size, const AttentionTensor& from,
                    BeginLine begin_line) {
    const int chunks = padded / chunk_elements;
    writer_.open(concat("auto ", name, " = [&](unsigned short* to, ", index_, " first) {"));
    const int at_once = threads() / chunks;  // lines
    writer_.line(concat("const int chunk = (int)threadIdx.x % ", chunks, ", line = (int)threadIdx.x / ", chunks, ";"));
    if (threads() % chunks != 0) writer_.line(concat("if (line >= ", at_once, ") return;"));
    writer_.line("#pragma unroll");
    writer_.open(concat("for (int i = 0; i < ", (lines + at_once - 1) / at_once, "; ++i) {"));
    writer_.line(concat("const int at = line + i * ", at_once, ";"));
    if (lines % at_once != 0) writer_.line(concat("if (at >= ", lines, ") break;"));
    writer_.line(concat("unsigned short* const place = to + rtx_place<", chunks, ">(at, chunk) * 8;"));
    Lines line = begin_line();
    if (size <= padded - chunk_elements) line.condition += concat(" && chunk * 8 < ", size);
    int width = chunk_elements;
    while (width > 1 && !AttentionEmitter::moves_vectors(from, size, width)) width /= 2;
    if (width == chunk_elements) {
      // Where nothing is read the address does not count.
      writer_.line(concat(writer_.call("rtx_copy_async"), "(place, ", line.base, " + (", line.offset("chunk * 8"),
                          "), ", line.condition, " ? 16 : 0);"));
    } else {
      load_parts(width, size, line);
    }
    writer_.close();
    writer_.close_statement();
  }

  // A chunk from parts of `width` elements.
  void load_parts(int width, int size, const Lines& line) {
    const std::string word = vector_type(writer_, parts_.dtype, chunk_elements);
    writer_.line(concat(word, " word = {};"));
    writer_.line("#pragma unroll");
    writer_.open(concat("for (int e = 0; e < 8; e += ", width, ") {"));
    writer_.line("const int d = chunk * 8 + e;");
    writer_.line(concat("if (!(", line.condition, " && d < ", size, ")) continue;"));
    if (width == 1) {
      writer_.line(concat("word.e[e] = ", "(", line.base, ")[", line.offset("d"), "];"));
    } else {
      const std::string part = vector_type(writer_, parts_.dtype, width);
      writer_.line(concat("const ", part, " x = *(const ", part, "*)(", line.base, " + (", line.offset("d"), "));"));
      writer_.line("#pragma unroll");
      writer_.line(concat("for (int i = 0; i < ", width, "; ++i) word.e[e + i] = x.e[i];"));
    }
    writer_.close();
    writer_.line(concat("*(", word, "*)place = word;"));
  }

  // What rows and keys add to an index: the parts that stay the same stand in the address.
  std::string scaled(const AttentionTensor& tensor, size_t axis, const std::string& at) const {
    return KernelWriter::multiply(at, writer_.dim(tensor.view.strides[axis]));
  }

  void declare_loads() {
    declare_load("load_q", layout_.rows, layout_.depth, parts_.size, parts_.q, [&] {
      writer_.line(concat("const ", index_, " row = first + at;"));
      common_.declare_query();
      return Lines{parts_.q.pointer, concat("row < ", writer_.dim(parts_.rows)),
                   [&](const std::string& d) { return common_.index(parts_.q, "head", "query", concat("(", d, ")")); }};
    });
    declare_key_load("load_k", "k_base", layout_.depth, parts_.size, parts_.k);
    declare_key_load("load_v", "v_base", layout_.width, parts_.value_size, parts_.v);
  }

  void declare_key_load(const std::string& name, const std::string& base, int padded, int size,
                        const AttentionTensor& from) {
    writer_.line(concat("const unsigned short* const ", base, " = ", from.pointer, " + (",
                        common_.index(from, "kv_head", "0", "0"), ");"));
    declare_load(name, tile_.keys, padded, size, from, [&] {
      return Lines{concat(base, " + ", scaled(from, 2, "first")), "first + at < keys", [&](const std::string& d) {
                     return KernelWriter::add(scaled(from, 2, "at"), scaled(from, 3, concat("(", d, ")")));
                   }};
    });
  }

  // Masks of keys are read one tile ahead.
  void declare_look() {
    writer_.line("bool keep[key_tile / 32];");
    writer_.open(concat("auto look = [&](", index_, " tile_key) {"));
    common_.look_at_key_masks(tile_.keys);
    writer_.close_statement();
    writer_.line("look(key_begin);");
  }
  void take_look() {
    writer_.line("unsigned seen[key_tile / 32], any = 0, every = ~0u;");
    writer_.line("#pragma unroll");
    writer_.open("for (int w = 0; w < key_tile / 32; ++w) {");
    writer_.line("seen[w] = __ballot_sync(0xffffffffu, keep[w]);");
    writer_.line("any |= seen[w];");
    writer_.line("every &= seen[w];");
    writer_.line("seen[w] >>= pair;");
    writer_.close();
    if (tile_.split) {
      writer_.line(concat("const unsigned mine = ",
                          tile_.keys == 32 ? "seen[0]" : "(warp_key < 32 ? seen[0] : seen[1])", " >> warp_key % 32;"));
    }
    writer_.line("look(tile_key + key_tile);");
    if (common_.ignores_unseen()) writer_.line("if (any == 0) continue;");
  }

  void load_first() {
    writer_.line(concat("load_q(shared + ", layout_.q_at, ", tile_row);"));
    writer_.line("load_k(shared, key_begin);");
    if (tile_.value_stages == 2) writer_.line(concat("load_v(shared + ", layout_.v_at, ", key_begin);"));
    writer_.line("rtx_copy_commit();");
    if (!tile_.q_in_registers) return;
    writer_.line("rtx_copy_wait<0>();");
    writer_.line("__syncthreads();");
    writer_.line("unsigned q[row_parts][depth / 16][4];");
    writer_.lines(load_q_text);
  }
  void load_next() {
    if (tile_.value_stages == 1) {
      writer_.line(concat("load_v(shared + ", layout_.v_at, ", tile_key);"));
      writer_.line("rtx_copy_commit();");
    }
    writer_.open("if (tile_key + key_tile < key_end) {");
    writer_.line(concat("load_k(shared + (stage ^ 1) * ", layout_.k_tile, ", tile_key + key_tile);"));
    if (tile_.value_stages == 2)
      writer_.line(concat("load_v(shared + ", v_place("(stage ^ 1)"), ", tile_key + key_tile);"));
    writer_.close();
    writer_.line("rtx_copy_commit();");
  }

  template <typename Body>
  void each_score(Body body) {
    for (const char* header : {"for (int r = 0; r < 2 * row_parts; ++r) {", "for (int n = 0; n < key_part / 8; ++n) {",
                               "for (int e = 0; e < 2; ++e) {"}) {
      writer_.line("#pragma unroll");
      writer_.open(header);
    }
    writer_.line("float x = s[r / 2][n][r % 2 * 2 + e];");
    body();
    writer_.line("s[r / 2][n][r % 2 * 2 + e] = x;");
    for (int i = 0; i < 3; ++i) writer_.close();
  }

  void finish_scores() {
    if (common_.scales_scores()) each_score([&] { common_.scale_score(); });
    const bool each = common_.masks_scores();
    if (!each) {
      writer_.open(concat("if (tile_key < open_begin || tile_key + key_tile > open_end",
                          common_.masks_keys() ? " || every != ~0u" : "", ") {"));
    }
    each_score([&] {
      writer_.line(concat("const ", index_, " place = tile_key + warp_key + n * 8 + pair + e;"));
      if (common_.limits_keys() || common_.masks_scores())
        writer_.line(concat("const ", index_, " j = place < keys ? place : keys - 1;"));
      const char* seen = tile_.split ? "(mine >> (n * 8 + e) & 1)" : "(seen[n / 4] >> (n % 4 * 8 + e) & 1)";
      common_.mask_score("r", common_.masks_keys() ? seen : "");
      writer_.line(concat("if (place >= keys) x = ", lowest(), ";"));
    });
    if (!each) writer_.close();
  }

  void store() {
    writer_.lines(fill(
        gather_text,
        {{"pack", pack_}, {"low", common_.guarded("low", "total[r]")}, {"high", common_.guarded("high", "total[r]")}}));
    const int chunks = (parts_.value_size + chunk_elements - 1) / chunk_elements;
    writer_.line("#pragma unroll");
    writer_.open(concat("for (int i = 0; i < ", (tile_.rows_a_warp * chunks + 31) / 32, "; ++i) {"));
    writer_.line("const int c = lane + i * 32;");
    writer_.line(concat("const int at = warp_row + c / ", chunks, ", chunk = c % ", chunks, ";"));
    writer_.line(concat("const ", index_, " row = tile_row + at;"));
    writer_.line(concat("if (c >= ", tile_.rows_a_warp * chunks, " || row >= ", writer_.dim(parts_.rows), ") break;"));
    common_.declare_query();
    const std::string word = vector_type(writer_, parts_.dtype, chunk_elements);
    writer_.line(concat("const ", word, " word = *(const ", word, "*)(shared + rtx_place<width / 8>(at, chunk) * 8);"));
    if (AttentionEmitter::moves_vectors(parts_.out, parts_.value_size, chunk_elements)) {
      writer_.line(
          concat("*(", word, "*)(r0 + (", common_.index(parts_.out, "head", "query", "(chunk * 8)"), ")) = word;"));
    } else {
      writer_.line("#pragma unroll");
      writer_.open("for (int e = 0; e < 8; ++e) {");
      writer_.line(concat("if (chunk * 8 + e < ", parts_.value_size, ") r0[",
                          common_.index(parts_.out, "head", "query", "(chunk * 8 + e)"), "] = word.e[e];"));
      writer_.close();
    }
    writer_.close();
  }

  // The warps have sums over different keys of the same rows.
  void store_sums() {
    writer_.lines(leave_text);
    writer_.open(concat("for (int e = (int)threadIdx.x; e < ", split_.rows() * parts_.value_size, "; e += threads) {"));
    writer_.line(concat("const int at = e / ", parts_.value_size, ", d = e % ", parts_.value_size, ";"));
    writer_.line(concat("if (tile_row + at >= ", writer_.dim(parts_.rows), ") break;"));
    writer_.lines(fill(add_warps_text,
                       {{"lowest", lowest()}, {"share", common_.weight("warp_tops[(i * 16 + at) * 2]", "base")}}));
    split_.store("sum", "best", "all");
    writer_.close();
    split_.join();
  }

  KernelWriter& writer_;
  const AttentionParts& parts_;
  const TensorTile& tile_;
  const Layout layout_;
  AttentionEmitter common_;
  SplitEmitter split_;
  std::string index_, mma_, pack_;
};

}  // namespace

TensorTile tensor_tile_of(const AttentionParts& parts, const SymbolRanges& symbols, bool split, bool wide) {
  const int longest = std::max(parts.size, parts.value_size);
  TensorTile tile = {.split = split,
                     .warps = 4,
                     .rows_a_warp = 16,
                     .keys = 64,
                     .value_stages = 2,
                     .q_in_registers = true,
                     .blocks_per_sm = 2};
  if (split) {
    tile.blocks_per_sm = longest <= 64 ? 4 : longest <= 96 ? 3 : 2;
    if (longest > 128) tile.warps = 2, tile.keys = 32, tile.blocks_per_sm = 4;
  } else if (longest <= 64) {
    // Limits of more rows, or masks of them with 64-bit indices, would not fit into registers, and a large block is
    // seen in part only.
    const AttributeList& attributes = parts.operation->attributes;
    const bool many_indices = wide && masks_rows(parts);
    const bool limited = attributes.boolean("causal") || !attributes.dim("window").is(0);
    const Dim blocks = parts.batch * parts.kv_heads * ceildiv(parts.rows, Dim(32 * tile.warps));
    const Result<int64_t> count = blocks.evaluate(representative_values(symbols));
    if (!limited && !many_indices && count && *count >= blocks_wanted) {
      tile.rows_a_warp = 32;
    } else {
      tile.blocks_per_sm = many_indices ? 2 : longest <= 32 && !wide ? 4 : 3;
    }
  } else if (longest > 128) {
    tile.keys = 32;
    if (longest > 192) tile.blocks_per_sm = 1;
  }
  tile.q_in_registers = longest <= 192;
  if (Layout(parts, tile).bytes() > static_shared_bytes) tile.value_stages = 1;
  return tile;
}

std::string emit_tensor_attention(KernelPlan& plan, KernelWriter& writer, const Block& body,
                                  const AttentionParts& parts, const TensorTile& tile) {
  TensorEmitter(writer, body, parts, tile).emit(plan);
  const std::string cut = tile.split ? concat(".split", SplitEmitter::keys) : std::string();
  return concat("tensor.q", tile.split ? 16 : tile.rows_a_warp * tile.warps, "k", tile.keys, cut);
}

}  // namespace rtx::codegen
