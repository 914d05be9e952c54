#include "codegen/attention_parts.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/text.h"
#include "codegen/emit/c_types.h"
#include "codegen/plan_common.h"

namespace rtx::codegen {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double log2_e = 1.4426950408889634;
constexpr int64_t longest_head = 256;

bool is_attention(Op op) { return op == Op::attention; }

// Whether every slice between a value and its base stays inside its operand for all symbols.
bool stays_inside(const Value* value, const Value* base, const SymbolRanges& symbols) {
  for (; value != base; value = value->def()->operand(0)) {
    const Operation& move = *value->def();
    if (!move.is(Op::slice)) continue;
    const Shape &from = move.operand(0)->type.shape, &to = move.result()->type.shape;
    for (size_t axis = 0; axis < to.size(); ++axis) {
      const Dim& start = move.attributes.dims("starts")[axis];
      if (start.is(0) && to[axis] == from[axis]) continue;
      const Dim last = start + (to[axis] - 1) * Dim(move.attributes.integers("steps")[axis]);
      for (const Dim& end : {start, last}) {
        if (end.lower_bound(symbols) < 0 || (from[axis] - 1 - end).lower_bound(symbols) < 0) return false;
      }
    }
  }
  return true;
}

Result<AttentionTensor> operand_tensor(const Block& body, const Value* value, const SymbolRanges& symbols) {
  ViewOf found = furthest_base(value);
  for (size_t i = 0; i < body.argument_count(); ++i) {
    if (body.argument(i) != found.base) continue;
    if (!stays_inside(value, found.base, symbols)) return refuse("attention", "a slice may leave its operand");
    return AttentionTensor{concat("a", i), std::move(found.view)};
  }
  return refuse("attention", "q, k or v is not a view of an operand");
}

// Where the elements of the attention go: through the moves between it and the result.
Result<StridedView> result_view(const Operation& attention, const Value* result) {
  StridedView view = row_major_view(result->type.shape);
  while (result != attention.result()) {
    const Operation* move = result->def();
    std::optional<StridedView> before = move ? view_of_operand(*move, view) : std::nullopt;
    if (!before) return refuse("attention", "the result is not a view of the attention");
    view = std::move(*before);
    result = move->operand(0);
  }
  return view;
}

bool is_head_size(const Dim& size) {
  return size.is_constant() && size.constant() >= 1 && size.constant() <= longest_head;
}

// A bool mask without axes of heads and queries.
bool is_key_mask(const Value* mask) {
  const Shape& shape = mask->type.shape;
  bool alone = mask->type.dtype == DType::boolean;
  for (size_t axis = 2; axis <= 3; ++axis) alone = alone && (shape.size() < axis || shape[shape.size() - axis].is(1));
  return alone;
}

// Whether some keys may not be seen, but for those beyond the end.
bool sees_in_part(const Operation& attention) {
  return attention.attributes.boolean("causal") || !attention.attributes.dim("window").is(0) ||
         attention.operand_count() > 3;
}

bool adds_float_masks(const Operation& attention) {
  for (size_t m = 3; m < attention.operand_count(); ++m) {
    if (attention.operand(m)->type.dtype != DType::boolean) return true;
  }
  return false;
}

}  // namespace

ScoreUnit unit_of(const AttentionParts& parts) {
  if (adds_float_masks(*parts.operation)) return ScoreUnit::natural;
  const AttributeList& attributes = parts.operation->attributes;
  const double factor = attributes.real("scale") * log2_e;
  const bool raw = attributes.real("softcap") == 0 && factor > 0x1p-100 && factor <= 1 &&
                   (attributes.real("fill") == -infinity || !sees_in_part(*parts.operation));
  return raw ? ScoreUnit::raw : ScoreUnit::binary;
}

