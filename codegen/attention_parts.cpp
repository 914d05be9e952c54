#include "codegen/attention_parts.h"

#include <cmath>
#include <limits>

#include "base/text.h"
#include "codegen/emit/c_types.h"
#include "codegen/plan_common.h"

namespace rtx::codegen {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
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

}  // namespace

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

void AttentionEmitter::begin(KernelPlan& plan, int row_tile, int key_tile) {
  plan.launch.emplace();
  const Dim tiles = ceildiv(parts_.rows, Dim(row_tile));
  plan.launch->grid[0] = tiles * parts_.kv_heads * parts_.batch;
  const std::string type(writer_.index_type());
  const std::string block = concat("(", type, ")blockIdx.x"), tile_count = writer_.dim(tiles);
  const std::string head = KernelWriter::divide(block, tile_count), kv_heads = writer_.dim(parts_.kv_heads);
  writer_.line(concat("const ", type, " tile_row = ",
                      KernelWriter::multiply(KernelWriter::remainder(block, tile_count), concat(row_tile)), ";"));
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
  writer_.line(concat("const ", type, " key_begin = ", first, ";"));
  writer_.line(concat("const ", type, " key_end = ", end, ";"));
}

void AttentionEmitter::declare_rows(int count, const std::string& first) {
  const std::string type(writer_.index_type());
  const AttributeList& attributes = parts_.operation->attributes;
  writer_.line(concat(type, " query_of[", count, "], head_of[", count, "];"));
  if (limits_keys()) writer_.line(concat(type, " first_key[", count, "], end_key[", count, "];"));
  writer_.line("#pragma unroll");
  writer_.open(concat("for (int r = 0; r < ", count, "; ++r) {"));
  writer_.line(concat("const ", type, " row = tile_row + ", first, " + r;"));
  const std::string group = writer_.dim(parts_.group);
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

void AttentionEmitter::finish_score(const std::string& r) {
  const Operation& operation = *parts_.operation;
  const AttributeList& attributes = operation.attributes;
  auto number = [](double value) { return float_literal(DType::f32, value); };
  if (attributes.real("scale") != 1) writer_.line(concat("x *= ", number(attributes.real("scale")), ";"));
  if (const double softcap = attributes.real("softcap"); softcap != 0) {
    writer_.line(concat("x = ", number(softcap), " * tanhf(x * ", number(1 / softcap), ");"));
  }
  std::vector<std::string> tests;
  if (limits_keys()) tests.push_back(concat("j >= first_key[", r, "] && j < end_key[", r, "]"));
  if (operation.operand_count() > 3) {
    const Shape scores = {parts_.batch, parts_.kv_heads * parts_.group, parts_.queries, parts_.keys};
    const std::string type(writer_.index_type());
    emitter_.push_scope();
    const Position at =
        Position::at(std::vector<std::string>{"batch", concat("head_of[", r, "]"), concat("query_of[", r, "]"), "j"});
    for (size_t m = 3; m < operation.operand_count(); ++m) {
      const Value* mask = operation.operand(m);
      const std::string value = emitter_.element(mask, emitter_.broadcast_position(mask->type.shape, scores, at));
      if (mask->type.dtype == DType::boolean) {
        tests.push_back(value);
      } else {
        writer_.line(concat("x += ", mask->type.dtype == DType::f64 ? "(float)" : "", value, ";"));
      }
    }
    emitter_.pop_scope();
  }
  if (!tests.empty())
    writer_.line(concat("if (!(", join(tests, " && "), ")) x += ", number(attributes.real("fill")), ";"));
}

std::string AttentionEmitter::quotient(const std::string& acc, const std::string& total) const {
  const std::string y = concat(acc, " / ", total);
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
