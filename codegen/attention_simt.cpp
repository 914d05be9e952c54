// Attention in one pass over the keys, with a running maximum and total for each row: scores never go to memory. All
// arithmetic is f32. The tiles depend on the sizes of a head alone, and each row walks the keys in rising order, so a
// row's bits depend on nothing but the row.

#include <algorithm>

#include "base/text.h"
#include "codegen/attention_forms.h"
#include "codegen/attention_split.h"
#include "codegen/emit/c_types.h"
#include "codegen/plan_common.h"

namespace rtx::codegen {
namespace {

constexpr int threads = 128;
constexpr int columns = 8;                   // threads along the keys of a tile, and along the value elements
constexpr int lines = threads / columns;     // threads along the rows of a tile
constexpr int most_shared_bytes = 48 << 10;  // static shared memory

// Thread (line, column) has rows line * thread_rows + r and keys column + 8 * c of a tile.
struct Tiles {
  int thread_rows, thread_keys;
  int size4, value4;  // groups of 4 elements in a line of the tile of q or k, and of v
  int value_parts;    // groups of 4 value elements a thread
  bool joint;         // both k and v are in memory at once
  int rows() const { return lines * thread_rows; }
  int keys() const { return columns * thread_keys; }
  int q_words() const { return rows() * size4; }
  int k_words() const { return keys() * size4; }
  int v_words() const { return keys() * value4; }
  int shared_bytes() const {
    return 16 * (q_words() + (joint ? k_words() + v_words() : std::max(k_words(), v_words()))) +
           4 * rows() * (keys() + 1);
  }
};

Tiles tiles_of(const AttentionParts& parts, bool split) {
  const int longest = std::max(parts.size, parts.value_size);
  Tiles tiles = {};
  tiles.thread_rows = split ? 1 : longest <= 64 ? 4 : longest <= 128 ? 2 : 1;
  tiles.thread_keys = longest <= 128 ? 4 : 2;
  tiles.size4 = (parts.size + 3) / 4 | 1;  // odd: lines start in different banks
  tiles.value_parts = (parts.value_size + 4 * columns - 1) / (4 * columns);
  tiles.value4 = tiles.value_parts * columns;
  tiles.joint = true;
  tiles.joint = tiles.shared_bytes() <= most_shared_bytes;
  return tiles;
}

class SerialEmitter {
 public:
  SerialEmitter(KernelWriter& writer, const Block& body, const AttentionParts& parts, const Tiles& tiles, bool split)
      : writer_(writer),
        parts_(parts),
        tiles_(tiles),
        is_split_(split),
        common_(writer, body, parts),
        split_(writer, parts, common_, tiles.rows(), threads),
        type_(writer.index_type()) {}

  void emit(KernelPlan& plan) {
    word_ = vector_type(writer_, DType::f32, 4);
    common_.begin(plan, tiles_.rows(), tiles_.keys(), is_split_ ? split_.count() : Dim(1), SplitEmitter::keys);
    plan.launch->block = {threads, 1, 1};
    writer_.set_blocks_per_sm(2);
    writer_.line(concat("__shared__ ", word_, " q_tile[", tiles_.q_words(), "];"));
    if (tiles_.joint) {
      writer_.line(concat("__shared__ ", word_, " k_tile[", tiles_.k_words(), "];"));
      writer_.line(concat("__shared__ ", word_, " v_tile[", tiles_.v_words(), "];"));
    } else {
      writer_.line(concat("__shared__ ", word_, " kv_tile[", std::max(tiles_.k_words(), tiles_.v_words()), "];"));
    }
    writer_.line(concat("__shared__ float weights[", tiles_.rows() * (tiles_.keys() + 1), "];"));
    writer_.line(concat("const int column = (int)threadIdx.x % ", columns, ", line = (int)threadIdx.x / ", columns,
                        " * ", tiles_.thread_rows, ";"));
    if (is_split_) split_.begin(*plan.launch);
    common_.declare_rows(tiles_.thread_rows, "line + r");
    load_queries();
    writer_.line(concat(word_, " acc[", tiles_.thread_rows, "][", tiles_.value_parts, "];"));
    writer_.line(concat("float top[", tiles_.thread_rows, "], total[", tiles_.thread_rows, "];"));
    each_row([&] {
      writer_.line(concat("top[r] = ", lowest(), ";"));
      writer_.line("total[r] = 0.0f;");
      each_value_part([&] { each_element([&] { writer_.line("acc[r][c].e[e] = 0.0f;"); }); });
    });
    writer_.open(
        concat("for (", type_, " tile_key = key_begin; tile_key < key_end; tile_key += ", tiles_.keys(), ") {"));
    writer_.line("__syncthreads();  // the tiles before have been read");
    load_keys(tiles_.joint ? "k_tile" : "kv_tile");
    if (tiles_.joint) load_values("v_tile");
    writer_.line("__syncthreads();");
    multiply_keys();
    weigh();
    writer_.line("__syncthreads();");
    if (!tiles_.joint) {
      load_values("kv_tile");
      writer_.line("__syncthreads();");
    }
    add_values();
    writer_.close();
    store();
    if (is_split_) split_.join();
  }

