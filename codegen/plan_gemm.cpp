#include "codegen/plan_gemm.h"

#include <span>

#include "base/text.h"
#include "codegen/emit/c_types.h"
#include "codegen/plan_common.h"
#include "codegen/product_cost.h"
#include "codegen/representative_values.h"
#include "codegen/tuning_table.h"

namespace rtx::codegen {
namespace {

constexpr GemmTile tensor_tiles[] = {{16, 64, 64, 1, 4, 4}, {64, 64, 64, 2, 2, 3}, {128, 128, 32, 2, 4, 3}};
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

std::span<const GemmTile, 3> tiles_of(DType dtype) {
  return on_tensor_cores(dtype) ? std::span(tensor_tiles)
         : dtype == DType::f64  ? std::span(f64_tiles)
                                : std::span(f32_tiles);
}

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
                const GemmTile& tile, const Epilogue& epilogue) {
  const std::string index(writer.index_type());
  const int part_n = tile.n / static_cast<int>(epilogue.parts.size());
  auto argument = [&](size_t operand) {
    for (size_t i = 0; i < body.argument_count(); ++i) {
      if (body.argument(i) == matmul.operand(operand)) return concat("a", i);
    }
    return std::string();
  };
  for (const auto& [name, size] : {std::pair("m", product.m), {"n", product.n}, {"k", product.k}})
    writer.line(concat("const ", index, " ", name, " = ", writer.dim(size), ";"));
  writer.line(concat("const ", index, " tiles_m = (m + ", tile.m - 1, ") / ", tile.m, ", tiles_n = (",
                     writer.dim(epilogue.columns), " + ", part_n - 1, ") / ", part_n, ";"));
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
                     ", column0 = within / tile_rows * ", part_n, ";"));
  const std::string_view type = memory_type(product.dtype);
  for (size_t operand = 0; operand < 2; ++operand) {
    const Dim& stride = operand == 0 ? product.lhs_stride : product.rhs_stride;
    const std::string offset = stride.is(0) ? "" : concat(" + batch * ", writer.dim(stride));
    writer.line(
        concat("const ", type, "* const ", operand == 0 ? "lhs" : "rhs", " = ", argument(operand), offset, ";"));
  }
}

// Stores the results at `row`, `column` of each part of the product, where their elements are `values`.
void emit_element(KernelWriter& writer, ElementEmitter& emitter, const Block& body, const Product& product,
                  const Epilogue& epilogue, const std::vector<std::string>& values) {
  const std::string_view index = writer.index_type();
  const std::string columns = writer.dim(epilogue.columns);
  writer.line(concat("if (row >= m || column >= ", columns, ") continue;"));
  writer.line(concat("const ", index, " outer = batch * m + row, at = outer * ", columns, " + column;"));
  // Operands that follow the rows or the columns need no division.
  writer.alias(index, KernelWriter::divide("at", columns), "outer");
  writer.alias(index, KernelWriter::remainder("at", columns), "column");
  emitter.push_scope();
  for (size_t part = 0; part < values.size(); ++part)
    emitter.bind(epilogue.parts[part], writer.temporary(register_type(product.dtype), "v", values[part]));
  const auto& results = body.terminator()->operands();
  for (size_t i = 0; i < results.size(); ++i)
    store_result(writer, i, results[i]->type.dtype, "at", emitter.element(results[i], Position::at("at")));
  emitter.pop_scope();
}

std::string tile_text(const GemmTile& tile) { return concat(tile.m, "x", tile.n, "x", tile.k); }

std::string plan_name(DType dtype, const GemmTile& tile) {
  return concat(on_tensor_cores(dtype) ? "tensor." : "fma.", tile_text(tile));
}

std::vector<Decision> considered_plans(const Block& body, const Operation& matmul, const Product& product,
                                       const GemmTile& tile, const std::string& reason, const PlanContext& context,
                                       bool tuned) {
  Decision own{concat("own kernel, tiles of ", tile_text(tile)), -1, true, reason, {}};
  const bool whole = library_epilogue(body, matmul, product, context.symbols).has_value();
  Decision library{whole ? "cublaslt" : "cublaslt and a kernel", -1, false, "estimated slower",
                   whole ? library_call(body, product) : library_launches(body, matmul, product)};
  if (tuned) {
    library.reason = "tuning table";
  } else if (context.determinism >= package::Determinism::batch_invariant) {
    library.reason = "it promises equal bits from run to run only";
  } else if (whole) {
    library.reason = "estimated no faster";
  } else if (estimate_ns(own_launches(body, product), context.symbols) >
             estimate_ns(library.launches, context.symbols)) {
    library.reason = "the fusion holds the work after the product";
  }
  return {std::move(own), std::move(library)};
}

}  // namespace

