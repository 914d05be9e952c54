#include "runtime/cuda_module.h"

#include <cstring>
#include <vector>

#include "base/text.h"
#include "runtime/cuda_stream.h"

namespace rtx::runtime {

namespace {

class NoWork : public PreparedKernel {
 public:
  Result<void> enqueue(Stream&, std::span<const DevicePointer>) override { return Ok{}; }
};

class PreparedLaunch : public PreparedKernel {
 public:
  PreparedLaunch(const CudaContext& context, cuda::Function function, std::array<unsigned, 3> grid,
                 std::array<int, 3> block, unsigned shared_bytes, std::vector<int64_t> scalars)
      : context_(context),
        function_(function),
        grid_(grid),
        block_(block),
        shared_bytes_(shared_bytes),
        scalars_(std::move(scalars)) {}

  Result<void> enqueue(Stream& stream, std::span<const DevicePointer> buffers) override {
    RTX_TRY(context_.enter());
    // Every parameter is 8 bytes, so the parameter block is a plain array. Passing it with its size, rather than one
    // pointer a parameter, lets the driver see when a kernel wants another number of parameters.
    parameters_.assign(buffers.begin(), buffers.end());
    for (int64_t scalar : scalars_) parameters_.push_back(static_cast<uint64_t>(scalar));
    size_t bytes = parameters_.size() * sizeof(uint64_t);
    void* const buffer_pointer = reinterpret_cast<void*>(1);  // CU_LAUNCH_PARAM_BUFFER_POINTER
    void* const buffer_size = reinterpret_cast<void*>(2);     // CU_LAUNCH_PARAM_BUFFER_SIZE
    void* extra[] = {buffer_pointer, parameters_.data(), buffer_size, &bytes, nullptr};
    const CudaDriver& driver = context_.driver();
    return check(driver,
                 driver.launch_kernel(function_, grid_[0], grid_[1], grid_[2], static_cast<unsigned>(block_[0]),
                                      static_cast<unsigned>(block_[1]), static_cast<unsigned>(block_[2]), shared_bytes_,
                                      handle_of(stream), nullptr, extra),
                 "cuLaunchKernel");
  }

  bool takes_scratch() const override { return true; }

