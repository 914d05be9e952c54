#include "runtime/cuda_matmul.h"

#include <array>
#include <limits>
#include <optional>

#include "base/text.h"
#include "runtime/cuda_storage.h"
#include "runtime/cuda_stream.h"

namespace rtx::runtime {

namespace {

// Arena slots, weights and allocations all start at multiples of this.
constexpr uint32_t operand_alignment = 256;
constexpr int requested_algorithms = 32;
// An algorithm that keeps less of the GPU busy is passed over for a later one of the list that keeps more.
constexpr float busy_enough = 0.5f;

// A MatmulCall with its formulas evaluated.
struct Sizes {
  int64_t batch, m, n, k, lhs_stride, rhs_stride;
};

// The objects of one product, destroyed together.
struct Plan {
  const Cublaslt& cublaslt;
  cublas::MatmulDesc desc = nullptr;
  cublas::Layout lhs = nullptr, rhs = nullptr, result = nullptr;
  cublas::Preference preference = nullptr;
  cublas::Algo algo{};

  explicit Plan(const Cublaslt& table) : cublaslt(table) {}
  Plan(const Plan&) = delete;
  ~Plan() {
    if (preference) cublaslt.preference_destroy(preference);
    for (cublas::Layout layout : {lhs, rhs, result})
      if (layout) cublaslt.layout_destroy(layout);
    if (desc) cublaslt.desc_destroy(desc);
  }

  Result<void> make_layout(cublas::Layout& layout, int type, int64_t rows, int64_t columns, int64_t leading,
                           int64_t batch, int64_t stride) {
    RTX_TRY(check(
        cublaslt,
        cublaslt.layout_create(&layout, type, static_cast<uint64_t>(rows), static_cast<uint64_t>(columns), leading),
        "cublasLtMatrixLayoutCreate"));
    const int32_t count = static_cast<int32_t>(batch);
    RTX_TRY(check(cublaslt, cublaslt.layout_set(layout, cublas::layout_batch_count, &count, sizeof count),
                  "cublasLtMatrixLayoutSetAttribute"));
    return check(cublaslt, cublaslt.layout_set(layout, cublas::layout_batch_stride, &stride, sizeof stride),
                 "cublasLtMatrixLayoutSetAttribute");
  }

  Result<void> set_op(int attribute, bool transpose) {
    const int32_t op = transpose ? cublas::op_transpose : cublas::op_none;
    return check(cublaslt, cublaslt.desc_set(desc, attribute, &op, sizeof op), "cublasLtMatmulDescSetAttribute");
  }

  Result<void> set_bias(DevicePointer bias) {
    const void* const pointer = reinterpret_cast<const void*>(bias);
    return check(cublaslt, cublaslt.desc_set(desc, cublas::desc_bias_pointer, &pointer, sizeof pointer),
                 "cublasLtMatmulDescSetAttribute");
  }

  template <typename T>
  Result<void> prefer(int attribute, T value) {
    return check(cublaslt, cublaslt.preference_set(preference, attribute, &value, sizeof value),
                 "cublasLtMatmulPreferenceSetAttribute");
  }
};

class NoProduct : public PreparedKernel {
 public:
  Result<void> enqueue(Stream&, std::span<const DevicePointer>) override { return Ok{}; }
};

// k == 0: a sum over nothing.
class ZeroProduct : public PreparedKernel {
 public:
  ZeroProduct(const CudaContext& context, int64_t bytes) : context_(context), bytes_(bytes) {}
  Result<void> enqueue(Stream& stream, std::span<const DevicePointer> buffers) override {
    RTX_TRY(context_.enter());
    const CudaDriver& driver = context_.driver();
    return check(driver, driver.memset_async(buffers.back(), 0, static_cast<size_t>(bytes_), handle_of(stream)),
                 "cuMemsetD8Async");
  }

 private:
  const CudaContext& context_;
  int64_t bytes_;
};

class PreparedProduct : public PreparedKernel {
 public:
  PreparedProduct(const CudaContext& context, cublas::Handle handle, std::unique_ptr<Plan> plan,
                  const package::MatmulCall& call, const TensorStorage* workspace)
      : context_(context), handle_(handle), plan_(std::move(plan)), call_(call), workspace_(workspace) {}

