// rtx-conformance: model folders with recorded data through import, compile and a device, in one process.

#include <fmt/core.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "base/file.h"
#include "cli/conformance_case.h"
#include "cli/open_device.h"
#include "cli/tool.h"
#include "codegen/arch.h"
#include "codegen/build_package.h"
#include "codegen/nvrtc_worker.h"
#include "frontend/import.h"
#include "frontend/read_model.h"
#include "runtime/session.h"

namespace rtx::cli {
namespace {

namespace fs = std::filesystem;

struct Options {
  std::vector<std::string> roots, archs;
  DeviceOptions device;
  std::string filter, json, packages, build_only, kernel_cache;
  int jobs = 1;
  std::string command;  // as it was called, for the report
};

enum class Status { passed, failed, skipped };
constexpr const char* status_names[] = {"passed", "failed", "skipped"};

struct Outcome {
  Status status = Status::failed;
  std::string reason;  // one line; empty if passed
  std::string bound;   // inputs that were bound as constants
  onnx::OperatorUses operators;
  double max_absolute = 0, norm = 0;
};

std::string one_line(const Error& error) {
  const Diagnostic& first = error.first();
  std::string text = concat(first.message, " [RTX-", first.id, "]");
  if (error.diagnostics.size() > 1) text += concat(" and ", error.diagnostics.size() - 1, " more");
  return text;
}

// A temporary folder that goes with the object.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (fs::temp_directory_path() / "rtx-conformance-XXXXXX").string();
    if (mkdtemp(name.data())) path = name;
  }
  ~TemporaryFolder() {
    std::error_code error;
    if (!path.empty()) fs::remove_all(path, error);
  }
  std::string path;
};

// The narrowest type in which the model holds data, of those that decide how exact a result can be.
DType narrowest_type(const Module& module) {
  DType narrowest = DType::f32;
  auto look = [&](const Type& type) {
    const bool counts = type.dtype == DType::f16 || type.dtype == DType::bf16 || is_float(type.dtype) ||
                        type.dtype == DType::i8 || type.dtype == DType::u8;
    if (counts && bit_width(type.dtype) < bit_width(narrowest)) narrowest = type.dtype;
  };
  for (const auto& function : module.functions) {
    for (const auto& operation : function->block.operations()) {
      for (const Type& type : operation->result_types()) look(type);
    }
  }
  return narrowest;
}

// A GPU is one device, so the jobs are compiler processes then; the CPU device can be made once a thread.
bool one_case_at_once(const Options& options) {
  return !options.archs.empty() || options.device.device.starts_with("cuda");
}

class Runner {
 public:
  Runner(const Options& options, std::vector<std::string> archs) : options_(options), archs_(std::move(archs)) {}

  // The device is opened once and serves all cases of this runner.
  Result<void> open() {
    if (!options_.build_only.empty()) return Ok{};
    RTX_ASSIGN(device_, open_device(options_.device, archs_));
    return Ok{};
  }

  // Null where nothing is run.
  const runtime::DeviceInfo* device_info() const { return device_ ? &device_->info() : nullptr; }

  Outcome run(const ConformanceCase& which) {
    Outcome outcome;
    Result<void> result = run_case(which, outcome);
    if (!result) {
      outcome.status = result.error().first().kind == ErrorKind::unsupported ? Status::skipped : Status::failed;
      outcome.reason = one_line(result.error());
    } else {
      outcome.status = outcome.reason.empty() ? Status::passed : Status::failed;
    }
    return outcome;
  }

 private:
  std::string package_path(const std::string& folder, const ConformanceCase& which) const {
    std::string name = which.name;
    for (char& c : name) c = c == '/' ? '+' : c;
    return concat(folder, "/", name);
  }

  Result<void> run_case(const ConformanceCase& which, Outcome& outcome) {
    RTX_ASSIGN(const onnx::Model model, onnx::read_model(which.path + "/model.onnx"));
    RTX_ASSIGN(const std::vector<DataSet> sets, read_data_sets(which, model));
    RTX_ASSIGN(const std::unique_ptr<Module> module, import(model, sets.front(), outcome));
    const DType narrowest = narrowest_type(*module);
    TemporaryFolder temporary;
    std::string package = concat(temporary.path, "/model.rtxpkg");
    if (!options_.build_only.empty()) package = package_path(options_.build_only, which);
    if (!options_.packages.empty()) {
      package = package_path(options_.packages, which);
    } else {
      codegen::BuildOptions build;
      build.archs = archs_;
      build.kernel_cache = options_.kernel_cache;
      build.jobs = one_case_at_once(options_) ? options_.jobs : 1;
      RTX_TRY(codegen::build_package(*module, package, build));
    }
    if (!options_.build_only.empty()) return Ok{};
    RTX_ASSIGN(const auto loaded, runtime::Model::load(package, *device_));
    for (const DataSet& set : sets) RTX_TRY(run_set(*loaded, which, set, narrowest, outcome));
    return Ok{};
  }

