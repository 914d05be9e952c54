// A group of threads works on one row: a warp for rows of at most 1024 elements, a block for longer ones. Each thread
// takes every G-th element (G = 32 or 256) in rising order, partial results are combined by a butterfly within a warp
// and in warp order across warps. So the order of every sum depends on the row length and on nothing else.
//
// Rows whose length is bounded by 32 elements a thread stay in registers between the passes; longer rows are read
// again, which the caches mostly serve.
//
// Several row operations that do not depend on each other are computed side by side, by blocks of their own.

#include <algorithm>
#include <functional>
#include <limits>
#include <optional>
#include <set>

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

// A row operation and the results that come from it. Bodies with several do the work of several kernels side by side:
// blocks [0, n0) that of the first, the next n1 blocks that of the second, and so on.
struct Part {
  const Operation* operation = nullptr;
  RowShape rows;
  std::vector<size_t> results;

  Dim blocks() const {
    return rows.by_warp() ? ceildiv(rows.outer * rows.inner, Dim(rows_per_warp_block)) : rows.outer * rows.inner;
  }
};

// The text of one part of a row kernel.
class RowEmitter {
 public:
  RowEmitter(KernelWriter& writer, const Block& body, const Part& part)
      : writer_(writer),
        body_(body),
        operation_(*part.operation),
        rows_(part.rows),
        results_(part.results),
        emitter_(writer, body) {
    dtype_ = operation_.operand(0)->type.dtype;
    sum_dtype_ = partial_dtype(dtype_);
  }

