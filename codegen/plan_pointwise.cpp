// One thread computes `width` neighbouring elements of the results. Where the body is plain elementwise arithmetic over
// operands that are whole or broadcast along leading axes, width is chosen so that each thread moves 16 bytes at once;
// everywhere else it is 1, but for results of 4-bit elements, where it is the two that share a byte.

#include <algorithm>

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

// Elements a thread, and why they are not 16 bytes.
struct VectorWidth {
  int width = 1, wanted = 1;
  std::string reason;
};

// 1 where the body cannot be walked in vectors.
VectorWidth vector_width(const Block& body) {
  const Shape& shape = body.terminator()->operand(0)->type.shape;
  int widest = 1;
  for (size_t i = 0; i < body.argument_count(); ++i)
    widest = std::max(widest, memory_bytes(body.argument(i)->type.dtype));
  for (const Value* result : body.terminator()->operands()) widest = std::max(widest, memory_bytes(result->type.dtype));
  VectorWidth choice{1, 16 / widest, {}};
  auto refuse_vectors = [&](std::string reason) {
    choice.reason = std::move(reason);
    return choice;
  };
  for (const Value* result : body.terminator()->operands()) {
    if (result->type.shape != shape) return refuse_vectors("results have different shapes");
    if (!result->def()) return refuse_vectors("a result is an operand as it is");
  }
  for (const auto& operation : body.operations()) {
    if (operation->is(Op::yield) || operation->is(Op::constant)) continue;
    if (!is_scalar_op(operation->op))
      return refuse_vectors(concat("'", to_string(operation->op), "' finds its elements by their coordinates"));
    const Shape& own = operation->result()->type.shape;
    if (access_of(own, shape) == Access::neither)
      return refuse_vectors("a value broadcasts along the last axis in part");
  }
  bool all_whole = true;
  for (size_t i = 0; i < body.argument_count(); ++i) {
    const Type& type = body.argument(i)->type;
    if (access_of(type.shape, shape) == Access::neither) return refuse_vectors("an operand's last axis is another one");
    if (memory_bytes(type.dtype) == 0) return refuse_vectors("an operand has two elements a byte");
    all_whole = all_whole && (type.shape == shape || type.element_count().is(1));
  }
  // With whole operands the vectors may cross rows; otherwise a row must hold a whole number of them.
  const Dim length = all_whole ? Type{DType::f32, shape}.element_count() : shape.empty() ? Dim(1) : shape.back();
  for (choice.width = choice.wanted; choice.width > 1; choice.width /= 2) {
    if (length.divided_by(Dim(choice.width))) break;
  }
  if (choice.width < choice.wanted)
    choice.reason =
        concat(all_whole ? "the elements are" : "a row is", " not known to be a multiple of them: ", length.str());
  return choice;
}

void emit_scalar_body(KernelPlan& plan, KernelWriter& writer, const Block& body, const Dim& count) {
  const std::string index = begin_thread_per_element(plan, writer, count);
  ElementEmitter emitter(writer, body);
  const auto& results = body.terminator()->operands();
  for (size_t i = 0; i < results.size(); ++i) {
    store_result(writer, i, results[i]->type.dtype, index, emitter.element(results[i], Position::at(index)));
  }
}

void emit_vector_body(KernelPlan& plan, KernelWriter& writer, const Block& body, const Dim& count, int width) {
  const Shape& shape = body.terminator()->operand(0)->type.shape;
  const auto& results = body.terminator()->operands();
  plan.launch.emplace();
  plan.launch->grid[0] = ceildiv(*count.divided_by(Dim(width)), Dim(threads));
  plan.launch->block = {threads, 1, 1};
  const std::string_view type = writer.index_type();
  const std::string index = writer.fresh("i");
  writer.line(concat("const ", type, " ", index, " = ((", type, ")blockIdx.x * ", threads, " + (int)threadIdx.x) * ",
                     width, ";"));
  writer.line(concat("if (", index, " >= ", writer.dim(count), ") return;"));

  ElementEmitter emitter(writer, body);
  std::vector<std::string> lanes(body.argument_count());  // the memory form of element e of each vector operand
  for (size_t i = 0; i < body.argument_count(); ++i) {
    const Value* argument = body.argument(i);
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
  for (size_t i = 0; i < results.size(); ++i) {
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
  for (size_t i = 0; i < results.size(); ++i) {
    // Every operand is bound, so the position is not looked at.
    const std::string value = emitter.element(results[i], Position::at(index));
    writer.line(concat("y", i, ".e[e] = ", pack_expression(writer, results[i]->type.dtype, value), ";"));
  }
  emitter.pop_scope();
  writer.close();
  for (size_t i = 0; i < results.size(); ++i) {
    writer.line(
        concat("*(", vector_type(writer, results[i]->type.dtype, width), "*)(r", i, " + ", index, ") = y", i, ";"));
  }
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
  const Dim count = results[0]->type.element_count();
  for (const Value* result : results) {
    if (!(result->type.element_count() == count)) return refuse("pointwise", "results differ in element count");
  }
  const bool narrow = fits_narrow_index(body, context.symbols);
  const VectorWidth choice = four_bit ? VectorWidth{2, 2, {}} : vector_width(body);
  const int width = choice.width;
  KernelPlan plan = KernelPlan::for_body("pointwise", concat("v", width, narrow ? ".i32" : ".i64"), body);
  KernelWriter writer(!narrow, context.symbols);
  if (four_bit) {
    emit_4_bit_body(plan, writer, body, count);
  } else if (width > 1) {
    emit_vector_body(plan, writer, body, count, width);
  } else {
    emit_scalar_body(plan, writer, body, count);
  }
  finish_launch(plan, writer, body);
  plan.flops = elementwise_flops(body);
  plan.bytes = traffic_bytes(body);
  if (width < choice.wanted)
    plan.considered.push_back({concat("vectors of ", choice.wanted), -1, false, choice.reason, {}});
  return plan;
}

}  // namespace rtx::codegen