Result<AttentionParts> find_attention_parts(const Block& body, const SymbolRanges& symbols) {
  const Operation* operation = find_only(body, is_attention);
  if (!operation) return refuse("attention", "the body does not have exactly one attention");
  RTX_TRY(check_elementwise("attention", body, operation));
  if (body.terminator()->operand_count() != 1) return refuse("attention", "the body has more than one result");
  AttentionParts parts;
  parts.operation = operation;
  const Type &q = operation->operand(0)->type, &k = operation->operand(1)->type, &v = operation->operand(2)->type;
  parts.dtype = q.dtype;
  if (q.dtype == DType::f64) return refuse("attention", "f64 is not computed");
  if (!is_head_size(q.shape[3]) || !is_head_size(v.shape[3])) {
    return refuse("attention", concat("heads are not of 1 to ", longest_head, " elements"));
  }
  const double fill = operation->attributes.real("fill"), largest = std::numeric_limits<float>::max();
  if (std::isfinite(fill) && std::fabs(fill) > largest) return refuse("attention", "the fill is beyond f32");
  parts.size = static_cast<int>(q.shape[3].constant());
  parts.value_size = static_cast<int>(v.shape[3].constant());
  parts.batch = q.shape[0];
  parts.queries = q.shape[2];
  parts.kv_heads = k.shape[1];
  parts.keys = k.shape[2];
  parts.group = *q.shape[1].divided_by(k.shape[1]);
  parts.rows = parts.queries * parts.group;
  RTX_ASSIGN(parts.q, operand_tensor(body, operation->operand(0), symbols));
  RTX_ASSIGN(parts.k, operand_tensor(body, operation->operand(1), symbols));
  RTX_ASSIGN(parts.v, operand_tensor(body, operation->operand(2), symbols));
  RTX_ASSIGN(parts.out.view, result_view(*operation, body.terminator()->operand(0)));
  parts.out.pointer = "r0";
  return parts;
}

bool AttentionEmitter::limits_keys() const {
  const AttributeList& attributes = parts_.operation->attributes;
  return attributes.boolean("causal") || !attributes.dim("window").is(0);
}

// Leaving out keys that no row of the block sees changes nothing if their weights are 0: the fill is -inf, or so low
// that it is lost beside the key that each row surely sees, its own.
bool AttentionEmitter::skips_unseen() const {
  const AttributeList& attributes = parts_.operation->attributes;
  if (!limits_keys()) return false;
  if (attributes.real("fill") == -infinity) return true;
  const Dim& offset = attributes.dim("offset");
  const bool sees_own = offset.lower_bound(writer_.symbols()) >= 0 &&
                        (parts_.keys - parts_.queries - offset).lower_bound(writer_.symbols()) >= 0 &&
                        attributes.dim("window").lower_bound(writer_.symbols()) >= 0;
  return attributes.real("fill") <= -1e30 && parts_.operation->operand_count() == 3 && sees_own;
}

void AttentionEmitter::declare_query() {
  const std::string type(writer_.index_type()), group = writer_.dim(parts_.group);
  writer_.line(concat("const ", type, " query = ", KernelWriter::divide("row", group), ";"));
  writer_.line(
      concat("const ", type, " head = ",
             KernelWriter::add(KernelWriter::multiply("kv_head", group), KernelWriter::remainder("row", group)), ";"));
}