  // `block` is the number of this block within the part.
  void emit(const std::string& block) {
    begin(block);
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

  void begin(const std::string& block) {
    const Dim row_count = rows_.outer * rows_.inner;
    const std::string_view type = writer_.index_type();
    if (rows_.by_warp()) {
      writer_.line(
          concat("const ", type, " row = (", type, ")", block, " * ", rows_per_warp_block, " + (int)threadIdx.y;"));
      writer_.line(concat("if (row >= ", writer_.dim(row_count), ") return;  // the whole warp leaves"));
    } else {
      writer_.line(concat("const ", type, " row = ", block, ";"));
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
      emitter_.bind(operand, [&](const Position& p) { return is_own(p, at) ? x : std::string(); });
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

  // Whether `p`, a position in the operand or in a value of its shape, is the one that this thread is at.
  bool is_own(const Position& p, const Position& at) {
    if (p.is_linear()) return p.key() == at.key();
    return p.key() == Position::at(emitter_.coordinates(operation_.operand(0)->type.shape, at)).key();
  }

  // The operation's element at a position, in the type of sums, given that of its operand.
  using Formula = std::function<std::string(const Position&, const std::string&)>;

  // Stores the results of the body at `at`, where the operand's element is `x`.
  void store(const Position& at, const std::string& x, const Formula& formula) {
    const DType dtype = operation_.result()->type.dtype;
    emitter_.bind(operation_.result(), [&](const Position& p) {
      // Another element of the row is the other one of a pair.
      const bool own = is_reduction(operation_.op) || is_own(p, at);
      const std::string value = formula(p, own ? x : emitter_.element(operation_.operand(0), p));
      return writer_.temporary(register_type(dtype), "y", from_partial(writer_, dtype, value));
    });
    for (size_t i : results_) {
      const Value* result = body_.terminator()->operand(i);
      store_result(writer_, i, result->type.dtype, emitter_.linear(result->type.shape, at),
                   emitter_.element(result, at));
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
      store(at, x, [&](const Position&, const std::string& v) {
        return logarithm ? concat(v, " - top - log_total") : concat(math("exp", concat(v, " - top")), " / total");
      });
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
      store(at, x, [&](const Position& p, const std::string& v) {
        auto parameter = [&](size_t i) {
          const Value* value = operation_.operand(i);
          return emitter_.element(value, emitter_.broadcast_position(value->type.shape, shape, p));
        };
        std::string y = center ? concat("(", v, " - mean) * factor") : concat(v, " * factor");
        y = concat(y, " * ", parameter(1));
        if (operation_.operand_count() > 2) y = concat(y, " + ", parameter(2));
        return y;
      });
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
    store(Position::at("row"), {}, [](const Position&, const std::string&) { return std::string("total"); });
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
  std::vector<size_t> results_;
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

// The row operation that a value comes from; null: none, or more than one.
const Operation* row_operation_of(const Value* value) {
  const Operation* found = nullptr;
  std::vector<const Value*> open = {value};
  std::set<const Value*> seen;
  while (!open.empty()) {
    const Value* next = open.back();
    open.pop_back();
    if (!seen.insert(next).second || !next->def()) continue;
    if (is_row_op(next->def()->op)) {
      if (found && found != next->def()) return nullptr;
      found = next->def();
      continue;
    }
    for (const Value* operand : next->def()->operands()) open.push_back(operand);
  }
  return found;
}

// The one row operation that a value leads to, through others.
const Operation* row_operation_behind(const Value* value) {
  for (const Use& use : value->uses()) {
    if (is_row_op(use.user->op)) return use.user;
    if (use.user->is(Op::yield)) continue;
    if (const Operation* found = row_operation_behind(use.user->result())) return found;
  }
  return nullptr;
}

Result<std::vector<Part>> parts_of(const Block& body, const SymbolRanges& symbols) {
  std::vector<Part> parts;
  for (const auto& operation : body.operations()) {
    if (!is_row_op(operation->op)) continue;
    const std::optional<RowShape> rows = row_shape_of(*operation, symbols);
    if (!rows) return refuse("row", "the reduced axes are not neighbours");
    for (const Value* operand : operation->operands()) {
      if (row_operation_of(operand)) return refuse("row", "a row operation reads the result of another one");
    }
    if (!stays_in_row(*operation->result(), rows->along(operation->operand(0)->type.shape)))
      return refuse("row", "an element needs elements of other rows");
    parts.push_back({operation.get(), *rows, {}});
  }
  if (parts.empty()) return refuse("row", "the body has no row operation");
  const auto& results = body.terminator()->operands();
  for (size_t i = 0; i < results.size(); ++i) {
    const Operation* operation = row_operation_of(results[i]);
    if (!operation) operation = row_operation_behind(results[i]);
    auto part = std::find_if(parts.begin(), parts.end(), [&](const Part& p) { return p.operation == operation; });
    if (part == parts.end()) return refuse("row", "a result does not belong to one row operation");
    if (!(results[i]->type.element_count() == operation->result()->type.element_count()))
      return refuse("row", "a result is larger or smaller than the row operation's");
    part->results.push_back(i);
  }
  for (const Part& part : parts) {
    if (part.rows.by_warp() != parts[0].rows.by_warp())
      return refuse("row", "rows of warps and rows of blocks do not go side by side");
  }
  return parts;
}

void add_decisions(KernelPlan& plan, const RowShape& rows) {
  const std::string length = concat("a row has ", rows.length.str(), " elements");
  auto add = [&](std::string_view what, int64_t most) {
    plan.considered.push_back({std::string(what), -1, false, concat(length, ", not known to be at most ", most), {}});
  };
  if (!rows.by_warp()) add("a warp a row", longest_warp_row);
  if (rows.kept == 0) add("rows in registers", most_kept_elements * rows.group);
}

}  // namespace

Result<KernelPlan> plan_row(const Block& body, const PlanContext& context) {
  RTX_TRY(check_elementwise_but("row", body, is_row_op));
  RTX_ASSIGN(const std::vector<Part> parts, parts_of(body, context.symbols));
  const bool narrow = fits_narrow_index(body, context.symbols);
  KernelWriter writer(!narrow, context.symbols);
  std::string tile = parts[0].rows.by_warp() ? "warp" : "block";
  for (size_t i = 0; i < parts.size(); ++i) tile += concat(i == 0 ? ".k" : "+k", parts[i].rows.kept);
  KernelPlan plan = KernelPlan::for_body("row", concat(tile, narrow ? ".i32" : ".i64"), body);
  plan.launch.emplace();
  plan.launch->block = parts[0].rows.by_warp() ? std::array<int, 3>{warp, rows_per_warp_block, 1}
                                               : std::array<int, 3>{block_threads, 1, 1};
  std::vector<Dim> blocks;
  for (const Part& part : parts) blocks.push_back(part.blocks());
  plan.launch->grid[0] = emit_side_by_side(
      writer, blocks, [&](size_t i, const std::string& block) { RowEmitter(writer, body, parts[i]).emit(block); });
  finish_launch(plan, writer, body);
  plan.flops = elementwise_flops(body);
  for (const Part& part : parts) {
    plan.flops = plan.flops + row_flops(*part.operation);
    add_decisions(plan, part.rows);
  }
  plan.bytes = traffic_bytes(body);
  return plan;
}

}  // namespace rtx::codegen
