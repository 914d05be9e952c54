#include "codegen/plan_common.h"

#include <limits>

#include "base/text.h"
#include "codegen/emit/c_types.h"
#include "codegen/emit/scalar_ops.h"

namespace rtx::codegen {
namespace {

template <typename Except>
Result<void> check_operations(std::string_view kind, const Block& body, bool allow_4_bit, Except except) {
  for (const auto& operation : body.operations()) {
    if (except(*operation) || operation->is(Op::yield)) continue;
    if (!ElementEmitter::handles(operation->op)) {
      return refuse(kind, concat("operation '", to_string(operation->op), "' is not computed element by element"));
    }
  }
  for (const Value* result : body.terminator()->operands()) {
    if (memory_bytes(result->type.dtype) == 0 && !allow_4_bit) {
      return refuse(kind, concat("a result of type ", to_string(result->type.dtype), " shares bytes between threads"));
    }
  }
  return Ok{};
}

}  // namespace

Diagnostic refuse(std::string_view kind, std::string_view reason) {
  return make_error(ErrorKind::unsupported, "E441", concat("no ", kind, " kernel: ", reason));
}

const Operation* find_only(const Block& body, bool (*wanted)(Op)) {
  const Operation* found = nullptr;
  for (const auto& operation : body.operations()) {
    if (!wanted(operation->op)) continue;
    if (found) return nullptr;
    found = operation.get();
  }
  return found;
}

Result<void> check_elementwise(std::string_view kind, const Block& body, const Operation* except, bool allow_4_bit) {
  return check_operations(kind, body, allow_4_bit, [&](const Operation& operation) { return &operation == except; });
}

Result<void> check_elementwise_but(std::string_view kind, const Block& body, bool (*except)(Op)) {
  return check_operations(kind, body, false, [&](const Operation& operation) { return except(operation.op); });
}

Dim byte_count(const Type& type) {
  const int bits = bit_width(type.dtype);
  return bits == 4 ? ceildiv(type.element_count(), Dim(2)) : type.element_count() * Dim(bits / 8);
}

Dim traffic_bytes(const Block& body) {
  Dim bytes(0);
  for (size_t i = 0; i < body.argument_count(); ++i) {
    const Value* argument = body.argument(i);
    Dim taken(0);
    bool whole = argument->uses().empty();
    for (const Use& use : argument->uses()) {
      const Op op = use.user->op;
      const bool partial = op == Op::slice || (use.index == 0 && spec(op).family == OpFamily::indexing);
      if (partial) {
        taken = taken + byte_count(use.user->result()->type);
      } else {
        whole = true;
      }
    }
    bytes = bytes + (whole ? byte_count(argument->type) : taken);
  }
  for (const Value* result : body.terminator()->operands()) bytes = bytes + byte_count(result->type);
  return bytes;
}

Dim elementwise_flops(const Block& body) {
  Dim flops(0);
  for (const auto& operation : body.operations()) {
    if (const int each = flops_per_element(operation->op)) {
      flops = flops + operation->result()->type.element_count() * Dim(each);
    }
  }
  return flops;
}

Dim product(const Shape& shape, size_t from, size_t to) {
  Dim result(1);
  for (size_t i = from; i < to; ++i) result = result * shape[i];
  return result;
}

void finish_launch(KernelPlan& plan, KernelWriter& writer, const Block& body) {
  if (plan.launch->has_workspace()) writer.add_workspace();
  if (plan.launch->has_counters()) writer.add_counters();
  plan.add_code(writer.finish("kernel", body, plan.launch->block));
  plan.launch->function = concat("rtx_", plan.name);
  plan.launch->scalars = writer.scalars();
  plan.launch->text = writer.finish(plan.launch->function, body, plan.launch->block);
}

DType partial_dtype(DType operand) {
  return !is_float(operand) ? DType::i64 : operand == DType::f64 ? DType::f64 : DType::f32;
}

Combination combination_of(KernelWriter& writer, Op reduction, DType operand) {
  const DType dtype = partial_dtype(operand);
  const bool whole = is_float(operand);
  const int bits = bit_width(operand);
  const int64_t highest =
      is_signed(operand) ? static_cast<int64_t>(~uint64_t{0} >> (65 - bits)) : (int64_t{1} << bits) - 1;
  const int64_t lowest = is_signed(operand) ? -highest - 1 : 0;
  constexpr double infinity = std::numeric_limits<double>::infinity();
  auto identity = [&](double real, int64_t integer) {
    return whole ? float_literal(dtype, real) : integer_literal(DType::i64, integer);
  };
  auto arithmetic = [&](std::string_view op) {
    if (whole) return concat("a ", op, " b");
    return concat("(long long)((unsigned long long)a ", op, " (unsigned long long)b)");
  };
  switch (reduction) {
    case Op::reduce_max:
      return {dtype, identity(-infinity, lowest), concat(writer.call(concat("rtx_max_", to_string(dtype))), "(a, b)")};
    case Op::reduce_min:
      return {dtype, identity(infinity, highest), concat(writer.call(concat("rtx_min_", to_string(dtype))), "(a, b)")};
    case Op::reduce_prod:
      return {dtype, identity(1, 1), arithmetic("*")};
    default:
      return {dtype, identity(0, 0), arithmetic("+")};
  }
}

std::string from_partial(KernelWriter& writer, DType dtype, const std::string& value) {
  const bool narrow_integer = !is_float(dtype) && dtype != DType::i64;
  return round_expression(writer, dtype, narrow_integer ? concat("(int)(", value, ")") : value);
}

void store_result(KernelWriter& writer, size_t result, DType dtype, const std::string& index,
                  const std::string& value) {
  writer.line(concat("r", result, "[", index, "] = ", pack_expression(writer, dtype, value), ";"));
}

Dim emit_side_by_side(KernelWriter& writer, const std::vector<Dim>& blocks,
                      const std::function<void(size_t, const std::string&)>& emit) {
  if (blocks.size() == 1) {
    emit(0, "blockIdx.x");
    return blocks[0];
  }
  Dim end(0);
  for (size_t i = 0; i < blocks.size(); ++i) {
    const Dim begin = end;
    end = end + blocks[i];
    const bool last = i + 1 == blocks.size();
    const std::string test = last ? "" : concat("if (blockIdx.x < ", writer.dim(end), ") {");
    if (i == 0) {
      writer.open(test);
    } else {
      writer.between(last ? "} else {" : concat("} else ", test));
    }
    emit(i, i == 0 ? "blockIdx.x" : writer.temporary("unsigned", "block", concat("blockIdx.x - ", writer.dim(begin))));
  }
  writer.close();
  return end;
}

std::string begin_thread_per_element(KernelPlan& plan, KernelWriter& writer, const Dim& count) {
  constexpr int threads = 256;
  plan.launch.emplace();
  plan.launch->grid[0] = ceildiv(count, Dim(threads));
  plan.launch->block = {threads, 1, 1};
  const std::string name = writer.fresh("i");
  const std::string_view type = writer.index_type();
  writer.line(concat("const ", type, " ", name, " = (", type, ")blockIdx.x * ", threads, " + (int)threadIdx.x;"));
  writer.line(concat("if (", name, " >= ", writer.dim(count), ") return;"));
  return name;
}

}  // namespace rtx::codegen