void AttentionEmitter::begin(KernelPlan& plan, int row_tile, int key_tile, const Dim& parts, int part_keys) {
  plan.launch.emplace();
  const Dim tiles = ceildiv(parts_.rows, Dim(row_tile));
  plan.launch->grid[0] = tiles * parts_.kv_heads * parts_.batch * parts;
  const std::string type(writer_.index_type());
  std::string block = concat("(", type, ")blockIdx.x");
  if (!parts.is(1)) {
    const std::string count = writer_.dim(parts);
    writer_.line(concat("const ", type, " split = ", KernelWriter::remainder(block, count),
                        ", row_group = ", KernelWriter::divide(block, count), ";"));
    block = "row_group";
  }
  const std::string tile_count = writer_.dim(tiles);
  const std::string head = KernelWriter::divide(block, tile_count), kv_heads = writer_.dim(parts_.kv_heads);
  // Of causal rows the last ones have the most keys: they come first.
  const std::string tile = KernelWriter::remainder(block, tile_count);
  const bool from_end = skips_unseen() && parts_.operation->attributes.boolean("causal") && tile != "0";
  writer_.line(concat("const ", type, " tile_row = ",
                      KernelWriter::multiply(from_end ? concat(tile_count, " - 1 - ", tile) : tile, concat(row_tile)),
                      ";"));
  writer_.line(concat("const ", type, " kv_head = ", KernelWriter::remainder(head, kv_heads), ";"));
  writer_.line(concat("const ", type, " batch = ", KernelWriter::divide(head, kv_heads), ";"));
  writer_.line(concat("const ", type, " keys = ", writer_.dim(parts_.keys), ";"));
  if (limits_keys()) {
    writer_.declare(concat("__device__ __forceinline__ ", type,
                           " rtx_bounded(long long value, long long bound) {\n  return (", type,
                           ")(value < 0 ? 0 : value > bound ? bound : value);\n}"));
  }
  std::string first = "0", end = "keys";
  if (skips_unseen()) {
    const AttributeList& attributes = parts_.operation->attributes;
    const std::string group = writer_.dim(parts_.group), offset = writer_.dim64(attributes.dim("offset"));
    writer_.line(concat("const ", type, " last_row = tile_row + ", row_tile - 1, " < ", writer_.dim(parts_.rows),
                        " ? tile_row + ", row_tile - 1, " : ", writer_.dim(parts_.rows), " - 1;"));
    if (attributes.boolean("causal")) {
      end = concat("rtx_bounded(", KernelWriter::divide("last_row", group), " + ", offset, " + 1, keys)");
    }
    if (const Dim& window = attributes.dim("window"); !window.is(0)) {
      const std::string size = writer_.dim64(window);
      first = concat("(", size, " == 0 ? 0 : rtx_bounded(", KernelWriter::divide("tile_row", group), " + ", offset,
                     " - ", size, " + 1, keys)) / ", key_tile, " * ", key_tile);
    }
  }
  if (!parts.is(1)) {
    writer_.line(concat("const ", type, " seen_begin = ", first, ", seen_end = ", end, ";"));
    writer_.line(
        concat("const ", type, " part_begin = split * ", part_keys, ", part_end = part_begin + ", part_keys, ";"));
    first = "seen_begin > part_begin ? seen_begin : part_begin";
    end = "seen_end < part_end ? seen_end : part_end";
  }
  writer_.line(concat("const ", type, " key_begin = ", first, ";"));
  writer_.line(concat("const ", type, " key_end = ", end, ";"));
}

void AttentionEmitter::declare_open_keys(int row_tile) {
  const AttributeList& attributes = parts_.operation->attributes;
  const std::string type(writer_.index_type());
  const std::string group = writer_.dim(parts_.group), rows = writer_.dim(parts_.rows);
  std::string begin = "0", end = "keys";
  if (attributes.boolean("causal")) {
    end = concat("rtx_bounded(", KernelWriter::divide("tile_row", group), " + ",
                 writer_.dim64(attributes.dim("offset")), " + 1, keys)");
  }
  if (const Dim& window = attributes.dim("window"); !window.is(0)) {
    const std::string size = writer_.dim64(window);
    writer_.line(concat("const ", type, " end_row = tile_row + ", row_tile, " < ", rows, " ? tile_row + ", row_tile,
                        " : ", rows, ";"));
    begin = concat(size, " == 0 ? 0 : rtx_bounded(", KernelWriter::divide("(end_row - 1)", group), " + ",
                   writer_.dim64(attributes.dim("offset")), " - ", size, " + 1, keys)");
  }
  writer_.line(concat("const ", type, " open_begin = ", begin, ", open_end = ", end, ";"));
}