  Result<void> enqueue(Stream& stream, std::span<const DevicePointer> buffers) override {
    const size_t operands = buffers.size() - 1;
    if (buffers.size() < 3 || call_.bias.value_or(0) >= operands || call_.residual.value_or(0) >= operands)
      return make_error(ErrorKind::integrity, "E605", "a matrix product has not the operands that it names");
    RTX_TRY(context_.enter());
    const float one_f32 = 1, beta_f32 = call_.residual ? 1 : 0;
    const double one_f64 = 1, beta_f64 = call_.residual ? 1 : 0;
    const bool is_f64 = call_.dtype == DType::f64;
    const void* alpha = is_f64 ? static_cast<const void*>(&one_f64) : &one_f32;
    const void* beta = is_f64 ? static_cast<const void*>(&beta_f64) : &beta_f32;
    auto pointer = [](DevicePointer address) { return reinterpret_cast<void*>(address); };
    void* const lhs = pointer(buffers[0]);
    void* const rhs = pointer(buffers[1]);
    void* const result = pointer(buffers.back());
    const void* const residual = call_.residual ? pointer(buffers[*call_.residual]) : result;
    if (call_.bias) RTX_TRY(plan_->set_bias(buffers[*call_.bias]));
    void* const workspace = workspace_ ? pointer(workspace_->address()) : nullptr;
    const size_t workspace_bytes = workspace_ ? static_cast<size_t>(workspace_->bytes()) : 0;
    // cuBLASLt is column-major, so it is asked for the transposed product: result^T = rhs^T * lhs^T.
    return check(plan_->cublaslt,
                 plan_->cublaslt.matmul(handle_, plan_->desc, alpha, rhs, plan_->rhs, lhs, plan_->lhs, beta, residual,
                                        plan_->result, result, plan_->result, &plan_->algo, workspace, workspace_bytes,
                                        handle_of(stream)),
                 "cublasLtMatmul");
  }

 private:
  const CudaContext& context_;
  cublas::Handle handle_;
  std::unique_ptr<Plan> plan_;
  package::MatmulCall call_;
  const TensorStorage* workspace_;  // of the CudaMatmul; null if the algorithm needs none
};

std::optional<int> cuda_type(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return cublas::type_f64;
    case DType::f32:
      return cublas::type_f32;
    case DType::f16:
      return cublas::type_f16;
    case DType::bf16:
      return cublas::type_bf16;
    default:
      return std::nullopt;
  }
}

// The plan but for its algorithm.
Result<void> describe(Plan& plan, const package::MatmulCall& call, const Sizes& s, int type, int64_t workspace_limit) {
  const Cublaslt& cublaslt = plan.cublaslt;
  const bool is_f64 = call.dtype == DType::f64;
  RTX_TRY(check(cublaslt,
                cublaslt.desc_create(&plan.desc, is_f64 ? cublas::compute_f64 : cublas::compute_f32,
                                     is_f64 ? cublas::type_f64 : cublas::type_f32),
                "cublasLtMatmulDescCreate"));
  // A row-major [rows, columns] matrix is a column-major [columns, rows] one, so a transpose asked for in row-major
  // terms is one in column-major terms too.
  RTX_TRY(plan.set_op(cublas::desc_transpose_a, call.transpose_rhs));
  RTX_TRY(plan.set_op(cublas::desc_transpose_b, call.transpose_lhs));
  if (call.bias) {
    const int32_t epilogue = cublas::epilogue_bias;
    RTX_TRY(check(cublaslt, cublaslt.desc_set(plan.desc, cublas::desc_epilogue, &epilogue, sizeof epilogue),
                  "cublasLtMatmulDescSetAttribute"));
    RTX_TRY(plan.set_bias(operand_alignment));  // the heuristic looks at its alignment
  }
  const int64_t lhs_rows = call.transpose_lhs ? s.k : s.m, lhs_columns = call.transpose_lhs ? s.m : s.k;
  const int64_t rhs_rows = call.transpose_rhs ? s.n : s.k, rhs_columns = call.transpose_rhs ? s.k : s.n;
  RTX_TRY(plan.make_layout(plan.lhs, type, lhs_columns, lhs_rows, lhs_columns, s.batch, s.lhs_stride));
  RTX_TRY(plan.make_layout(plan.rhs, type, rhs_columns, rhs_rows, rhs_columns, s.batch, s.rhs_stride));
  RTX_TRY(plan.make_layout(plan.result, type, s.n, s.m, s.n, s.batch, s.m * s.n));

  RTX_TRY(check(cublaslt, cublaslt.preference_create(&plan.preference), "cublasLtMatmulPreferenceCreate"));
  RTX_TRY(plan.prefer(cublas::preference_max_workspace, static_cast<uint64_t>(workspace_limit)));
  RTX_TRY(plan.prefer(cublas::preference_reduction_scheme_mask, cublas::reduction_scheme_none));
  for (int alignment : {cublas::preference_alignment_a, cublas::preference_alignment_b, cublas::preference_alignment_c,
                        cublas::preference_alignment_d})
    RTX_TRY(plan.prefer(alignment, operand_alignment));
  return Ok{};
}

// Of the heuristic's algorithms that do not split K, the first that makes enough blocks for the GPU, else the one with
// the most: ranked among those that split K, the first ones may leave most of the GPU idle. Returns the workspace it
// needs.
Result<int64_t> choose_algorithm(Plan& plan, cublas::Handle handle) {
  const Cublaslt& cublaslt = plan.cublaslt;
  std::array<cublas::HeuristicResult, requested_algorithms> found{};
  int count = 0;
  RTX_TRY(check(cublaslt,
                cublaslt.heuristic(handle, plan.desc, plan.rhs, plan.lhs, plan.result, plan.result, plan.preference,
                                   requested_algorithms, found.data(), &count),
                "cublasLtMatmulAlgoGetHeuristic"));
  const cublas::HeuristicResult* best = nullptr;
  for (int i = 0; i < count && (!best || best->waves < busy_enough); ++i) {
    if (found[i].state != cublas::success) continue;
    int32_t splits = 0;
    size_t written = 0;
    RTX_TRY(check(cublaslt,
                  cublaslt.algo_config_get(&found[i].algo, cublas::algo_splitk, &splits, sizeof splits, &written),
                  "cublasLtMatmulAlgoConfigGetAttribute"));
    if (splits > 1 || (best && found[i].waves <= best->waves)) continue;
    best = &found[i];
  }
  if (best) {
    plan.algo = best->algo;
    return static_cast<int64_t>(best->workspace_bytes);
  }
  return make_error(ErrorKind::device, "E707", "cuBLASLt has no algorithm without split-K for this product");
}

}  // namespace

