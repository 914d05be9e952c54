#include "codegen/nvrtc.h"

#include <poll.h>

#include <algorithm>
#include <optional>

#include "base/text.h"
#include "codegen/arch.h"
#include "codegen/kernel_cache.h"
#include "codegen/nvrtc_library.h"
#include "codegen/nvrtc_worker.h"
#include "codegen/ptxas_log.h"

namespace rtx::codegen {
namespace {

constexpr size_t most_reported = 10;  // kernels
constexpr size_t log_bytes = 4000;    // of a failed compile in the message

// One kernel for one architecture.
struct Task {
  const KernelSource* kernel;
  const std::string* arch;
  std::string cache_key;
  std::optional<CompiledKernel> result;
  std::optional<Diagnostic> error;
};

// The lines of a log that are not ptxas's report on resources.
std::string without_reports(std::string_view log) {
  std::string out;
  for (size_t begin = 0; begin < log.size();) {
    const size_t end = std::min(log.find('\n', begin), log.size());
    const std::string_view line = log.substr(begin, end - begin);
    if (!line.starts_with("ptxas info") && line.find("bytes stack frame") == std::string_view::npos && !line.empty()) {
      out += concat(out.empty() ? "" : "\n", escape_text(line, 400));
    }
    begin = end + 1;
  }
  if (out.size() > log_bytes) out = out.substr(0, log_bytes) + "\n...";
  return out;
}

void finish(Task& task, NvrtcOutput output) {
  const std::string where = concat("kernel ", quote_text(task.kernel->name), " for ", *task.arch);
  switch (output.status) {
    case NvrtcOutput::Status::unloadable:
      task.error = make_error(ErrorKind::device, "E721", "NVRTC cannot be loaded").with_note(std::move(output.log));
      return;
    case NvrtcOutput::Status::failed:
      task.error = make_error(ErrorKind::internal, "E722", "generated CUDA text does not compile")
                       .with_where(where)
                       .with_note(without_reports(output.log))
                       .with_help("this is a bug in rtx; --dump-kernels-to shows the text");
      return;
    case NvrtcOutput::Status::ok:
      break;
  }
  auto resources = parse_ptxas_log(output.log, *task.arch);
  if (!resources) {
    task.error = std::move(resources).error().within(where).first();
    return;
  }
  task.result = CompiledKernel{std::move(output.cubin), std::move(resources).value()};
}

// Worker processes and what each is working on. Tasks are taken in order; a worker that dies costs its task only.
class WorkerPool {
 public:
  WorkerPool(const CompileOptions& options, const NvrtcLocation& nvrtc) : options_(options), nvrtc_(nvrtc) {}

  // Runs all tasks; `on_done` is called after each.
  Result<void> run(const std::vector<Task*>& tasks, const std::function<void(Task&)>& on_done) {
    size_t next = 0;
    const size_t count = std::min(tasks.size(), static_cast<size_t>(std::max(options_.jobs, 1)));
    while (next < tasks.size() || !busy_.empty()) {
      while (busy_.size() < count && next < tasks.size()) {
        RTX_TRY(give(*tasks[next++], on_done));
      }
      if (busy_.empty()) continue;
      std::vector<pollfd> descriptors;
      for (const Busy& busy : busy_) descriptors.push_back({busy.worker.descriptor(), POLLIN, 0});
      if (poll(descriptors.data(), descriptors.size(), -1) < 0) continue;  // interrupted by a signal
      for (size_t i = descriptors.size(); i-- > 0;) {
        if (descriptors[i].revents != 0) take(i, on_done);
      }
      if (cannot_load_) return *cannot_load_;
    }
    return Ok{};
  }

 private:
  struct Busy {
    NvrtcWorker worker;
    Task* task;
  };

  Result<void> give(Task& task, const std::function<void(Task&)>& on_done) {
    if (idle_.empty()) {
      RTX_ASSIGN(NvrtcWorker started, NvrtcWorker::start(options_.worker_program, nvrtc_.path));
      idle_.push_back(std::move(started));
    }
    NvrtcWorker worker = std::move(idle_.back());
    idle_.pop_back();
    if (worker.send({task.kernel->text, nvrtc_options(*task.arch)})) {
      busy_.push_back({std::move(worker), &task});
    } else {
      lose(worker, task);
      on_done(task);
    }
    return Ok{};
  }

