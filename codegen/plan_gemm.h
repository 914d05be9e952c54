// Matrix products by our own kernels, with whatever is done to each element of the result in the same kernel.
//
// A block of threads computes one tile of the result. Each element is one sum over k in rising order, in f32 (f64 for
// f64), which starts at zero and goes through the same instructions for every tile shape and place: an element depends
// on its row of lhs, its column of rhs and k alone, bit for bit. Tiles come in three shapes, chosen by the sizes that
// are planned for; the choice changes the time and nothing else.
#pragma once

#include "codegen/emit/kernel_writer.h"
#include "codegen/kernel_plan.h"
#include "codegen/product.h"

namespace rtx::codegen {

struct GemmTile {
  int m, n, k;             // of the result, and the depth of one step
  int groups_m, groups_n;  // f16 and bf16: warps along m and n; f32 and f64: threads
  int stages;              // steps that lie in shared memory at a time

  bool operator==(const GemmTile&) const = default;
};

// The matmul of `body`, f64, f32, f16 or bf16 and of any sizes, and its epilogue (epilogue_of). Where that reads
// several parts of the product, a tile holds as many runs of columns, one of each part.
// `tuned`, if given, names the plan and is asked for at this place.
struct TuningEntry;
Result<KernelPlan> plan_gemm(const Block& body, const Operation& matmul, const Product& product,
                             const PlanContext& context, const TuningEntry* tuned = nullptr);

// The names of the plans that plan_gemm can be asked for, "tensor.64x64x32"; empty for dtypes without products.
std::vector<std::string> own_product_plans(DType dtype);

// For plan_gemm. Both write declarations and the loop over k; before it stand these locals: `lhs`, `rhs` (the operands
// of this batch), `m`, `n`, `k`, `row0`, `column0` (the tile's first element; the column is that in each of the
// `parts`).
//
// f16, bf16 on tensor cores. After it `tile[row * tile_pitch + column]` in shared memory is the tile, rounded.
void emit_tensor_core_loop(KernelWriter& writer, const Product& product, const GemmTile& tile, size_t parts);
// f32, f64 by fused multiply-adds. After it `sums[i][p * part_n + j]` is row `row0 + tile_row(i)`, column `column0 +
// tile_column(j)` of part p.
void emit_scalar_loop(KernelWriter& writer, const Product& product, const GemmTile& tile, size_t parts);

}  // namespace rtx::codegen
