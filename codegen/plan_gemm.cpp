#include "codegen/plan_gemm.h"

#include "base/text.h"
#include "codegen/assign_slots.h"
#include "codegen/emit/c_types.h"
#include "codegen/plan_common.h"
#include "codegen/product_cost.h"

namespace rtx::codegen {
namespace {

constexpr GemmTile tensor_tiles[] = {{16, 64, 64, 1, 4, 4}, {64, 64, 32, 2, 2, 3}, {128, 128, 32, 2, 4, 3}};
constexpr GemmTile f32_tiles[] = {{16, 64, 32, 8, 16, 2}, {64, 64, 16, 16, 16, 2}, {128, 64, 16, 16, 16, 2}};
constexpr GemmTile f64_tiles[] = {{16, 64, 16, 8, 16, 2}, {64, 64, 16, 16, 16, 2}, {64, 64, 16, 16, 16, 2}};

// Large tiles read operands less often, but a GPU wants two blocks for each of its 132 (H200) to 170 (RTX 5090)
// multiprocessors.
constexpr int64_t blocks_wanted = 264;
constexpr int64_t most_small_rows = 16;
// Blocks that follow each other walk down this many rows of tiles before the next column of them, so that what they
// read of rhs stays in the cache.
constexpr int tile_rows_together = 8;

bool on_tensor_cores(DType dtype) { return dtype == DType::f16 || dtype == DType::bf16; }

struct TileChoice {
  size_t number;
  std::string reason;
};

// 0 for at most 16 rows, 2 where there is work for large tiles, else 1; at the sizes that are planned for.
TileChoice choose_tile(const Product& product, const GemmTile& large, const SymbolRanges& symbols) {
  const SymbolValues sizes = representative_values(symbols);
  const Result<int64_t> m = product.m.evaluate(sizes);
  if (product.m.upper_bound(symbols) <= most_small_rows || (m && *m <= most_small_rows))
    return {0, concat("at most ", most_small_rows, " rows are planned for")};
  const Dim blocks = product.batch * ceildiv(product.m, Dim(large.m)) * ceildiv(product.n, Dim(large.n));
  const Result<int64_t> count = blocks.evaluate(sizes);
  if (!count) return {1, "the number of blocks is not known"};
  return {*count >= blocks_wanted ? size_t{2} : size_t{1},
          concat(*count, " blocks of ", large.m, "x", large.n, " at the planned sizes, ", blocks_wanted, " wanted")};
}

// The position of this block: `batch`, `row0`, `column0`, and the operands of the batch.
void emit_begin(KernelWriter& writer, const Block& body, const Operation& matmul, const Product& product,
                const GemmTile& tile) {
  const std::string index(writer.index_type());
  auto argument = [&](size_t operand) {
    for (size_t i = 0; i < body.argument_count(); ++i) {
      if (body.argument(i) == matmul.operand(operand)) return concat("a", i);
    }
    return std::string();
  };
  for (const auto& [name, size] : {std::pair("m", product.m), {"n", product.n}, {"k", product.k}})
    writer.line(concat("const ", index, " ", name, " = ", writer.dim(size), ";"));
  writer.line(concat("const ", index, " tiles_m = (m + ", tile.m - 1, ") / ", tile.m, ", tiles_n = (n + ", tile.n - 1,
                     ") / ", tile.n, ";"));
  const bool has_batch = !product.batch.is(1);
  if (has_batch) {
    writer.line(concat("const ", index, " batch = (", index, ")blockIdx.x / (tiles_m * tiles_n);"));
    writer.line(concat("const ", index, " block = (", index, ")blockIdx.x % (tiles_m * tiles_n);"));
  } else {
    writer.line(concat("const ", index, " batch = 0, block = (", index, ")blockIdx.x;"));
  }
  writer.line(concat("const ", index, " first_tile = block / (", tile_rows_together, " * tiles_n) * ",
                     tile_rows_together, ";"));
  writer.line(concat("const ", index, " tile_rows = tiles_m - first_tile < ", tile_rows_together,
                     " ? tiles_m - first_tile : ", tile_rows_together, ";"));
  writer.line(concat("const ", index, " within = block % (", tile_rows_together, " * tiles_n);"));
  writer.line(concat("const ", index, " row0 = (first_tile + within % tile_rows) * ", tile.m,
                     ", column0 = within / tile_rows * ", tile.n, ";"));
  const std::string_view type = memory_type(product.dtype);
  for (size_t operand = 0; operand < 2; ++operand) {
    const Dim& stride = operand == 0 ? product.lhs_stride : product.rhs_stride;
    const std::string offset = stride.is(0) ? "" : concat(" + batch * ", writer.dim(stride));
    writer.line(
        concat("const ", type, "* const ", operand == 0 ? "lhs" : "rhs", " = ", argument(operand), offset, ";"));
  }
}

// Stores the results at `row`, `column` of the whole product, where its element is `value`.
void emit_element(KernelWriter& writer, ElementEmitter& emitter, const Block& body, const Operation& matmul,
                  const Product& product, const std::string& value) {
  const std::string_view index = writer.index_type();
  writer.line("if (row >= m || column >= n) continue;");
  writer.line(concat("const ", index, " outer = batch * m + row, at = outer * n + column;"));
  // Operands that follow the rows or the columns need no division.
  const std::string length = writer.dim(product.n);
  writer.alias(index, KernelWriter::divide("at", length), "outer");
  writer.alias(index, KernelWriter::remainder("at", length), "column");
  emitter.push_scope();
  emitter.bind(matmul.result(), writer.temporary(register_type(product.dtype), "v", value));
  const auto& results = body.terminator()->operands();
  for (size_t i = 0; i < results.size(); ++i)
    store_result(writer, i, results[i]->type.dtype, "at", emitter.element(results[i], Position::at("at")));
  emitter.pop_scope();
}

std::string tile_text(const GemmTile& tile) { return concat(tile.m, "x", tile.n, "x", tile.k); }

std::vector<Decision> considered_plans(const Block& body, const Operation& matmul, const Product& product,
                                       const GemmTile& tile, const std::string& reason, const PlanContext& context) {
  Decision own{concat("own kernel, tiles of ", tile_text(tile)), -1, true, reason, {}};
  const bool plain = body.size() == 2;
  Decision library{plain ? "cublaslt" : "cublaslt and a kernel", -1, false, "estimated slower",
                   library_launches(body, matmul, product)};
  if (context.determinism >= package::Determinism::batch_invariant) {
    library.reason = "it promises equal bits from run to run only";
  } else if (estimate_ns(own_launches(body, product), context.symbols) >
             estimate_ns(library.launches, context.symbols)) {
    library.reason = "the fusion holds the work after the product";
  }
  return {std::move(own), std::move(library)};
}

}  // namespace

Result<KernelPlan> plan_gemm(const Block& body, const Operation& matmul, const Product& product,
                             const PlanContext& context) {
  RTX_TRY(check_epilogue(body, matmul));
  for (const Value* operand : matmul.operands()) {
    if (operand->def()) return refuse("contract", "an operand of the product is computed in the body");
  }
  const DType dtype = product.dtype;
  const bool tensor = on_tensor_cores(dtype);
  const auto& tiles = tensor ? tensor_tiles : dtype == DType::f64 ? f64_tiles : f32_tiles;
  const TileChoice choice = choose_tile(product, tiles[2], context.symbols);
  const GemmTile tile = tiles[choice.number];
  const bool narrow = fits_narrow_index(body, context.symbols);
  KernelPlan plan = KernelPlan::for_body(
      "contract", concat(tensor ? "tensor." : "fma.", tile.m, "x", tile.n, "x", tile.k, narrow ? ".i32" : ".i64"),
      body);
  plan.launch.emplace();
  plan.launch->grid[0] = product.batch * ceildiv(product.m, Dim(tile.m)) * ceildiv(product.n, Dim(tile.n));
  plan.launch->block = {tile.groups_m * tile.groups_n * (tensor ? 32 : 1), 1, 1};

  KernelWriter writer(!narrow, context.symbols);
  ElementEmitter emitter(writer, body);
  emit_begin(writer, body, matmul, product, tile);
  const std::string index(writer.index_type());
  if (tensor) {
    emit_tensor_core_loop(writer, product, tile);
    writer.open("for (int e = (int)threadIdx.x; e < tile_m * tile_n; e += threads) {");
    writer.line(concat("const ", index, " row = row0 + e / tile_n, column = column0 + e % tile_n;"));
    emit_element(writer, emitter, body, matmul, product,
                 unpack_expression(writer, dtype, "tile[e / tile_n * tile_pitch + e % tile_n]"));
    writer.close();
  } else {
    emit_scalar_loop(writer, product, tile);
    writer.line("#pragma unroll");
    writer.open("for (int i = 0; i < each_m; ++i) {");
    writer.line("#pragma unroll");
    writer.open("for (int j = 0; j < each_n; ++j) {");
    writer.line(concat("const ", index, " row = row0 + tile_row(i), column = column0 + tile_column(j);"));
    emit_element(writer, emitter, body, matmul, product, "sums[i][j]");
    writer.close();
    writer.close();
  }
  finish_launch(plan, writer, body);
  plan.flops = product.flops() + elementwise_flops(body);
  plan.bytes = traffic_bytes(body);
  plan.unit = unit_of_product(dtype);
  plan.percent = own_percent;
  plan.considered = considered_plans(body, matmul, product, tile, choice.reason, context);
  if (body.size() > 2 && context.determinism < package::Determinism::batch_invariant)
    plan.product_cost = cost_of_product(body, matmul, product, context.symbols);
  return plan;
}

}  // namespace rtx::codegen
