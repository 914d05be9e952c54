#include "codegen/build_package.h"

#include <chrono>

#include "base/file.h"
#include "base/sha256.h"
#include "base/text.h"
#include "codegen/add_machine_code.h"
#include "codegen/form_fusions.h"
#include "codegen/make_manifest.h"
#include "codegen/merge_fusions.h"
#include "codegen/tuning_table.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "passes/pipeline.h"
#include "runtime/package/package.h"

namespace rtx::codegen {
namespace {

// Reports how long a phase took when it goes out of scope.
class Phase {
 public:
  Phase(const BuildOptions& options, std::string_view name)
      : options_(options), name_(name), start_(std::chrono::steady_clock::now()) {}
  ~Phase() {
    const std::chrono::duration<double, std::milli> elapsed = std::chrono::steady_clock::now() - start_;
    if (options_.on_phase) options_.on_phase(name_, elapsed.count());
  }

 private:
  const BuildOptions& options_;
  std::string_view name_;
  std::chrono::steady_clock::time_point start_;
};

Result<void> dump(const BuildOptions& options, std::string_view name, const std::string& text) {
  if (!options.dump) return Ok{};
  return options.dump(name, text);
}

Result<void> make_canonical(Module& module, const BuildOptions& options) {
  if (module.stage == Stage::imported) {
    RTX_TRY(dump(options, "imported.rtxir", print(module)));
    Phase phase(options, "canonical");
    PipelineOptions pipeline;
    pipeline.verify_each = false;  // verified once, below
    RTX_TRY(run_canonical_pipeline(module, pipeline));
  }
  if (module.stage != Stage::canonical) {
    return make_error(ErrorKind::invalid, "E412", concat("the module is in stage ", to_string(module.stage)))
        .with_expected("stage imported or canonical");
  }
  return dump(options, "canonical.rtxir", options.dump ? print(module) : std::string());
}

Result<void> optimize(Module& module, const BuildOptions& options, OriginLog& log) {
  Phase phase(options, "optimize");
  PipelineOptions pipeline;
  pipeline.verify_each = false;
  RTX_ASSIGN(const PipelineReport report, run_optimize_pipeline(module, pipeline));
  for (const NearMatch& near : report.near_matches) log.add(near.origins, {near.composite, -1, false, near.reason, {}});
  return dump(options, "optimized.rtxir", options.dump ? print(module) : std::string());
}

// What was decided about the operations that fusions are made of.
void add_decisions(const Module& module, const OriginLog& origins, DecisionLog& log) {
  for (const auto& function : module.functions) {
    for (const auto& operation : function->block.operations()) {
      if (!operation->is(Op::fusion)) continue;
      for (Decision& decision : origins.find(operation->origins)) log[operation.get()].push_back(std::move(decision));
    }
  }
}

// Half precision, and what the casts make simpler.
Result<void> convert(Module& module, const BuildOptions& options) {
  if (!options.amp) return Ok{};
  Phase phase(options, "convert_precision");
  PipelineOptions pipeline;
  pipeline.verify_each = false;
  pipeline.context.half = *options.amp;
  pipeline.context.keep_f32 = options.keep_f32;
  pipeline.context.precision_report = options.precision_report;
  RTX_TRY(run_pipeline(module, precision_pipeline(), pipeline));
  return dump(options, "converted.rtxir", options.dump ? print(module) : std::string());
}

Result<package::FileEntry> describe_file(const std::string& folder, std::string_view name) {
  RTX_ASSIGN(std::shared_ptr<const File> file, File::open(concat(folder, "/", name)));
  RTX_ASSIGN(std::string hash, sha256_hex(*file));
  return package::FileEntry{std::string(name), file->size(), hash};
}

Result<void> dump_kernels(const ModulePlan& plan, const BuildOptions& options) {
  for (const KernelPlan& kernel : plan.kernels) {
    if (kernel.launch) RTX_TRY(dump(options, concat("kernels/", kernel.name, ".cu"), kernel.launch->text));
  }
  return Ok{};
}

}  // namespace

Result<ModulePlan> plan(Module& module, const BuildOptions& options) {
  if (options.tuning) options.tuning->restrict_to(options.archs);
  RTX_TRY(check_specializations(module, options.specializations));
  RTX_TRY(make_canonical(module, options));
  OriginLog origins;
  RTX_TRY(optimize(module, options, origins));
  DecisionLog log;
  RTX_TRY(convert(module, options));
  {
    Phase phase(options, "fuse");
    RTX_TRY(form_fusions(module, &origins));
    merge_fusions(module, options.determinism, &log, options.tuning);
    add_decisions(module, origins, log);
    if (Result<void> verified = verify(module); !verified) {
      Error error = std::move(verified).error();
      for (Diagnostic& diagnostic : error.diagnostics) diagnostic.kind = ErrorKind::internal;
      return error;
    }
  }
  RTX_TRY(dump(options, "fused.rtxir", options.dump ? print(module) : std::string()));
  Phase phase(options, "plan");
  RTX_ASSIGN(
      ModulePlan planned,
      plan_module(module, {options.determinism, !options.archs.empty(), options.tuning, options.specializations}, log));
  if (options.tuning) {
    planned.tuning_table = options.tuning->sha256();
    for (const Diagnostic& warning : options.tuning->unused()) {
      if (options.on_warning) options.on_warning(warning);
    }
  }
  return planned;
}

Result<void> build_package(Module& module, const std::string& path, const BuildOptions& options) {
  RTX_ASSIGN(ModulePlan planned, plan(module, options));
  RTX_TRY(dump(options, "plan.txt", options.dump ? planned.str() : std::string()));
  RTX_TRY(dump_kernels(planned, options));
  RTX_ASSIGN(package::Manifest manifest, make_manifest(module, planned, !options.archs.empty()));
  RTX_ASSIGN(std::unique_ptr<FolderWriter> folder, FolderWriter::create(path, package::is_package_folder));
  if (!options.archs.empty()) {
    Phase phase(options, "kernels");
    RTX_TRY(add_machine_code(module, planned, options, folder->path(), manifest));
    RTX_ASSIGN(package::FileEntry entry, describe_file(folder->path(), package::fatbin_name));
    manifest.files.push_back(std::move(entry));
  }
  Phase phase(options, "write");
  const std::string weights_path = concat(folder->path(), "/", package::weights_name);
  RTX_ASSIGN(WrittenSafetensors written,
             module.weights->write(weights_path, planned.weights, {true, options.on_weights}));
  manifest.files.push_back({std::string(package::weights_name), written.bytes, std::move(written.sha256)});
  RTX_TRY(write_file(concat(folder->path(), "/", package::manifest_name), package::to_yaml(manifest)));
  return folder->commit();
}

}  // namespace rtx::codegen