  // Imports the model as it is. ONNX's own cases give shapes, axes and the like as run-time inputs, which real files
  // have as constants: where the import fails for want of a value, small integer inputs are bound to what was recorded,
  // then also inputs of one element, then also short vectors (the scales of Resize).
  Result<std::unique_ptr<Module>> import(const onnx::Model& model, const DataSet& set, Outcome& outcome) {
    Result<onnx::ImportResult> imported = onnx::import_model(model, {}, &outcome.operators);
    for (int round = 0; round < 3 && !imported && imported.error().first().kind == ErrorKind::unsupported; ++round) {
      std::vector<size_t> small;
      for (size_t i = 0; i < set.inputs.size(); ++i) {
        const Tensor& tensor = set.inputs[i].tensor;
        const bool integers = (tensor.dtype == DType::i64 || tensor.dtype == DType::i32) && tensor.rank() <= 1;
        const int64_t most = round == 0 ? 0 : round == 1 ? 1 : tensor.rank() <= 1 ? 16 : 1;
        if (integers || tensor.element_count() <= most) small.push_back(i);
      }
      if (small.empty() || set.inputs.size() != model.graph.inputs.size()) continue;
      onnx::Model bound = model;
      bind_inputs(bound, set, small);
      onnx::OperatorUses operators;
      Result<onnx::ImportResult> again = onnx::import_model(bound, {}, &operators);
      if (!again) continue;
      outcome.operators = std::move(operators);
      outcome.bound = join(small, ", ", [&](size_t i) { return set.inputs[i].name; });
      imported = std::move(again);
    }
    if (!imported) return std::move(imported).error();
    return std::move(imported->module);
  }

  Result<void> run_set(runtime::Model& model, const ConformanceCase& which, const DataSet& set, DType narrowest,
                       Outcome& outcome) {
    RTX_ASSIGN(const package::Program* first, runtime::find_program(model.manifest(), {}));
    std::vector<runtime::HostTensor> inputs;
    for (const package::TensorSpec& spec : first->inputs) {
      const NamedTensor* given = nullptr;
      for (const NamedTensor& input : set.inputs) given = input.name == spec.name ? &input : given;
      if (!given)
        return make_error(ErrorKind::invalid, "E371",
                          concat("no recorded value for input '", escape_text(spec.name), "'"));
      Tensor tensor = converted(given->tensor, spec.dtype);
      inputs.push_back({tensor.dtype, std::move(tensor.shape), std::move(tensor.bytes)});
    }
    RTX_ASSIGN(const package::Program* chosen, runtime::choose_program(model.manifest(), {}, inputs));
    RTX_ASSIGN(const auto session, runtime::Session::create(model, chosen->name));
    const package::Program& program = session->program();
    RTX_ASSIGN(const std::vector<runtime::HostTensor> outputs, session->run(inputs));
    for (const NamedTensor& expected : set.outputs) {
      size_t i = 0;
      while (i < program.outputs.size() && program.outputs[i].name != expected.name) ++i;
      if (i < program.outputs.size())
        compare(which, outputs[i], expected, narrowest, outcome);
      else
        outcome.reason = concat("the program has no output '", escape_text(expected.name), "'");
    }
    if (set.outputs.size() != outputs.size() && outcome.reason.empty())
      outcome.reason = concat(set.outputs.size(), " recorded outputs for ", outputs.size(), " of the program");
    return Ok{};
  }