void AttentionEmitter::declare_rows(int count, const std::string& offset) {
  const AttributeList& attributes = parts_.operation->attributes;
  const std::string type(writer_.index_type());
  writer_.line(concat(type, " query_of[", count, "], head_of[", count, "];"));
  if (limits_keys()) writer_.line(concat(type, " first_key[", count, "], end_key[", count, "];"));
  writer_.line("#pragma unroll");
  writer_.open(concat("for (int r = 0; r < ", count, "; ++r) {"));
  const std::string group = writer_.dim(parts_.group), rows = writer_.dim(parts_.rows);
  writer_.line(
      concat("const ", type, " place = tile_row + ", offset, ", row = place < ", rows, " ? place : ", rows, " - 1;"));
  writer_.line(concat("query_of[r] = ", KernelWriter::divide("row", group), ";"));
  writer_.line(
      concat("head_of[r] = ",
             KernelWriter::add(KernelWriter::multiply("kv_head", group), KernelWriter::remainder("row", group)), ";"));
  if (limits_keys()) {
    const std::string at = concat("query_of[r] + ", writer_.dim64(attributes.dim("offset")));
    const Dim& window = attributes.dim("window");
    const std::string size = writer_.dim64(window);
    writer_.line(concat(
        "first_key[r] = ",
        window.is(0) ? std::string("0") : concat(size, " == 0 ? 0 : rtx_bounded(", at, " - ", size, " + 1, keys)"),
        ";"));
    writer_.line(concat(
        "end_key[r] = ", attributes.boolean("causal") ? concat("rtx_bounded(", at, " + 1, keys)") : std::string("keys"),
        ";"));
  }
  writer_.close();
}

bool AttentionEmitter::masks_keys() const {
  const std::vector<Value*>& operands = parts_.operation->operands();
  return std::any_of(operands.begin(), operands.end(), is_key_mask);
}

bool masks_rows(const AttentionParts& parts) {
  const std::vector<Value*>& operands = parts.operation->operands();
  return !std::all_of(operands.begin() + 3, operands.end(), is_key_mask);
}

bool AttentionEmitter::masks_scores() const { return masks_rows(parts_); }

bool AttentionEmitter::scales_scores() const {
  const AttributeList& attributes = parts_.operation->attributes;
  return attributes.real("softcap") != 0 || (unit_ != ScoreUnit::raw && attributes.real("scale") * factor() != 1);
}

bool AttentionEmitter::ignores_unseen() const { return parts_.operation->attributes.real("fill") == -infinity; }

std::string AttentionEmitter::mask_element(const Value* mask, const std::string& head, const std::string& query) {
  const Shape scores = {parts_.batch, parts_.kv_heads * parts_.group, parts_.queries, parts_.keys};
  const Position at = Position::at(std::vector<std::string>{"batch", head, query, "j"});
  return emitter_.element(mask, emitter_.broadcast_position(mask->type.shape, scores, at));
}

void AttentionEmitter::look_at_key_masks(int key_tile) {
  writer_.line("#pragma unroll");
  writer_.open(concat("for (int w = 0; w < ", key_tile / 32, "; ++w) {"));
  writer_.line(concat("const ", writer_.index_type(), " j = tile_key + w * 32 + lane;"));
  writer_.line("keep[w] = false;");
  writer_.open("if (j < keys) {");
  emitter_.push_scope();
  std::vector<std::string> tests;
  for (const Value* mask : parts_.operation->operands()) {
    if (is_key_mask(mask)) tests.push_back(mask_element(mask, "0", "0"));
  }
  writer_.line(concat("keep[w] = ", join(tests, " && "), ";"));
  emitter_.pop_scope();
  writer_.close();
  writer_.close();
}