CudaMatmul::~CudaMatmul() {
  if (!handle_) return;
  context_.enter_for_cleanup();
  cublaslt_->destroy(handle_);
}

int64_t CudaMatmul::workspace_limit() const {
  // cuBLAS documentation, cublasSetWorkspace: 32 MiB recommended on Hopper, 4 MiB elsewhere; the data-center Blackwell
  // parts use the same kinds of kernels as Hopper.
  const int major = context_.properties().capability.major;
  return major == 9 || major == 10 ? int64_t{32} << 20 : int64_t{4} << 20;
}

Result<std::unique_ptr<PreparedKernel>> CudaMatmul::prepare(const package::MatmulCall& call,
                                                            std::span<const int64_t> symbols) {
  Sizes s{};
  RTX_ASSIGN(s.batch, call.batch.evaluate(symbols));
  RTX_ASSIGN(s.m, call.m.evaluate(symbols));
  RTX_ASSIGN(s.n, call.n.evaluate(symbols));
  RTX_ASSIGN(s.k, call.k.evaluate(symbols));
  RTX_ASSIGN(s.lhs_stride, call.lhs_batch_stride.evaluate(symbols));
  RTX_ASSIGN(s.rhs_stride, call.rhs_batch_stride.evaluate(symbols));
  if (s.batch == 0 || s.m == 0 || s.n == 0) return std::unique_ptr<PreparedKernel>(std::make_unique<NoProduct>());

  const std::string shape = concat("[", s.batch, " x ", s.m, " x ", s.n, " x ", s.k, "]");
  constexpr int64_t largest = std::numeric_limits<int32_t>::max();
  for (int64_t size : {s.batch, s.m, s.n, s.k})
    if (size < 0 || size > largest)
      return make_error(ErrorKind::limit, "E709", concat("the matrix product ", shape, " is beyond cuBLASLt's limit"))
          .with_expected(concat("batch, m, n, k of at most ", largest));
  const std::optional<int> type = cuda_type(call.dtype);
  if (!type)
    return make_error(ErrorKind::unsupported, "E707", concat("no cuBLASLt product for ", to_string(call.dtype)));
  if (s.k == 0) {
    if (call.bias || call.residual)
      return make_error(ErrorKind::integrity, "E605", "a matrix product over nothing has a bias or a residual");
    int64_t elements = 0;
    std::optional<int64_t> bytes;
    if (!__builtin_mul_overflow(s.batch, s.m, &elements) && !__builtin_mul_overflow(elements, s.n, &elements))
      bytes = packed_bytes(call.dtype, elements);
    if (!bytes) return make_error(ErrorKind::limit, "E506", concat("the product ", shape, " is too large"));
    return std::unique_ptr<PreparedKernel>(std::make_unique<ZeroProduct>(context_, *bytes));
  }
  if (!cublaslt_) return make_error(ErrorKind::internal, "E799", "cuBLASLt was not loaded for this package");

  RTX_TRY(context_.enter());
  if (!handle_) RTX_TRY(check(*cublaslt_, cublaslt_->create(&handle_), "cublasLtCreate"));
  auto plan = std::make_unique<Plan>(*cublaslt_);
  RTX_TRY(describe(*plan, call, s, *type, workspace_limit()));
  auto needed = choose_algorithm(*plan, handle_);
  if (!needed) return std::move(needed).error().within(concat("matrix product ", shape));
  if (*needed > 0 && !workspace_) {
    RTX_ASSIGN(workspace_, allocate_cuda_storage(context_, workspace_limit()));
  }
  return std::unique_ptr<PreparedKernel>(std::make_unique<PreparedProduct>(context_, handle_, std::move(plan), call,
                                                                           *needed > 0 ? workspace_.get() : nullptr));
}

}  // namespace rtx::runtime
