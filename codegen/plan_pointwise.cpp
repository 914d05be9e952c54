// One thread computes `width` neighbouring elements of the results. Where the body is plain elementwise arithmetic over
// operands that are whole or broadcast along leading axes, width is chosen so that each thread moves 16 bytes at once;
// everywhere else it is 1, but for results of 4-bit elements, where it is the two that share a byte. Results of
// different sizes are computed side by side, by blocks of their own.

#include <algorithm>
#include <set>

#include "base/text.h"
#include "codegen/emit/c_types.h"
#include "codegen/emit/scalar_ops.h"
#include "codegen/plan_common.h"
#include "codegen/plan_kernel.h"

namespace rtx::codegen {
namespace {

constexpr int threads = 256;

// How an operand is read while a thread walks along the last axis of the results.
enum class Access : uint8_t { vector, scalar, neither };

Access access_of(const Shape& operand, const Shape& result) {
  if (Type{DType::f32, operand}.element_count().is(1)) return Access::scalar;
  if (operand.empty() || result.empty() || operand.size() > result.size()) return Access::neither;
  if (operand.back() == result.back()) return Access::vector;
  return operand.back().is(1) ? Access::scalar : Access::neither;
}

// Results of one shape, which a thread computes together. Bodies with several do the work of several kernels side by
// side.
struct Part {
  std::vector<size_t> results;
  Dim count;                  // of elements
  int width = 1, wanted = 1;  // elements a thread; 16 bytes of them
  std::string reason;         // why they are fewer
};

// The operations and arguments that some results are made of.
std::set<const Value*> reached(const Block& body, const std::vector<size_t>& results) {
  std::set<const Value*> values;
  std::vector<const Value*> open;
  for (size_t i : results) open.push_back(body.terminator()->operand(i));
  while (!open.empty()) {
    const Value* value = open.back();
    open.pop_back();
    if (!values.insert(value).second || !value->def()) continue;
    for (const Value* operand : value->def()->operands()) open.push_back(operand);
  }
  return values;
}

// Sets the width, 1 where what the results are made of cannot be walked in vectors.
void choose_width(Part& part, const Block& body) {
  const Shape& shape = body.terminator()->operand(part.results[0])->type.shape;
  std::vector<const Value*> values;  // operations first: they say more
  const std::set<const Value*> used = reached(body, part.results);
  int widest = 1;
  for (const auto& operation : body.operations()) {
    if (operation->is(Op::yield) || operation->is(Op::constant) || !used.contains(operation->result())) continue;
    values.push_back(operation->result());
  }
  for (size_t i = 0; i < body.argument_count(); ++i) {
    if (!used.contains(body.argument(i))) continue;
    values.push_back(body.argument(i));
    widest = std::max(widest, memory_bytes(body.argument(i)->type.dtype));
  }
  for (size_t i : part.results) widest = std::max(widest, memory_bytes(body.terminator()->operand(i)->type.dtype));
  part.wanted = 16 / widest;
  auto refuse_vectors = [&](std::string reason) { part.reason = std::move(reason); };
  for (size_t i : part.results) {
    const Value* result = body.terminator()->operand(i);
    if (!result->def()) return refuse_vectors("a result is an operand as it is");
  }
  bool all_whole = true;
  for (const Value* value : values) {
    const Type& type = value->type;
    if (value->def() && !is_scalar_op(value->def()->op))
      return refuse_vectors(concat("'", to_string(value->def()->op), "' finds its elements by their coordinates"));
    if (access_of(type.shape, shape) == Access::neither)
      return refuse_vectors("a value broadcasts along the last axis in part");
    if (value->def()) continue;
    if (memory_bytes(type.dtype) == 0) return refuse_vectors("an operand has two elements a byte");
    all_whole = all_whole && (type.shape == shape || type.element_count().is(1));
  }
  // With whole operands the vectors may cross rows; otherwise a row must hold a whole number of them.
  const Dim length = all_whole ? Type{DType::f32, shape}.element_count() : shape.empty() ? Dim(1) : shape.back();
  for (part.width = part.wanted; part.width > 1; part.width /= 2) {
    if (length.divided_by(Dim(part.width))) break;
  }
  if (part.width < part.wanted) {
    refuse_vectors(
        concat(all_whole ? "the elements are" : "a row is", " not known to be a multiple of them: ", length.str()));
  }
}

std::vector<Part> parts_of(const Block& body) {
  std::vector<Part> parts;
  const auto& results = body.terminator()->operands();
  for (size_t i = 0; i < results.size(); ++i) {
    const Shape& shape = results[i]->type.shape;
    auto part = std::find_if(parts.begin(), parts.end(),
                             [&](const Part& p) { return results[p.results[0]]->type.shape == shape; });
    if (part == parts.end()) part = parts.insert(parts.end(), Part{{}, results[i]->type.element_count(), 1, 1, {}});
    part->results.push_back(i);
  }
  for (Part& part : parts) choose_width(part, body);
  return parts;
}

// `i`, the first element of this thread.
std::string emit_index(KernelWriter& writer, const Part& part, std::string_view block) {
  const std::string_view type = writer.index_type();
  const std::string index = writer.fresh("i");
  const std::string thread = concat("(", type, ")", block, " * ", threads, " + (int)threadIdx.x");
  writer.line(concat("const ", type, " ", index, " = ",
                     part.width == 1 ? thread : concat("(", thread, ") * ", part.width), ";"));
  writer.line(concat("if (", index, " >= ", writer.dim(part.count), ") return;"));
  return index;
}

void emit_scalar_part(KernelWriter& writer, const Block& body, const Part& part, std::string_view block) {
  const std::string index = emit_index(writer, part, block);
  ElementEmitter emitter(writer, body);
  for (size_t i : part.results) {
    const Value* result = body.terminator()->operand(i);
    store_result(writer, i, result->type.dtype, index, emitter.element(result, Position::at(index)));
  }
}

void emit_vector_part(KernelWriter& writer, const Block& body, const Part& part, std::string_view block) {
  const int width = part.width;
  const auto& results = body.terminator()->operands();
  const Shape& shape = results[part.results[0]]->type.shape;
  const std::set<const Value*> values = reached(body, part.results);
  const std::string index = emit_index(writer, part, block);
  ElementEmitter emitter(writer, body);
  std::vector<std::string> lanes(body.argument_count());  // the memory form of element e of each vector operand
  for (size_t i = 0; i < body.argument_count(); ++i) {
    const Value* argument = body.argument(i);
    if (!values.contains(argument)) continue;
    const Position at = emitter.broadcast_position(argument->type.shape, shape, Position::at(index));
    if (access_of(argument->type.shape, shape) == Access::scalar) {
      emitter.bind(argument, emitter.element(argument, at));
      continue;
    }
    const std::string vector = vector_type(writer, argument->type.dtype, width), name = concat("x", i);
    writer.line(concat("const ", vector, " ", name, " = *(const ", vector, "*)(a", i, " + ",
                       emitter.linear(argument->type.shape, at), ");"));
    lanes[i] = concat(name, ".e[e]");
  }
  for (size_t i : part.results) {
    writer.line(concat(vector_type(writer, results[i]->type.dtype, width), " y", i, ";"));
  }
  writer.line("#pragma unroll");
  writer.open(concat("for (int e = 0; e < ", width, "; ++e) {"));
  emitter.push_scope();
  for (size_t i = 0; i < body.argument_count(); ++i) {
    if (lanes[i].empty()) continue;
    const DType dtype = body.argument(i)->type.dtype;
    const std::string name = writer.fresh("v");
    writer.line(
        concat("const ", register_type(dtype), " ", name, " = ", unpack_expression(writer, dtype, lanes[i]), ";"));
    emitter.bind(body.argument(i), name);
  }
  for (size_t i : part.results) {
    // Every operand is bound, so the position is not looked at.
    const std::string value = emitter.element(results[i], Position::at(index));
    writer.line(concat("y", i, ".e[e] = ", pack_expression(writer, results[i]->type.dtype, value), ";"));
  }
  emitter.pop_scope();
  writer.close();
  for (size_t i : part.results) {
    writer.line(
        concat("*(", vector_type(writer, results[i]->type.dtype, width), "*)(r", i, " + ", index, ") = y", i, ";"));
  }
}

void emit_part(KernelWriter& writer, const Block& body, const Part& part, std::string_view block) {
  if (part.width > 1) {
    emit_vector_part(writer, body, part, block);
  } else {
    emit_scalar_part(writer, body, part, block);
  }
}

void emit_parts(KernelPlan& plan, KernelWriter& writer, const Block& body, const std::vector<Part>& parts) {
  plan.launch.emplace();
  plan.launch->block = {threads, 1, 1};
  std::vector<Dim> blocks;
  for (const Part& part : parts) blocks.push_back(ceildiv(*part.count.divided_by(Dim(part.width)), Dim(threads)));
  plan.launch->grid[0] = emit_side_by_side(
      writer, blocks, [&](size_t i, const std::string& block) { emit_part(writer, body, parts[i], block); });
}

bool is_4_bit(const Value* value) { return memory_bytes(value->type.dtype) == 0; }

// A result of 4-bit elements: a thread computes the two that share a byte.
void emit_4_bit_body(KernelPlan& plan, KernelWriter& writer, const Block& body, const Dim& count) {
  const Value* result = body.terminator()->operand(0);
  const std::string index = begin_thread_per_element(plan, writer, ceildiv(count, Dim(2)));
  const std::string_view type = writer.index_type();
  writer.line("unsigned byte = 0;");
  writer.open(concat("for (int half = 0; half < 2; ++half) {"));
  ElementEmitter emitter(writer, body);
  const std::string element = writer.fresh("i");
  writer.line(concat("const ", type, " ", element, " = ", index, " * 2 + half;"));
  writer.line(concat("if (", element, " >= ", writer.dim(count), ") break;"));
  const std::string value = emitter.element(result, Position::at(element));
  writer.line(concat("byte |= ((unsigned)", value, " & 15u) << half * 4;"));
  writer.close();
  writer.line(concat("r0[", index, "] = (unsigned char)byte;"));
}

}  // namespace

Result<KernelPlan> plan_pointwise(const Block& body, const PlanContext& context) {
  const auto& results = body.terminator()->operands();
  if (results.empty()) return refuse("pointwise", "the body has no result");
  const bool four_bit = results.size() == 1 && is_4_bit(results[0]);
  RTX_TRY(check_elementwise("pointwise", body, nullptr, four_bit));
  const bool narrow = fits_narrow_index(body, context.symbols);
  const std::vector<Part> parts = parts_of(body);
  std::string tile = four_bit ? "v2" : "";
  for (size_t i = 0; i < parts.size() && !four_bit; ++i) tile += concat(i ? "+v" : "v", parts[i].width);
  KernelPlan plan = KernelPlan::for_body("pointwise", concat(tile, narrow ? ".i32" : ".i64"), body);
  KernelWriter writer(!narrow, context.symbols);
  if (four_bit) {
    emit_4_bit_body(plan, writer, body, results[0]->type.element_count());
  } else {
    emit_parts(plan, writer, body, parts);
  }
  finish_launch(plan, writer, body);
  plan.flops = elementwise_flops(body);
  plan.bytes = traffic_bytes(body);
  for (const Part& part : parts) {
    if (part.width < part.wanted && !four_bit)
      plan.considered.push_back({concat("vectors of ", part.wanted), -1, false, part.reason, {}});
  }
  return plan;
}

}  // namespace rtx::codegen