 private:
  static std::string lowest() { return AttentionEmitter::lowest(); }

  template <typename Body>
  void unrolled(const std::string& name, int count, Body body) {
    writer_.line("#pragma unroll");
    writer_.open(concat("for (int ", name, " = 0; ", name, " < ", count, "; ++", name, ") {"));
    body();
    writer_.close();
  }
  template <typename Body>
  void each_row(Body body) {
    unrolled("r", tiles_.thread_rows, body);
  }
  template <typename Body>
  void each_key(Body body) {
    unrolled("c", tiles_.thread_keys, body);
  }
  template <typename Body>
  void each_value_part(Body body) {
    unrolled("c", tiles_.value_parts, body);
  }
  template <typename Body>
  void each_element(Body body) {
    unrolled("e", 4, body);
  }

  // Fills `lines_of_tile` lines of `words` groups of 4 floats: `size` elements, then zeros. `begin_line` declares what
  // the axes are for `at`, the number of a line, and returns the condition under which there is such a line.
  template <typename BeginLine>
  void load(const std::string& tile, int lines_of_tile, int words, int size, const AttentionTensor& from,
            BeginLine begin_line, const std::string& axis1, const std::string& axis2) {
    writer_.open(concat("for (int w = (int)threadIdx.x; w < ", lines_of_tile * words, "; w += ", threads, ") {"));
    writer_.line(concat("const int at = w / ", words, ", d = w % ", words, " * 4;"));
    writer_.line(concat(word_, " word = {};"));
    const std::string exists = begin_line();
    writer_.open(concat("if (", exists, " && d < ", size, ") {"));
    const bool vectors = AttentionEmitter::moves_vectors(from, size, 4);
    if (vectors) {
      const std::string vector = vector_type(writer_, parts_.dtype, 4);
      writer_.line(concat("const ", vector, " x = *(const ", vector, "*)(", from.pointer, " + (",
                          common_.index(from, axis1, axis2, "d"), "));"));
      each_element(
          [&] { writer_.line(concat("word.e[e] = ", unpack_expression(writer_, parts_.dtype, "x.e[e]"), ";")); });
    } else {
      each_element([&] {
        writer_.line(concat(
            "if (d + e < ", size, ") word.e[e] = ",
            load_expression(writer_, parts_.dtype, from.pointer, common_.index(from, axis1, axis2, "(d + e)")), ";"));
      });
    }
    writer_.close();
    writer_.line(concat(tile, "[w] = word;"));
    writer_.close();
  }

  void load_queries() {
    const std::string group = writer_.dim(parts_.group);
    load(
        "q_tile", tiles_.rows(), tiles_.size4, parts_.size, parts_.q,
        [&] {
          writer_.line(concat("const ", type_, " row = tile_row + at;"));
          writer_.line(concat("const ", type_, " query = ", KernelWriter::divide("row", group), ";"));
          writer_.line(concat(
              "const ", type_, " head = ",
              KernelWriter::add(KernelWriter::multiply("kv_head", group), KernelWriter::remainder("row", group)), ";"));
          return concat("row < ", writer_.dim(parts_.rows));
        },
        "head", "query");
  }

  void load_keys(const std::string& tile) { load_kv(tile, tiles_.size4, parts_.size, parts_.k); }
  void load_values(const std::string& tile) { load_kv(tile, tiles_.value4, parts_.value_size, parts_.v); }
  void load_kv(const std::string& tile, int words, int size, const AttentionTensor& from) {
    load(
        tile, tiles_.keys(), words, size, from,
        [&] {
          writer_.line(concat("const ", type_, " key = tile_key + at;"));
          return std::string("key < keys");
        },
        "kv_head", "key");
  }

  // s[r][c] = q k
  void multiply_keys() {
    writer_.line(concat("float s[", tiles_.thread_rows, "][", tiles_.thread_keys, "];"));
    each_row([&] { each_key([&] { writer_.line("s[r][c] = 0.0f;"); }); });
    writer_.line("#pragma unroll 4");
    writer_.open(concat("for (int d = 0; d < ", (parts_.size + 3) / 4, "; ++d) {"));
    writer_.line(concat(word_, " y[", tiles_.thread_keys, "];"));
    each_key([&] {
      writer_.line(concat("y[c] = ", tiles_.joint ? "k_tile" : "kv_tile", "[(column + c * ", columns, ") * ",
                          tiles_.size4, " + d];"));
    });
    each_row([&] {
      writer_.line(concat("const ", word_, " x = q_tile[(line + r) * ", tiles_.size4, " + d];"));
      each_key([&] { each_element([&] { writer_.line("s[r][c] += x.e[e] * y[c].e[e];"); }); });
    });
    writer_.close();
  }