 private:
  const CudaContext& context_;
  cuda::Function function_;
  std::array<unsigned, 3> grid_;
  std::array<int, 3> block_;
  unsigned shared_bytes_;
  std::vector<int64_t> scalars_;
  std::vector<uint64_t> parameters_;
};

Diagnostic launch_limit(std::string_view what, int64_t limit, int64_t got) {
  return make_error(ErrorKind::limit, "E709", concat(what, " is beyond the limit of this GPU"))
      .with_expected(concat("at most ", limit))
      .with_got(concat(got))
      .with_help("use smaller dims");
}

}  // namespace

CudaModule::CudaModule(const CudaContext& context, const package::Package& package,
                       std::shared_ptr<const Cublaslt> cublaslt)
    : context_(context), package_(package), matmul_(context, std::move(cublaslt)) {}

CudaModule::~CudaModule() {
  context_.enter_for_cleanup();
  for (const auto& [range, module] : loaded_) context_.driver().module_unload(module);
}

Result<std::unique_ptr<PreparedKernel>> CudaModule::prepare(uint32_t index, std::span<const int64_t> symbols) {
  if (index >= package_.manifest.kernels.size())
    return make_error(ErrorKind::internal, "E799", concat("there is no kernel ", index));
  const package::Kernel& kernel = package_.manifest.kernels[index];
  auto prepared = [&]() -> Result<std::unique_ptr<PreparedKernel>> {
    RTX_TRY(context_.enter());
    if (kernel.launch) return prepare_launch(*kernel.launch, symbols);
    if (kernel.matmul) return matmul_.prepare(*kernel.matmul, symbols);
    return make_error(ErrorKind::device, "E701", "the kernel has no code for a GPU")
        .with_help("compile the model again, naming the GPU's architecture with --arch");
  }();
  if (!prepared) return std::move(prepared).error().within(concat("kernel '", kernel.name, "'"));
  return prepared;
}

Result<std::unique_ptr<PreparedKernel>> CudaModule::prepare_launch(const package::Launch& launch,
                                                                   std::span<const int64_t> symbols) {
  const CudaProperties& properties = context_.properties();
  std::array<unsigned, 3> grid{};
  bool empty = false;
  for (int axis = 0; axis < 3; ++axis) {
    RTX_ASSIGN(const int64_t size, launch.grid[axis].evaluate(symbols));
    if (size < 0 || size > properties.max_grid[axis])
      return launch_limit(concat("the grid along ", "xyz"[axis]), properties.max_grid[axis], size);
    empty |= size == 0;
    grid[axis] = static_cast<unsigned>(size);
  }
  if (empty) return std::unique_ptr<PreparedKernel>(std::make_unique<NoWork>());

  RTX_ASSIGN(const int64_t shared_bytes, launch.shared_bytes.evaluate(symbols));
  if (shared_bytes < 0 || shared_bytes > properties.max_shared_bytes)
    return launch_limit("the shared memory of a block (bytes)", properties.max_shared_bytes, shared_bytes);
  std::vector<int64_t> scalars;
  for (const package::Formula& formula : launch.scalars) {
    RTX_ASSIGN(const int64_t value, formula.evaluate(symbols));
    scalars.push_back(value);
  }

  RTX_ASSIGN(const cuda::Function function, load_function(launch));
  // Static and dynamic shared memory together may have 48 KiB without asking (CUDA C++ Programming Guide, "Technical
  // Specifications per Compute Capability"); how much of it is static is the compiler's matter, so any is asked for.
  if (shared_bytes > 0) {
    const CudaDriver& driver = context_.driver();
    RTX_TRY(check(driver,
                  driver.function_set_attribute(function, cuda::function_attribute_max_dynamic_shared,
                                                static_cast<int>(shared_bytes)),
                  "cuFuncSetAttribute"));
  }
  return std::unique_ptr<PreparedKernel>(std::make_unique<PreparedLaunch>(
      context_, function, grid, launch.block, static_cast<unsigned>(shared_bytes), std::move(scalars)));
}

Result<cuda::Function> CudaModule::load_function(const package::Launch& launch) {
  const CudaDriver& driver = context_.driver();
  const int64_t size = static_cast<int64_t>(package_.fatbin.size());
  if (launch.code_offset < 0 || launch.code_bytes <= 0 || launch.code_offset > size ||
      launch.code_bytes > size - launch.code_offset)
    return make_error(ErrorKind::integrity, "E615", "the kernel's code lies outside kernels.fatbin");

  cuda::Module& module = loaded_[{launch.code_offset, launch.code_bytes}];
  if (!module) {
    // The driver reads the container's header as 64-bit words; the slice may start anywhere.
    std::vector<uint64_t> image((static_cast<size_t>(launch.code_bytes) + 7) / 8);
    std::memcpy(image.data(), package_.fatbin.data() + launch.code_offset, static_cast<size_t>(launch.code_bytes));
    const cuda::Result result = driver.module_load_data(&module, image.data());
    if (result != cuda::success) {
      loaded_.erase({launch.code_offset, launch.code_bytes});
      Error error = cuda_error(driver, result, "cuModuleLoadData");
      if (result == cuda::error_invalid_image || result == cuda::error_no_binary_for_gpu) {
        const int version = context_.properties().driver_version;
        error.diagnostics.front().with_help(concat("the driver supports CUDA ", version / 1000, ".",
                                                   version % 1000 / 10, "; packages of this rtx need ",
                                                   "a driver for CUDA 13.0 or later"));
      }
      return error;
    }
  }
  cuda::Function function = nullptr;
  RTX_TRY(check(driver, driver.module_get_function(&function, module, launch.function.c_str()), "cuModuleGetFunction"));
  return function;
}

}  // namespace rtx::runtime