void AttentionEmitter::scale_score() {
  const AttributeList& attributes = parts_.operation->attributes;
  const double scale = attributes.real("scale"), softcap = attributes.real("softcap");
  auto number = [](double value) { return float_literal(DType::f32, value); };
  if (softcap != 0) {
    if (scale != 1) writer_.line(concat("x *= ", number(scale), ";"));
    writer_.line(concat("x = ", number(softcap * factor()), " * tanhf(x * ", number(1 / softcap), ");"));
  } else if (unit_ != ScoreUnit::raw && scale * factor() != 1) {
    writer_.line(concat("x *= ", number(scale * factor()), ";"));
  }
}

void AttentionEmitter::mask_score(const std::string& r, const std::string& seen) {
  const Operation& operation = *parts_.operation;
  std::vector<std::string> tests;
  if (limits_keys()) tests.push_back(concat("j >= first_key[", r, "] && j < end_key[", r, "]"));
  if (!seen.empty()) tests.push_back(seen);
  emitter_.push_scope();
  for (size_t m = 3; m < operation.operand_count(); ++m) {
    const Value* mask = operation.operand(m);
    if (!seen.empty() && is_key_mask(mask)) continue;
    const std::string value = mask_element(mask, concat("head_of[", r, "]"), concat("query_of[", r, "]"));
    if (mask->type.dtype == DType::boolean) {
      tests.push_back(value);
    } else {
      writer_.line(concat("x += ", mask->type.dtype == DType::f64 ? "(float)" : "", value, ";"));
    }
  }
  emitter_.pop_scope();
  // A finite fill stays finite in any unit: rows without a key that is seen weigh all keys alike.
  const double fill = operation.attributes.real("fill"), largest = std::numeric_limits<float>::max();
  const double scaled = std::isfinite(fill) ? std::clamp(fill * factor(), -largest, largest) : fill;
  if (!tests.empty())
    writer_.line(concat("if (!(", join(tests, " && "), ")) x += ", float_literal(DType::f32, scaled), ";"));
}

double AttentionEmitter::factor() const { return unit_ == ScoreUnit::binary ? log2_e : 1; }

std::string AttentionEmitter::weight(const std::string& x, const std::string& base) {
  const std::string exp2 = writer_.call("rtx_exp2");
  if (unit_ == ScoreUnit::binary) return concat(exp2, "(", x, " - ", base, ")");
  if (unit_ == ScoreUnit::natural)
    return concat(exp2, "((", x, " - ", base, ") * ", float_literal(DType::f32, log2_e), ")");
  const std::string scale = float_literal(DType::f32, parts_.operation->attributes.real("scale") * log2_e);
  return concat(exp2, "(fmaf(", x, ", ", scale, ", ", base, " * -", scale, "))");
}

std::string AttentionEmitter::guarded(const std::string& y, const std::string& total) const {
  // Without keys there is nothing to add up; with `guard`, a total of 0 says that no score was above -inf.
  if (parts_.operation->attributes.boolean("guard")) return concat(total, " == 0.0f ? 0.0f : ", y);
  return parts_.keys.lower_bound(writer_.symbols()) >= 1 ? y : concat("keys == 0 ? 0.0f : ", y);
}

std::string AttentionEmitter::index(const AttentionTensor& tensor, const std::string& axis1, const std::string& axis2,
                                    const std::string& d) const {
  std::string text = writer_.dim(tensor.view.offset);
  const std::string at[] = {"batch", axis1, axis2, d};
  for (size_t axis = 0; axis < 4; ++axis) {
    text = KernelWriter::add(text, KernelWriter::multiply(at[axis], writer_.dim(tensor.view.strides[axis])));
  }
  return text;
}

bool AttentionEmitter::moves_vectors(const AttentionTensor& tensor, int size, int width) {
  const StridedView& view = tensor.view;
  bool even = size % width == 0 && view.strides[3].is(1) && view.offset.divided_by(Dim(width)).has_value();
  for (size_t axis = 0; axis < 3; ++axis) even = even && view.strides[axis].divided_by(Dim(width)).has_value();
  return even;
}

}  // namespace rtx::codegen
