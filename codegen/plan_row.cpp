// A group of threads works on one row: a warp for rows of at most 1024 elements, a block for longer ones. Each thread
// takes every G-th element (G = 32 or 256) in rising order, partial results are combined by a butterfly within a warp
// and in warp order across warps. So the order of every sum depends on the row length and on nothing else.
//
// Rows whose length is bounded by 32 elements a thread stay in registers between the passes; longer rows are read
// again, which the caches mostly serve.

#include <limits>
#include <optional>

#include "base/text.h"
#include "codegen/emit/c_types.h"
#include "codegen/plan_common.h"
#include "codegen/plan_kernel.h"
#include "codegen/row_shape.h"

namespace rtx::codegen {
namespace {

constexpr int warp = 32;
constexpr int block_threads = 256;
constexpr int rows_per_warp_block = 4;

// The text of one row kernel.
class RowEmitter {
 public:
  RowEmitter(KernelWriter& writer, const Block& body, const Operation& operation, const RowShape& rows)
      : writer_(writer), body_(body), operation_(operation), rows_(rows), emitter_(writer, body) {
    dtype_ = operation.operand(0)->type.dtype;
    sum_dtype_ = partial_dtype(dtype_);
  }

  void emit(KernelPlan& plan) {
    begin(plan);
    switch (operation_.op) {
      case Op::softmax:
      case Op::log_softmax:
        emit_softmax();
        break;
      case Op::layer_norm:
      case Op::rms_norm:
        emit_norm();
        break;
      default:
        emit_reduction();
        break;
    }
  }

 private:
  std::string_view sum_type() const { return register_type(sum_dtype_); }
  std::string number(double value) const { return float_literal(sum_dtype_, value); }
  std::string math(std::string_view name, const std::string& x) const {
    return concat(name, sum_dtype_ == DType::f64 ? "(" : "f(", x, ")");
  }

  void begin(KernelPlan& plan) {
    plan.launch.emplace();
    const Dim row_count = rows_.outer * rows_.inner;
    const std::string_view type = writer_.index_type();
    if (rows_.by_warp()) {
      plan.launch->grid[0] = ceildiv(row_count, Dim(rows_per_warp_block));
      plan.launch->block = {warp, rows_per_warp_block, 1};
      writer_.line(
          concat("const ", type, " row = (", type, ")blockIdx.x * ", rows_per_warp_block, " + (int)threadIdx.y;"));
      writer_.line(concat("if (row >= ", writer_.dim(row_count), ") return;  // the whole warp leaves"));
    } else {
      plan.launch->grid[0] = row_count;
      plan.launch->block = {block_threads, 1, 1};
      writer_.line(concat("const ", type, " row = blockIdx.x;"));
    }
    if (rows_.kept > 0) writer_.line(concat(register_type(dtype_), " x[", rows_.kept, "];"));
  }

  std::string linear(const std::string& j) const {
    const std::string length = writer_.dim(rows_.length), inner = writer_.dim(rows_.inner);
    const std::string row = KernelWriter::add(KernelWriter::multiply(KernelWriter::divide("row", inner), length), j);
    return KernelWriter::add(KernelWriter::multiply(row, inner), KernelWriter::remainder("row", inner));
  }

  // `each(position, x)` for the elements of this thread, x being the register of the operand's element. The first pass
  // loads.
  template <typename Each>
  void for_each(bool first_pass, Each each) {
    const std::string_view type = writer_.index_type();
    const std::string length = writer_.dim(rows_.length);
    if (rows_.kept > 0) {
      writer_.line("#pragma unroll");
      writer_.open(concat("for (int k = 0; k < ", rows_.kept, "; ++k) {"));
      writer_.line(concat("const ", type, " j = (int)threadIdx.x + k * ", rows_.group, ";"));
      if (!rows_.length.is(static_cast<int64_t>(rows_.kept) * rows_.group))
        writer_.line(concat("if (j >= ", length, ") continue;"));
    } else {
      writer_.open(concat("for (", type, " j = (int)threadIdx.x; j < ", length, "; j += ", rows_.group, ") {"));
    }
    emitter_.push_scope();
    const Position at = Position::at(writer_.temporary(type, "i", linear("j")));
    const Value* operand = operation_.operand(0);
    std::string x;
    if (rows_.kept > 0 && !first_pass) {
      x = writer_.temporary(register_type(dtype_), "v", "x[k]");
      emitter_.bind(operand, x);
    } else {
      x = emitter_.element(operand, at);
      if (rows_.kept > 0) writer_.line(concat("x[k] = ", x, ";"));
    }
    each(at, x);
    emitter_.unbind(operand);
    emitter_.pop_scope();
    writer_.close();
  }