  void take(size_t index, const std::function<void(Task&)>& on_done) {
    Busy busy = std::move(busy_[index]);
    busy_.erase(busy_.begin() + static_cast<std::ptrdiff_t>(index));
    NvrtcOutput output;
    if (busy.worker.receive(output)) {
      const bool is_unloadable = output.status == NvrtcOutput::Status::unloadable;
      finish(*busy.task, std::move(output));
      if (is_unloadable) cannot_load_ = busy.task->error;
      idle_.push_back(std::move(busy.worker));
    } else {
      lose(busy.worker, *busy.task);
    }
    on_done(*busy.task);
  }

  void lose(NvrtcWorker& worker, Task& task) {
    task.error = make_error(ErrorKind::internal, "E723", concat("the compiler process ", worker.how_it_ended()))
                     .with_where(concat("kernel ", quote_text(task.kernel->name), " for ", *task.arch))
                     .with_help("killed by signal 9 usually means that memory ran out: use fewer jobs (-j)");
  }

  const CompileOptions& options_;
  const NvrtcLocation& nvrtc_;
  std::vector<Busy> busy_;
  std::vector<NvrtcWorker> idle_;
  std::optional<Diagnostic> cannot_load_;
};

// The first error of each failed kernel, in the order of the kernels.
std::optional<Error> collect_errors(const std::vector<Task>& tasks) {
  std::vector<Diagnostic> diagnostics;
  const KernelSource* last = nullptr;
  size_t omitted = 0;
  for (const Task& task : tasks) {
    if (!task.error || task.kernel == last) continue;
    last = task.kernel;
    if (diagnostics.size() < most_reported) {
      diagnostics.push_back(*task.error);
    } else {
      ++omitted;
    }
  }
  if (diagnostics.empty()) return std::nullopt;
  if (omitted > 0) diagnostics.back().with_note(concat(omitted, " more kernels failed"));
  return Error(std::move(diagnostics));
}

}  // namespace

std::vector<std::string> nvrtc_options(std::string_view arch) {
  // No -lineinfo: it puts the current folder into the code.
  return {concat("--gpu-architecture=", arch), "--ptxas-options=-v", "--std=c++17", "-fmad=true"};
}

Result<std::vector<std::vector<CompiledKernel>>> compile_kernels(std::span<const KernelSource> kernels,
                                                                 std::span<const std::string> archs,
                                                                 const CompileOptions& options,
                                                                 CompileStatistics* statistics) {
  for (const std::string& arch : archs) RTX_TRY(find_arch(arch));
  std::vector<std::vector<CompiledKernel>> results(kernels.size());
  if (kernels.empty() || archs.empty()) return results;
  RTX_ASSIGN(const NvrtcLocation nvrtc, find_nvrtc(options.nvrtc_path));

  std::optional<KernelCache> cache;
  if (!options.cache_dir.empty()) {
    auto opened = KernelCache::open(options.cache_dir);
    if (opened) {
      cache = std::move(opened).value();
    } else if (options.on_warning) {
      Diagnostic warning = opened.error().first();
      warning.severity = Severity::warning;
      options.on_warning(warning);
    }
  }

  std::vector<Task> tasks;
  std::vector<Task*> missing;
  CompileStatistics counts;
  for (const KernelSource& kernel : kernels) {
    for (const std::string& arch : archs) tasks.push_back({&kernel, &arch, {}, {}, {}});
  }
  for (Task& task : tasks) {
    if (cache) {
      const std::string joined = join(nvrtc_options(*task.arch), "\n");
      task.cache_key =
          KernelCache::key(std::array<std::string_view, 4>{task.kernel->text, *task.arch, joined, nvrtc.identity});
      task.result = cache->load(task.cache_key);
    }
    if (task.result) {
      ++counts.cached;
    } else {
      missing.push_back(&task);
    }
  }

  size_t done = counts.cached;
  auto on_done = [&](Task& task) {
    if (task.result && cache) cache->store(task.cache_key, *task.result);
    if (options.on_progress) options.on_progress(++done, tasks.size());
  };
  RTX_TRY(WorkerPool(options, nvrtc).run(missing, on_done));
  if (auto error = collect_errors(tasks)) return *std::move(error);

  counts.compiled = missing.size();
  if (statistics != nullptr) *statistics = counts;
  for (size_t i = 0; i < tasks.size(); ++i) results[i / archs.size()].push_back(*std::move(tasks[i].result));
  return results;
}

}  // namespace rtx::codegen
