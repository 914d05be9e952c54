#include "codegen/add_machine_code.h"

#include "base/file.h"
#include "base/text.h"
#include "codegen/fatbin.h"
#include "codegen/nvrtc.h"
#include "codegen/occupancy.h"
#include "codegen/representative_values.h"
#include "runtime/package/package.h"

namespace rtx::codegen {
namespace {

// Appends the container of one kernel to kernels.fatbin and records where it lies and what it needs.
Result<void> add_kernel(const std::vector<CompiledKernel>& compiled, const std::vector<std::string>& archs,
                        int64_t dynamic_shared_bytes, FileWriter& file, int64_t& offset, package::Launch& launch) {
  std::vector<FatbinImage> images;
  for (size_t i = 0; i < archs.size(); ++i) images.push_back({archs[i], compiled[i].cubin});
  RTX_ASSIGN(const std::vector<std::byte> container, make_fatbin(images));
  RTX_TRY(file.write(container));
  launch.code_offset = offset;
  launch.code_bytes = static_cast<int64_t>(container.size());
  offset += launch.code_bytes;
  for (const CompiledKernel& kernel : compiled) {
    package::Resources resources = kernel.resources;
    const int threads = launch.block[0] * launch.block[1] * launch.block[2];
    RTX_TRY(add_occupancy(resources, threads, dynamic_shared_bytes));
    launch.resources.push_back(std::move(resources));
  }
  return Ok{};
}

}  // namespace

Result<void> add_machine_code(const Module& module, const ModulePlan& plan, const BuildOptions& options,
                              const std::string& folder, package::Manifest& manifest) {
  std::vector<KernelSource> sources;
  for (const KernelPlan& kernel : plan.kernels) {
    if (kernel.launch) sources.push_back({kernel.name, kernel.launch->text});
  }
  CompileOptions compile;
  compile.jobs = options.jobs;
  compile.cache_dir = options.kernel_cache;
  compile.worker_program = options.compiler_worker;
  compile.on_progress = options.on_kernel;
  compile.on_warning = options.on_warning;
  RTX_ASSIGN(const auto compiled, compile_kernels(sources, options.archs, compile));

  manifest.archs = options.archs;
  RTX_ASSIGN(std::unique_ptr<FileWriter> file, FileWriter::create(concat(folder, "/", package::fatbin_name)));
  const SymbolValues typical = representative_values(module.symbols);
  int64_t offset = 0;
  size_t next = 0;
  for (size_t i = 0; i < plan.kernels.size(); ++i) {
    if (!plan.kernels[i].launch) continue;
    RTX_ASSIGN(const int64_t shared_bytes, plan.kernels[i].launch->shared_bytes.evaluate(typical));
    RTX_TRY(add_kernel(compiled[next++], options.archs, shared_bytes, *file, offset, *manifest.kernels[i].launch));
  }
  return file->commit();
}

}  // namespace rtx::codegen
