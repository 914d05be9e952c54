// KernelPlan: everything about one kernel of a package, as plain data. Planners make it; the package writer and the
// compiler driver read nothing else.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "codegen/decision.h"
#include "ir/module.h"
#include "runtime/package/manifest.h"

namespace rtx::codegen {

// What the generated code depends on, apart from the architecture.
struct CacheKey {
  std::string kind;  // pointwise, row, reduce, contract, attention, conv, scan, scatter, sort
  std::string tile;  // how the work is cut: "v4.i32" (4 elements a thread, 32-bit indices), "warp.i64", "cublaslt" ...
  DType dtype = DType::f32;  // of the first result
  std::string code_sha256;  // of the body, and of the CUDA text but for its name (it depends on the ranges of dims too)

  bool operator==(const CacheKey&) const = default;
  // "pointwise/v4.i32/f32/<hash>"
  std::string str() const;
  // SHA-256 of str(), with the version of the generator.
  std::string sha256() const;
};

// A launch of generated code. Kernel parameters, in order: operand addresses, result addresses, the address of the
// workspace where there is one, the address of the counters where there are any, scalars as int64.
struct LaunchPlan {
  std::string function;  // the extern "C" name
  std::string text;      // CUDA C++, complete; includes nothing
  std::array<Dim, 3> grid = {Dim(1), Dim(1), Dim(1)};
  std::array<int, 3> block = {1, 1, 1};
  Dim shared_bytes;
  // Memory of the arena that the kernel has for itself during its step; what it holds before is not defined. None if
  // the formula is 0.
  Dim workspace_bytes;
  // Counters (u32) that are zero before the launch and that the kernel leaves zero. They belong to one step alone. None
  // if the formula is 0.
  Dim counters;
  std::vector<Dim> scalars;

  bool has_workspace() const { return !workspace_bytes.is(0); }
  bool has_counters() const { return !counters.is(0); }
  bool operator==(const LaunchPlan&) const = default;
};

// A call of cuBLASLt; the fields are those of package::MatmulCall.
struct MatmulPlan {
  Dim batch, m, n, k;
  bool transpose_lhs = false, transpose_rhs = false;
  Dim lhs_batch_stride, rhs_batch_stride;
  DType dtype = DType::f32;
  std::optional<uint32_t> bias, residual;

  bool operator==(const MatmulPlan&) const = default;
};

// Estimated times of a product with an epilogue: as this kernel; as a call of cuBLASLt with a kernel for the rest; as
// such a call where a kernel that reads the result can do the rest too.
struct ProductCost {
  int64_t own_ns = 0, library_ns = 0, library_in_next_ns = 0;

  bool operator==(const ProductCost&) const = default;
};

struct KernelPlan {
  std::string name;  // kind and the start of the key's hash
  CacheKey key;
  std::string body;  // ir print_body; what the CPU device runs
  package::Determinism determinism = package::Determinism::batch_invariant;
  Dim flops, bytes;
  package::MathUnit unit = package::MathUnit::f32;  // for estimates, with the share of its peak that is reached
  int percent = 50;
  // Exactly one.
  std::optional<LaunchPlan> launch;
  std::optional<MatmulPlan> matmul;
  std::optional<ProductCost> product_cost;  // where there was the choice
  std::vector<Decision> considered;         // the plans that the planner weighed, the chosen one among them

  bool operator==(const KernelPlan&) const = default;
  // Fills the key, `name`, `body`, and `unit` for arithmetic outside tensor cores.
  static KernelPlan for_body(std::string_view kind, std::string tile, const Block& body);
  // Makes the key and the name follow from this text too; it must not hold the name.
  void add_code(std::string_view text);
  // Every field but the CUDA text, one a line: `name: value`.
  std::string str() const;
};

class TuningTable;

// What planners may know beside the body of a fusion.
struct PlanContext {
  const SymbolRanges& symbols;
  // What every kernel must keep at least; a planner that cannot refuses.
  package::Determinism determinism = package::Determinism::run_to_run;
  TuningTable* tuning = nullptr;  // plans to take, if given
};

}  // namespace rtx::codegen
