// Manifest: everything the runtime needs to know about a package, as plain data. docs/package_format.md specifies the
// file; this header is its image in memory. The runtime decides nothing: sizes, launch shapes and order stand here.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/result.h"
#include "runtime/package/decision.h"
#include "runtime/package/formula.h"

namespace rtx::package {

inline constexpr int format_version = 3;

// Ordered: a level includes those before it.
enum class Determinism : uint8_t { run_to_run, batch_invariant, gpu_to_gpu };
std::string_view to_string(Determinism level);
std::optional<Determinism> parse_determinism(std::string_view text);

struct Symbol {
  std::string name;
  int64_t min = 0;
  int64_t max = 0;  // both ends included
  int64_t opt = 0;  // the size planned for; 0: none given
  bool operator==(const Symbol&) const = default;
};

// One file of the package other than the manifest itself.
struct FileEntry {
  std::string name;  // no folder part
  int64_t bytes = 0;
  std::string sha256;  // 64 lower-case hex digits
  bool operator==(const FileEntry&) const = default;
};

// What the compiler read out of the machine code for one architecture.
struct Resources {
  std::string arch;       // "sm_120"
  int registers = 0;      // a thread
  int shared_bytes = 0;   // static, a block
  int spill_bytes = 0;    // stores + loads, a thread
  int stack_bytes = 0;    // a thread
  int blocks_per_sm = 0;  // occupancy: resident blocks of `threads` threads on one multiprocessor
  double occupancy = 0;   // resident warps over the multiprocessor's maximum
  bool operator==(const Resources&) const = default;
};

// A launch of our own device code. Kernel parameters, in order: the address of each operand, of each result, of the
// workspace and of the counters where the kernel has them, then each scalar as int64.
struct Launch {
  std::string function;  // extern "C" name
  std::array<Formula, 3> grid;
  std::array<int, 3> block = {1, 1, 1};
  Formula shared_bytes;     // dynamic
  Formula workspace_bytes;  // of the arena, during the step; none if the text is "0"
  Formula counters;         // u32, zero between launches, of one step alone; none if the text is "0"
  std::vector<Formula> scalars;
  // The range of kernels.fatbin that holds this kernel's container.
  int64_t code_offset = 0;
  int64_t code_bytes = 0;
  std::vector<Resources> resources;  // in the order of Manifest::archs

  bool has_workspace() const { return workspace_bytes.text() != "0"; }
  bool has_counters() const { return counters.text() != "0"; }
  bool operator==(const Launch&) const = default;
};

// A matrix product by cuBLASLt, in row-major terms: result[b] = op(lhs[b]) * op(rhs[b]), [m, n] = [m, k] * [k, n].
// Stored operands are contiguous; a batch stride of 0 reuses one matrix for all. Operands 0 and 1 are lhs and rhs.
struct MatmulCall {
  Formula batch, m, n, k;
  bool transpose_lhs = false;                  // stored [k, m]
  bool transpose_rhs = false;                  // stored [n, k]
  Formula lhs_batch_stride, rhs_batch_stride;  // elements
  DType dtype = DType::f32;                    // of operands and result; accumulation is f32 (f64 for f64)
  // Operands that are added before the result is rounded: one element a column, one element an element of the result.
  std::optional<uint32_t> bias, residual;
  bool operator==(const MatmulCall&) const = default;
};

struct Kernel {
  std::string name;       // unique in the package: kind and the start of the cache key
  std::string kind;       // pointwise, row, reduce, contract, movement, conv, scan ...
  std::string cache_key;  // SHA-256 of everything the code depends on but the architecture
  std::string body;       // the IR this kernel computes (ir print_body); what the CPU device runs
  Determinism determinism = Determinism::run_to_run;
  std::string plan;               // how the work is cut: "v4.i32", "cublaslt"
  Formula flops, bytes;           // arithmetic and DRAM traffic of one launch
  MathUnit unit = MathUnit::f32;  // for estimates, with the share of its peak that is reached
  int percent = 50;
  std::vector<uint32_t> decisions;  // of Manifest::decisions: the plans considered
  // Exactly one, or neither in a package for the CPU device alone.
  std::optional<Launch> launch;
  std::optional<MatmulCall> matmul;