std::vector<std::string> own_product_plans(DType dtype) {
  std::vector<std::string> names;
  if (!on_tensor_cores(dtype) && dtype != DType::f32 && dtype != DType::f64) return names;
  for (const GemmTile& tile : tiles_of(dtype)) {
    if (names.empty() || names.back() != plan_name(dtype, tile)) names.push_back(plan_name(dtype, tile));
  }
  return names;
}

Result<KernelPlan> plan_gemm(const Block& body, const Operation& matmul, const Product& product,
                             const PlanContext& context, const TuningEntry* tuned) {
  RTX_ASSIGN(const Epilogue epilogue, epilogue_of(body, matmul));
  const size_t parts = epilogue.parts.size();
  if (parts > 4 || parts == 3) return refuse("contract", concat("a tile is not cut into ", parts, " parts"));
  for (const Value* operand : matmul.operands()) {
    if (operand->def()) return refuse("contract", "an operand of the product is computed in the body");
  }
  const DType dtype = product.dtype;
  const bool tensor = on_tensor_cores(dtype);
  const std::span<const GemmTile, 3> tiles = tiles_of(dtype);
  TileChoice choice = choose_tile(product, tiles[2], context.symbols);
  for (size_t i = 0; tuned && i < tiles.size(); ++i) {
    if (plan_name(dtype, tiles[i]) == tuned->plan) choice = {i, concat("tuning table, ", tuned->place)};
  }
  const GemmTile tile = tiles[choice.number];
  const bool narrow = fits_narrow_index(body, context.symbols);
  const int part_n = tile.n / static_cast<int>(parts);
  KernelPlan plan = KernelPlan::for_body("contract",
                                         concat(tensor ? "tensor." : "fma.", tile.m, "x", tile.n, "x", tile.k,
                                                parts > 1 ? concat(".p", parts) : "", narrow ? ".i32" : ".i64"),
                                         body);
  plan.launch.emplace();
  plan.launch->grid[0] = product.batch * ceildiv(product.m, Dim(tile.m)) * ceildiv(epilogue.columns, Dim(part_n));
  plan.launch->block = {tile.groups_m * tile.groups_n * (tensor ? 32 : 1), 1, 1};

  KernelWriter writer(!narrow, context.symbols);
  if (dtype == DType::f32) writer.set_blocks_per_sm(2);  // without it ptxas aims at more of them, and spills
  ElementEmitter emitter(writer, body);
  emit_begin(writer, body, matmul, product, tile, epilogue);
  const std::string index(writer.index_type());
  std::vector<std::string> values;
  auto of_part = [&](size_t part, std::string_view run) { return part == 0 ? "" : concat(part, " * ", run, " + "); };
  if (tensor) {
    emit_tensor_core_loop(writer, product, tile, parts);
    writer.open("for (int e = (int)threadIdx.x; e < tile_m * part_n; e += threads) {");
    writer.line(concat("const ", index, " row = row0 + e / part_n, column = column0 + e % part_n;"));
    for (size_t part = 0; part < parts; ++part) {
      const std::string place = concat("tile[e / part_n * tile_pitch + ", of_part(part, "part_n"), "e % part_n]");
      values.push_back(unpack_expression(writer, dtype, place));
    }
    emit_element(writer, emitter, body, product, epilogue, values);
    writer.close();
  } else {
    emit_scalar_loop(writer, product, tile, parts);
    writer.line("#pragma unroll");
    writer.open("for (int i = 0; i < each_m; ++i) {");
    writer.line("#pragma unroll");
    writer.open("for (int j = 0; j < part_n; ++j) {");
    writer.line(concat("const ", index, " row = row0 + tile_row(i), column = column0 + tile_column(j);"));
    for (size_t part = 0; part < parts; ++part) values.push_back(concat("sums[i][", of_part(part, "part_n"), "j]"));
    emit_element(writer, emitter, body, product, epilogue, values);
    writer.close();
    writer.close();
  }
  finish_launch(plan, writer, body);
  plan.flops = product.flops() + elementwise_flops(body);
  plan.bytes = traffic_bytes(body);
  plan.unit = unit_of_product(dtype);
  plan.percent = own_percent;
  plan.considered = considered_plans(body, matmul, product, tile, choice.reason, context, tuned != nullptr);
  if (body.size() > 2 && context.determinism < package::Determinism::batch_invariant && !tuned)
    plan.product_cost = cost_of_product(body, matmul, product, context.symbols);
  return plan;
}

}  // namespace rtx::codegen