  // The weights of this tile's keys against the maximum so far; what was added up before is brought to the same.
  void weigh() {
    each_row([&] {
      writer_.line("float best = top[r];");
      each_key([&] {
        writer_.line(concat("const ", type_, " j = tile_key + column + c * ", columns, ";"));
        writer_.line(concat("float x = ", lowest(), ";"));
        writer_.open("if (j < keys) {");
        writer_.line("x = s[r][c];");
        common_.scale_score();
        common_.mask_score("r");
        writer_.close();
        writer_.line("s[r][c] = x;");
        writer_.line("best = x > best ? x : best;");
      });
      across_columns("best", "other > best ? other : best");
      writer_.line(concat("const float base = best == ", lowest(), " ? 0.0f : best;"));
      writer_.line("const float fade = expf(top[r] - base);");
      writer_.line("float sum = 0.0f;");
      each_key([&] {
        writer_.line("const float weight = expf(s[r][c] - base);");
        writer_.line(concat("weights[(line + r) * ", tiles_.keys() + 1, " + column + c * ", columns, "] = weight;"));
        writer_.line("sum += weight;");
      });
      across_columns("sum", "sum + other");
      writer_.line("top[r] = best;");
      writer_.line("total[r] = total[r] * fade + sum;");
      each_value_part([&] { each_element([&] { writer_.line("acc[r][c].e[e] *= fade;"); }); });
    });
  }

  // Combines a variable over the threads that share a row.
  void across_columns(const std::string& name, const std::string& combined) {
    writer_.line("#pragma unroll");
    writer_.open(concat("for (int lane = 1; lane < ", columns, "; lane *= 2) {"));
    writer_.line(concat("const float other = __shfl_xor_sync(0xffffffffu, ", name, ", lane);"));
    writer_.line(concat(name, " = ", combined, ";"));
    writer_.close();
  }

  void add_values() {
    writer_.line("#pragma unroll 4");
    writer_.open(concat("for (int k = 0; k < ", tiles_.keys(), "; ++k) {"));
    writer_.line(concat(word_, " y[", tiles_.value_parts, "];"));
    each_value_part([&] {
      writer_.line(concat("y[c] = ", tiles_.joint ? "v_tile" : "kv_tile", "[k * ", tiles_.value4, " + column + c * ",
                          columns, "];"));
    });
    each_row([&] {
      writer_.line(concat("const float weight = weights[(line + r) * ", tiles_.keys() + 1, " + k];"));
      each_value_part([&] { each_element([&] { writer_.line("acc[r][c].e[e] += weight * y[c].e[e];"); }); });
    });
    writer_.close();
  }

  void store() {
    each_row([&] {
      writer_.open(concat("if (tile_row + line + r < ", writer_.dim(parts_.rows), ") {"));
      each_value_part([&] {
        each_element([&] {
          writer_.line(concat("const int d = (column + c * ", columns, ") * 4 + e;"));
          writer_.open(concat("if (d < ", parts_.value_size, ") {"));
          if (is_split_) {
            writer_.line("const int at = line + r;");
            split_.store("acc[r][c].e[e]", "top[r]", "total[r]");
          } else {
            writer_.line(concat("const float y = ", common_.guarded("acc[r][c].e[e] / total[r]", "total[r]"), ";"));
            store_result(writer_, 0, parts_.dtype, common_.index(parts_.out, "head_of[r]", "query_of[r]", "d"), "y");
          }
          writer_.close();
        });
      });
      writer_.close();
    });
  }

  KernelWriter& writer_;
  const AttentionParts& parts_;
  const Tiles& tiles_;
  bool is_split_;
  AttentionEmitter common_;
  SplitEmitter split_;
  std::string type_, word_;
};

}  // namespace

std::string emit_simt_attention(KernelPlan& plan, KernelWriter& writer, const Block& body, const AttentionParts& parts,
                                bool split) {
  const Tiles tiles = tiles_of(parts, split);
  SerialEmitter(writer, body, parts, tiles, split).emit(plan);
  const std::string cut = split ? concat(".split", SplitEmitter::keys) : std::string();
  return concat("simt.q", tiles.rows(), "k", tiles.keys(), cut);
}

}  // namespace rtx::codegen