  void compare(const ConformanceCase& which, const runtime::HostTensor& output, const NamedTensor& expected,
               DType narrowest, Outcome& outcome) {
    const runtime::Tolerance tolerance = tolerance_for(which, narrowest, expected.tensor.dtype);
    const runtime::HostTensor want{expected.tensor.dtype, expected.tensor.shape, expected.tensor.bytes};
    runtime::HostTensor got = output;
    // Recordings keep 16-bit outputs as f32.
    if (want.dtype == DType::f32 && got.dtype != DType::f32) {
      Tensor narrow;
      narrow.dtype = got.dtype;
      narrow.shape = got.shape;
      narrow.bytes = got.bytes;
      Tensor wide = converted(narrow, DType::f32);
      got = {wide.dtype, std::move(wide.shape), std::move(wide.bytes)};
    }
    const runtime::Comparison result = runtime::compare(got, want, tolerance);
    outcome.max_absolute = std::max(outcome.max_absolute, result.max_absolute);
    outcome.norm = std::max(outcome.norm, result.norm);
    if (result.ok || !outcome.reason.empty()) return;
    outcome.reason = !result.incomparable.empty()
                         ? concat("output '", escape_text(expected.name), "': ", result.incomparable)
                         : concat("output '", escape_text(expected.name), "': ", result.far, " of ", result.elements,
                                  " elements are far, first at ", runtime::index_text(result.worst, want.shape), ": ",
                                  result.worst_actual, ", expected ", result.worst_expected);
  }

  const Options& options_;
  std::vector<std::string> archs_;
  std::unique_ptr<runtime::Device> device_;
};

// The architectures to compile for: those given, or that of the GPU.
Result<std::vector<std::string>> needed_archs(const Options& options) {
  std::vector<std::string> archs;
  for (const std::string& arch : options.archs) {
    if (arch == "cpu") continue;
    RTX_TRY(codegen::find_arch(arch));
    archs.push_back(arch);
  }
  if (!archs.empty() || !options.device.device.starts_with("cuda") || !options.packages.empty()) return archs;
  RTX_ASSIGN(const std::unique_ptr<runtime::Device> device, open_device(options.device, {}));
  const std::string exact = device->info().arch + "a";
  archs.push_back(codegen::find_arch(exact).ok() ? exact : device->info().arch);
  return archs;
}

struct Report {
  std::vector<Outcome> outcomes;  // one for each case
  size_t counts[3] = {};          // by Status
  runtime::DeviceInfo device;     // empty where nothing was run
};