  // All threads of the group get the combination of their `value`s. `combine` is an expression of a and b.
  std::string combined(std::string_view what, const std::string& value, const std::string& combine) {
    const std::string_view type = sum_type();
    std::string suffix(to_string(sum_dtype_));
    const std::string name = concat("rtx_warp_", what, "_", suffix);
    writer_.declare(concat("__device__ __forceinline__ ", type, " ", name, "(", type, " a) {\n",
                           "  for (int lane = 16; lane > 0; lane >>= 1) {\n    const ", type,
                           " b = __shfl_xor_sync(0xffffffffu, a, lane);\n    a = ", combine, ";\n  }\n  return a;\n}"));
    if (rows_.by_warp()) return concat(name, "(", value, ")");
    const std::string block_name = concat("rtx_block_", what, "_", suffix);
    writer_.declare(concat("__device__ __forceinline__ ", type, " ", block_name, "(", type, " value) {\n  __shared__ ",
                           type, " parts[", block_threads / warp, "];\n  const ", type, " part = ", name,
                           "(value);\n  __syncthreads();  // an earlier call has been read\n",
                           "  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = part;\n  __syncthreads();\n  ", type,
                           " a = parts[0];\n  for (int i = 1; i < ", block_threads / warp, "; ++i) {\n    const ", type,
                           " b = parts[i];\n    a = ", combine, ";\n  }\n  return a;\n}"));
    return concat(block_name, "(", value, ")");
  }

  std::string sum(const std::string& value) { return combined("sum", value, "a + b"); }

  // Stores the results of the body at `at`, with `value` (in the type of sums) as the operation's own element.
  void store(const Position& at, const std::string& value) {
    const DType dtype = operation_.result()->type.dtype;
    const std::string_view type = register_type(dtype);
    const std::string rounded = from_partial(writer_, dtype, value);
    emitter_.bind(operation_.result(), writer_.temporary(type, "y", rounded));
    const auto& results = body_.terminator()->operands();
    for (size_t i = 0; i < results.size(); ++i) {
      const std::string index = emitter_.linear(results[i]->type.shape, at);
      store_result(writer_, i, results[i]->type.dtype, index, emitter_.element(results[i], at));
    }
    emitter_.unbind(operation_.result());
  }

  // softmax(x) = exp(x - max) / sum(exp(x - max)); log_softmax(x) = x - max - log(sum(exp(x - max)))
  void emit_softmax() {
    const std::string_view type = sum_type();
    writer_.line(concat(type, " part = ", number(-std::numeric_limits<double>::infinity()), ";"));
    for_each(true, [&](const Position&, const std::string& x) {
      writer_.line(concat("part = ", x, " > part ? ", x, " : part;"));
    });
    writer_.line(concat("const ", type, " top = ", combined("top", "part", "b > a ? b : a"), ";"));
    writer_.line(concat("part = ", number(0), ";"));
    for_each(false, [&](const Position&, const std::string& x) {
      writer_.line(concat("part += ", math("exp", concat(x, " - top")), ";"));
    });
    writer_.line(concat("const ", type, " total = ", sum("part"), ";"));
    const bool logarithm = operation_.is(Op::log_softmax);
    if (logarithm) writer_.line(concat("const ", type, " log_total = ", math("log", "total"), ";"));
    for_each(false, [&](const Position& at, const std::string& x) {
      store(at, logarithm ? concat(x, " - top - log_total") : concat(math("exp", concat(x, " - top")), " / total"));
    });
  }