  PlannedWork work() const { return {unit, percent, flops, bytes}; }
  bool operator==(const Kernel&) const = default;
};

// What a buffer is: an input or output of the program, a weight, a piece of the arena, or counters of one step. Steps
// write only outputs, the arena and their own counters.
enum class BufferKind : uint8_t { input, output, weight, arena, counters };
std::string_view to_string(BufferKind kind);
std::optional<BufferKind> parse_buffer_kind(std::string_view text);

struct Buffer {
  BufferKind kind = BufferKind::arena;
  uint32_t index = 0;  // of the input, output, weight, arena piece, or among the buffers of counters
  Formula bytes;
  bool operator==(const Buffer&) const = default;
};

struct Step {
  uint32_t kernel = 0;
  std::vector<uint32_t> operands, results;  // buffers
  std::vector<uint32_t> scratch;            // buffers: the workspace and the counters, those that the kernel has
  std::vector<std::string> origins;         // ONNX nodes, for messages
  std::vector<uint32_t> decisions;          // of Manifest::decisions: why it is a step of its own
  bool operator==(const Step&) const = default;
};

struct TensorSpec {
  std::string name;
  DType dtype = DType::f32;
  std::vector<Formula> shape;
  bool operator==(const TensorSpec&) const = default;
};

// Position of an input that is a bool of one element, and the value that it has where the program is to be used.
struct Selector {
  uint32_t input = 0;
  bool value = false;
  bool operator==(const Selector&) const = default;
};

// Dims that are constants in a program, by position among the symbols, rising; at least one.
struct Variant {
  struct FixedDim {
    uint32_t symbol = 0;
    int64_t size = 0;
    bool operator==(const FixedDim&) const = default;
  };
  uint32_t of = 0;  // position of the general program, which stands before its variants
  std::vector<FixedDim> dims;
  bool operator==(const Variant&) const = default;
};

struct Program {
  std::string name;
  std::optional<Selector> when;    // none: for every call
  std::optional<Variant> variant;  // none: for all sizes of the dims
  std::vector<TensorSpec> inputs, outputs;
  // Bytes of each piece of the arena, from the lowest address up. Where they lie: runtime/package/arena_layout.h.
  std::vector<Formula> arena;
  std::vector<Buffer> buffers;
  std::vector<Step> steps;  // in order of execution
  bool operator==(const Program&) const = default;
};

struct Manifest {
  std::string producer;  // "rtx-compile 0.1.0"
  Determinism determinism = Determinism::run_to_run;
  std::vector<std::string> archs;  // "sm_90a" ...; empty: a package for the CPU device alone
  std::vector<Symbol> symbols;
  std::vector<std::string> weights;  // tensor names in weights.safetensors
  std::vector<FileEntry> files;      // every file but the manifest, by name
  std::string tuning_table;          // SHA-256 of the tuning table that plans were chosen by; empty: none
  std::vector<Decision> decisions;   // each once
  std::vector<Kernel> kernels;
  std::vector<Program> programs;

  const Program* find_program(std::string_view name) const;
  std::vector<std::string> symbol_names() const;
  bool operator==(const Manifest&) const = default;
};

// Canonical YAML: equal manifests give equal bytes. The last line is the SHA-256 of all bytes before it.
std::string to_yaml(const Manifest& manifest);

// Strict: one document, no anchors, aliases, tags or duplicate keys, no unknown or missing key, depth and size limits;
// every index in range. Errors: E601 (not a manifest), E602 (version), E603 (formula), with line and column; E611 (the
// bytes are not those that were written).
Result<Manifest> parse_manifest(std::string_view yaml, std::string_view file);

}  // namespace rtx::package