Result<Report> run_all(const Options& options, const std::vector<ConformanceCase>& cases) {
  RTX_ASSIGN(const std::vector<std::string> archs, needed_archs(options));
  const int jobs = one_case_at_once(options) ? 1 : options.jobs;
  std::vector<std::unique_ptr<Runner>> runners;
  for (int i = 0; i < jobs; ++i) {
    runners.push_back(std::make_unique<Runner>(options, archs));
    RTX_TRY(runners.back()->open());
  }
  Report report;
  if (const runtime::DeviceInfo* info = runners.front()->device_info()) report.device = *info;
  std::vector<Outcome>& outcomes = report.outcomes;
  outcomes.resize(cases.size());
  std::atomic<size_t> next{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < jobs; ++t) {
    threads.emplace_back([&, t] {
      for (size_t i; (i = next++) < cases.size();) outcomes[i] = runners[static_cast<size_t>(t)]->run(cases[i]);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Outcome& outcome : outcomes) ++report.counts[static_cast<int>(outcome.status)];
  return report;
}

// Which operators a case holds ("Add-14 MatMul-13": names with the opset in force), and why some are refused. What the
// converted ones became is added to `ir_operations`.
void add_operators(const onnx::OperatorUses& uses, nlohmann::ordered_json& entry,
                   std::map<std::string, std::set<std::string_view>>& ir_operations) {
  const std::vector<const onnx::OperatorUse*> all = uses.sorted();
  entry["operators"] = join(all, " ", [](const onnx::OperatorUse* use) { return use->str(); });
  for (const onnx::OperatorUse* use : all) {
    if (!use->reasons.empty()) entry["refused_operators"][use->str()] = use->reasons;
    ir_operations[use->str()].insert(use->ir_ops.begin(), use->ir_ops.end());
  }
}

Result<void> write_json(const Options& options, const std::vector<ConformanceCase>& cases, const Report& report) {
  const std::vector<Outcome>& outcomes = report.outcomes;
  nlohmann::ordered_json json;
  json["tool"] = "rtx-conformance " RTX_VERSION;
  json["command"] = options.command;
  json["device"] = {{"id", report.device.id},
                    {"name", report.device.name},
                    {"arch", report.device.arch},
                    {"driver", report.device.driver}};
  for (int status = 0; status < 3; ++status) json[status_names[status]] = report.counts[status];
  std::map<std::string, std::set<std::string_view>> ir_operations;
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (size_t i = 0; i < cases.size(); ++i) {
    nlohmann::ordered_json entry;
    entry["name"] = cases[i].name;
    entry["status"] = status_names[static_cast<int>(outcomes[i].status)];
    entry["max_absolute_error"] = outcomes[i].max_absolute;
    entry["relative_error_norm"] = outcomes[i].norm;
    if (!outcomes[i].bound.empty()) entry["inputs_bound"] = outcomes[i].bound;
    if (!outcomes[i].reason.empty()) entry["reason"] = outcomes[i].reason;
    add_operators(outcomes[i].operators, entry, ir_operations);
    list.push_back(std::move(entry));
  }
  for (const auto& [name, operations] : ir_operations)
    json["ir_operations"][name] = join(operations, " ", [](std::string_view operation) { return operation; });
  json["cases"] = std::move(list);
  return write_file(options.json, json.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

Result<void> run(const Options& options) {
  RTX_ASSIGN(std::vector<ConformanceCase> cases, find_cases(options.roots));
  if (!options.filter.empty()) {
    std::erase_if(cases,
                  [&](const ConformanceCase& c) { return fnmatch(options.filter.c_str(), c.name.c_str(), 0) != 0; });
  }
  RTX_ASSIGN(const Report report, run_all(options, cases));
  const auto& [outcomes, counts, device] = report;
  size_t width = 4;
  for (const ConformanceCase& c : cases) width = std::max(width, c.name.size());
  fmt::print("{:<{}}  {:<8} {:>10} {:>10}  {}\n", "case", width, "result", "max abs", "norm", "reason");
  for (size_t i = 0; i < cases.size(); ++i) {
    const Outcome& outcome = outcomes[i];
    fmt::print("{:<{}}  {:<8} {:>10.3e} {:>10.3e}  {}\n", cases[i].name, width,
               status_names[static_cast<int>(outcome.status)], outcome.max_absolute, outcome.norm, outcome.reason);
  }
  fmt::print("{} passed, {} failed, {} skipped\n", counts[0], counts[1], counts[2]);
  if (!options.json.empty()) RTX_TRY(write_json(options, cases, report));
  if (counts[1] > 0)
    return make_error(ErrorKind::mismatch, "E1002", concat(counts[1], " of ", cases.size(), " cases failed"));
  return Ok{};
}

int main_of_conformance(int argc, char** argv) {
  if (argc == 3 && argv[1] == codegen::nvrtc_worker_argument) return codegen::nvrtc_worker_main(argv[2]);
  Tool tool("rtx-conformance", "Runs ONNX model folders with recorded data through import, compile and a device.");
  Options options;
  options.device.device = "cpu";
  options.command = "rtx-conformance";
  for (int i = 1; i < argc; ++i) options.command += concat(" ", argv[i]);
  tool.app
      .add_option("folders", options.roots,
                  "Folders that hold, at any depth, model.onnx with inputs.npz and outputs.npz or test_data_set_*")
      ->required();
  add_device_options(tool.app, options.device);
  tool.app.add_option("--filter", options.filter, "Only cases whose name matches this shell pattern")
      ->type_name("GLOB");
  tool.app.add_option("--json", options.json, "Write the results to this file too")->type_name("FILE");
  tool.app.add_option("-j,--jobs", options.jobs, "Cases at once on the CPU device; else compiler processes at once")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  tool.app.add_option("--arch", options.archs, "Architectures to compile for (default: that of the GPU; none for cpu)")
      ->delimiter(',');
  tool.app.add_option("--kernel-cache", options.kernel_cache, "Folder that keeps compiled kernels (default: none)")
      ->type_name("DIR");
  tool.app.add_option("--build-only", options.build_only, "Make the packages in this folder and run nothing")
      ->type_name("DIR");
  tool.app.add_option("--packages", options.packages, "Take packages that --build-only made from this folder")
      ->type_name("DIR");
  return tool.run(argc, argv, [&] { return run(options); });
}

}  // namespace
}  // namespace rtx::cli

int main(int argc, char** argv) { return rtx::cli::main_of_conformance(argc, argv); }