  // layer_norm: (x - mean) / sqrt(mean((x - mean)^2) + epsilon) * scale + bias, in two passes over the row;
  // rms_norm: the same with a mean of 0 and no bias.
  void emit_norm() {
    const std::string_view type = sum_type();
    const std::string length = concat("(", type, ")", writer_.dim(rows_.length));
    const bool center = operation_.is(Op::layer_norm);
    std::string centered_suffix;
    if (center) {
      writer_.line(concat(type, " part = ", number(0), ";"));
      for_each(true, [&](const Position&, const std::string& x) { writer_.line(concat("part += ", x, ";")); });
      writer_.line(concat("const ", type, " mean = ", sum("part"), " / ", length, ";"));
      centered_suffix = " - mean";
    }
    writer_.line(concat(type, " squares = ", number(0), ";"));
    for_each(!center, [&](const Position&, const std::string& x) {
      const std::string d = writer_.temporary(type, "d", concat(x, centered_suffix));
      writer_.line(concat("squares += ", d, " * ", d, ";"));
    });
    writer_.line(concat(
        "const ", type, " factor = ", number(1), " / ",
        math("sqrt", concat(sum("squares"), " / ", length, " + ", number(operation_.attributes.real("epsilon")))),
        ";"));
    const Shape& shape = operation_.operand(0)->type.shape;
    for_each(false, [&](const Position& at, const std::string& x) {
      auto parameter = [&](size_t i) {
        const Value* value = operation_.operand(i);
        return emitter_.element(value, emitter_.broadcast_position(value->type.shape, shape, at));
      };
      std::string y = center ? concat("(", x, " - mean) * factor") : concat(x, " * factor");
      y = concat(y, " * ", parameter(1));
      if (operation_.operand_count() > 2) y = concat(y, " + ", parameter(2));
      store(at, y);
    });
  }

  void emit_reduction() {
    const std::string_view type = sum_type();
    const Combination combination = combination_of(writer_, operation_.op, dtype_);
    const std::string what(to_string(operation_.op));
    writer_.line(concat(type, " a = ", combination.initial, ";"));
    for_each(true, [&](const Position&, const std::string& x) {
      writer_.line(concat("const ", type, " b = ", x, ";"));
      writer_.line(concat("a = ", combination.step, ";"));
    });
    std::string total = combined(what, "a", combination.step);
    if (operation_.is(Op::reduce_mean)) total = mean(total);
    writer_.line(concat("const ", type, " total = ", total, ";"));
    writer_.open("if (threadIdx.x == 0) {");
    emitter_.push_scope();
    store(Position::at("row"), "total");
    emitter_.pop_scope();
    writer_.close();
  }

  std::string mean(const std::string& total) {
    if (is_float(dtype_)) return concat(total, " / (", sum_type(), ")", writer_.dim(rows_.length));
    return concat(writer_.call("rtx_div_i64"), "(", total, ", ", writer_.dim64(rows_.length), ")");
  }

  KernelWriter& writer_;
  const Block& body_;
  const Operation& operation_;
  RowShape rows_;
  ElementEmitter emitter_;
  DType dtype_, sum_dtype_;
};

Dim row_flops(const Operation& operation) {
  const Dim count = operation.operand(0)->type.element_count();
  switch (operation.op) {
    case Op::softmax:
    case Op::log_softmax:
      return count * Dim(20);  // two exponentials, a maximum, a sum, a division
    case Op::layer_norm:
      return count * Dim(8);
    case Op::rms_norm:
      return count * Dim(4);
    default:
      return count;
  }
}

}  // namespace

Result<KernelPlan> plan_row(const Block& body, const PlanContext& context) {
  const Operation* operation = find_only(body, is_row_op);
  if (!operation) return refuse("row", "the body does not have exactly one row operation");
  RTX_TRY(check_elementwise("row", body, operation));
  const std::optional<RowShape> rows = row_shape_of(*operation, context.symbols);
  if (!rows) return refuse("row", "the reduced axes are not neighbours");
  const Dim count = operation->result()->type.element_count();
  for (const Value* result : body.terminator()->operands()) {
    if (!(result->type.element_count() == count))
      return refuse("row", "a result is larger or smaller than the row operation's");
  }
  const bool narrow = fits_narrow_index(body, context.symbols);
  KernelWriter writer(!narrow, context.symbols);
  RowEmitter emitter(writer, body, *operation, *rows);
  KernelPlan plan = KernelPlan::for_body(
      "row", concat(rows->by_warp() ? "warp" : "block", ".k", rows->kept, narrow ? ".i32" : ".i64"), body);
  emitter.emit(plan);
  finish_launch(plan, writer, body);
  plan.flops = elementwise_flops(body) + row_flops(*operation);
  plan.bytes = traffic_bytes(body);
  const std::string length = concat("a row has ", rows->length.str(), " elements");
  if (!rows->by_warp())
    plan.considered.push_back(
        {"a warp a row", -1, false, concat(length, ", not known to be at most ", longest_warp_row), {}});
  if (rows->kept == 0)
    plan.considered.push_back({"rows in registers",
                               -1,
                               false,
                               concat(length, ", not known to be at most ", most_kept_elements * rows->group),
                               {}});
  return plan;
}

}  // namespace rtx::codegen
