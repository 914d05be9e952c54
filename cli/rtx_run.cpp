// rtx-run: loads a package on a device, runs a program of it, writes and checks the outputs.
#include <fmt/core.h>

#include <chrono>
#include <utility>

#include "cli/open_device.h"
#include "cli/run_inputs.h"
#include "cli/timing.h"
#include "cli/tool.h"
#include "runtime/compare.h"
#include "runtime/session.h"

namespace rtx::cli {
namespace {

using runtime::HostTensor;

struct Options {
  std::string package, program;
  DeviceOptions device;
  InputOptions inputs;
  std::vector<std::string> outputs, expected;
  std::string outputs_npz, expected_npz;
  std::optional<double> atol, rtol, norm_tol;
  int64_t iterations = 1, warmup = 0;
  bool output_hash = false, deterministic = false, list_devices = false, no_verify = false, sync_steps = false,
       poison = false, quiet = false;
};

void add_options(CLI::App& app, Options& o) {
  app.add_option("package", o.package, "Package folder, as rtx-compile makes it");
  app.add_option("--program", o.program,
                 "Program of the package to run (default: the first, or the one that the inputs select by a value or "
                 "by their sizes)");
  add_device_options(app, o.device);
  app.add_flag("--list-devices,--list_devices", o.list_devices, "Print the devices of this machine and exit");

  app.add_option("--input", o.inputs.inputs,
                 "[NAME=]@FILE.npy, [NAME=]2x3xf32=1,2,3,4,5,6 (one number fills all) or [NAME=]1x4xf32=@FILE.bin; "
                 "without a name: the next input. Repeatable")
      ->group("Inputs")
      ->allow_extra_args(false);
  app.add_option("--inputs", o.inputs.npz, "FILE.npz with an array for each input")->group("Inputs");
  app.add_flag("--random-inputs", o.inputs.random, "Make up the inputs that are not given")->group("Inputs");
  app.add_option("--seed", o.inputs.seed, "Seed of random inputs")->group("Inputs")->capture_default_str();
  app.add_option("--dim", o.inputs.dims,
                 "NAME=SIZE of a named dim for random inputs (default: its opt, else its least size above 0); checked "
                 "against inputs that are given. Repeatable")
      ->group("Inputs")
      ->allow_extra_args(false);
  app.add_option("--val-range", o.inputs.value_range, "LOW:HIGH of random floats, HIGH not included (default: 0:1)")
      ->group("Inputs");
  app.add_option("--int-range", o.inputs.int_ranges,
                 "[NAME=]LOW:HIGH of random integers, HIGH not included (default: 0:2). Repeatable")
      ->group("Inputs")
      ->allow_extra_args(false);

  app.add_option("--output", o.outputs, "[NAME=]@FILE.npy, [NAME=]- or - (all): write or print an output. Repeatable")
      ->group("Outputs")
      ->allow_extra_args(false);
  app.add_option("--outputs", o.outputs_npz, "FILE.npz to write all outputs to")->group("Outputs");
  app.add_flag("--output-hash,--output_hash", o.output_hash, "Print a SHA-256 over all outputs (order, types, bytes)")
      ->group("Outputs");
  app.add_option("--expected_output,--expected-output", o.expected,
                 "[NAME=]@FILE.npy to compare an output with; exit code 10 if they differ. Repeatable")
      ->group("Outputs")
      ->allow_extra_args(false);
  app.add_option("--expected_outputs,--expected-outputs", o.expected_npz, "FILE.npz to compare the outputs with")
      ->group("Outputs");
  app.add_option(
         "--atol", o.atol,
         "Allowed |actual - expected| of an element is atol + rtol * |expected|. With none of --atol, --rtol and "
         "--norm-tol: f32 atol 2e-5 and norm 1e-5, f16 norm 5e-3, bf16 norm 2e-2, integers exact")
      ->group("Outputs")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--rtol", o.rtol, "See --atol (default: 0)")->group("Outputs")->check(CLI::NonNegativeNumber);
  app.add_option("--norm-tol", o.norm_tol, "Allowed relative error norm |actual - expected|_2 / |expected|_2")
      ->group("Outputs")
      ->check(CLI::NonNegativeNumber);

  app.add_option("--iterations", o.iterations, "Timed runs; above 1 a table of times is printed")
      ->group("Measuring")
      ->capture_default_str()
      ->check(CLI::Range(int64_t{1}, int64_t{100'000'000}));
  app.add_option("--warmup", o.warmup, "Runs before the timed ones")
      ->group("Measuring")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);

  app.add_flag("--deterministic", o.deterministic,
               "Refuse a package that does not promise batch-invariant bits (rtx-inspect shows what it promises)");
  app.add_flag("--no-verify", o.no_verify, "Do not check the hash of the weights file");
  app.add_flag("--sync-steps", o.sync_steps, "Wait after every step, so that a device error names its step. Slow");
  app.add_flag("--poison", o.poison,
               "Fill the arena and the outputs with 0xff before each run, so that a read of what no step wrote shows");
  app.add_flag("--quiet", o.quiet, "No notes on stderr, no summary of outputs");
}

Result<void> list_devices(const Tool& tool, const Options& options) {
  std::vector<runtime::DeviceInfo> devices;
  if (auto driver = runtime::load_cuda_driver()) {
    RTX_ASSIGN(devices, runtime::list_cuda_devices(**driver));
  } else if (!options.quiet) {
    Diagnostic note = driver.error().first();
    note.severity = Severity::note;
    tool.print(note);
  }
  devices.push_back(runtime::make_cpu_device(options.device.threads)->info());
  for (const runtime::DeviceInfo& device : devices)
    fmt::print("{:<8} {:<8} {:>8.1f} GiB  {}{}\n", device.id, device.arch,
               static_cast<double>(device.memory_bytes) / (1 << 30), device.name,
               device.driver.empty() ? "" : " (" + device.driver + ")");
  return Ok{};
}

Result<void> check_determinism(const Options& options, const package::Manifest& manifest) {
  if (!options.deterministic || manifest.determinism >= package::Determinism::batch_invariant) return Ok{};
  return make_error(ErrorKind::device, "E711", "the package does not promise deterministic outputs")
      .with_expected(std::string(to_string(package::Determinism::batch_invariant)))
      .with_got(std::string(to_string(manifest.determinism)))
      .with_help(
          "products by cuBLASLt are run_to_run; rtx-compile --determinism=batch_invariant makes a package without "
          "them");
}

struct Run {
  std::vector<HostTensor> outputs;
  Times total, device;
};

Result<Run> run(const Options& options, runtime::Device& device, runtime::Session& session,
                std::span<const HostTensor> inputs) {
  RTX_ASSIGN(const runtime::SymbolValues dims, parse_dims(options.inputs.dims));
  RTX_TRY(session.bind(inputs, dims));
  RTX_ASSIGN(const auto start, device.create_event());
  RTX_ASSIGN(const auto end, device.create_event());
  Run result;
  for (int64_t i = -options.warmup; i < options.iterations; ++i) {
    const auto before = std::chrono::steady_clock::now();
    RTX_TRY(session.upload(inputs));
    RTX_TRY(start->record(session.stream()));
    RTX_TRY(session.execute());
    RTX_TRY(end->record(session.stream()));
    RTX_ASSIGN(result.outputs, session.download());
    const std::chrono::duration<double, std::nano> total = std::chrono::steady_clock::now() - before;
    if (i < 0 || options.iterations == 1) continue;
    RTX_ASSIGN(const double device_ns, end->elapsed_ns_since(*start));
    result.total.add_ns(total.count());
    result.device.add_ns(device_ns);
  }
  return result;
}

Result<void> write_outputs(const Options& options, const package::Program& program,
                           const std::vector<HostTensor>& outputs) {
  const std::vector<package::TensorSpec>& specs = program.outputs;
  std::vector<bool> taken(specs.size()), printed(specs.size());
  for (const std::string& argument : options.outputs) {
    if (argument == "-") {
      printed.assign(specs.size(), true);
      continue;
    }
    RTX_ASSIGN(const Named named, split_name(argument, specs, taken, "output"));
    taken[named.index] = true;
    if (named.rest == "-") {
      printed[named.index] = true;
    } else if (named.rest.starts_with('@')) {
      RTX_TRY(write_npy(named.rest.substr(1), outputs[named.index]));
    } else {
      return make_error(ErrorKind::usage, "E009", concat("cannot read --output ", escape_text(argument)))
          .with_expected("[NAME=]@FILE.npy or [NAME=]-");
    }
  }
  const bool nothing_asked = options.outputs.empty() && options.outputs_npz.empty() && options.expected.empty() &&
                             options.expected_npz.empty() && !options.output_hash && options.iterations == 1;
  for (size_t i = 0; i < specs.size(); ++i)
    if (printed[i] || (nothing_asked && !options.quiet))
      fmt::print("output {} {}\n", escape_text(specs[i].name), runtime::summary(outputs[i]));
  if (!options.outputs_npz.empty()) {
    std::vector<std::pair<std::string, const HostTensor*>> arrays;
    for (size_t i = 0; i < specs.size(); ++i) arrays.emplace_back(specs[i].name, &outputs[i]);
    RTX_TRY(write_npz(options.outputs_npz, arrays));
  }
  if (options.output_hash) fmt::print("output-hash sha256:{}\n", runtime::hash_tensors(outputs));
  return Ok{};
}

// The expected tensors, by output.
Result<std::vector<std::optional<HostTensor>>> read_expected(const Options& options, const package::Program& program) {
  const std::vector<package::TensorSpec>& specs = program.outputs;
  std::vector<std::optional<HostTensor>> expected(specs.size());
  std::vector<bool> taken(specs.size());
  if (!options.expected_npz.empty()) {
    RTX_ASSIGN(auto file, File::open(options.expected_npz));
    RTX_ASSIGN(const auto npz, NpzFile::open(std::move(file)));
    for (const std::string& name : npz->names()) {
      size_t i = 0;
      while (i < specs.size() && specs[i].name != name) ++i;
      if (i == specs.size())
        return make_error(ErrorKind::invalid, "E372", concat("the program has no output '", escape_text(name), "'"))
            .with_where(options.expected_npz);
      RTX_ASSIGN(expected[i], npz->read(name, type_for_numpy(specs[i].dtype)));
    }
  }
  for (const std::string& argument : options.expected) {
    RTX_ASSIGN(const Named named, split_name(argument, specs, taken, "output"));
    if (!named.rest.starts_with('@'))
      return make_error(ErrorKind::usage, "E009", concat("cannot read --expected_output ", escape_text(argument)))
          .with_expected("[NAME=]@FILE.npy");
    RTX_ASSIGN(expected[named.index], read_tensor_file(named.rest.substr(1), specs[named.index]));
    taken[named.index] = true;
  }
  return expected;
}

runtime::Tolerance tolerance_for(const Options& options, DType dtype) {
  if (!options.atol && !options.rtol && !options.norm_tol) return runtime::default_tolerance(dtype);
  constexpr double any = std::numeric_limits<double>::infinity();
  const bool elementwise = options.atol || options.rtol;
  return {.absolute = elementwise ? options.atol.value_or(0) : any,
          .relative = options.rtol.value_or(0),
          .norm = options.norm_tol.value_or(any)};
}

Result<void> compare_outputs(const Options& options, const package::Program& program,
                             const std::vector<std::optional<HostTensor>>& expected,
                             const std::vector<HostTensor>& outputs) {
  std::vector<Diagnostic> errors;
  fmt::print("{:<28} {:>6} {:>11} {:>11} {:>11} {:>11} {:>9}  {}\n", "compared", "result", "max abs", "max rel", "norm",
             "far", "nan", "worst");
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!expected[i]) continue;
    const std::string name = escape_text(program.outputs[i].name);
    const runtime::Comparison c = compare(outputs[i], *expected[i], tolerance_for(options, outputs[i].dtype));
    if (!c.incomparable.empty()) {
      fmt::print("{:<28} {:>6} {}\n", name, "FAIL", c.incomparable);
    } else {
      const std::string worst =
          c.worst < 0 ? ""
                      : fmt::format("{}: {:.9g}, expected {:.9g}", runtime::index_text(c.worst, outputs[i].shape),
                                    c.worst_actual, c.worst_expected);
      fmt::print("{:<28} {:>6} {:>11.3e} {:>11.3e} {:>11.3e} {:>11} {:>9}  {}\n", name, c.ok ? "ok" : "FAIL",
                 c.max_absolute, c.max_relative, c.norm, fmt::format("{}/{}", c.far, c.elements),
                 fmt::format("{}/{}", c.nans_actual, c.nans_expected), worst);
    }
    if (c.ok) continue;
    Diagnostic error = make_error(ErrorKind::mismatch, "E1001", "the output differs from the expected one")
                           .with_where(concat("output '", name, "'"));
    if (!c.incomparable.empty())
      error.with_got(c.incomparable);
    else
      error.with_got(fmt::format("{} of {} elements are far, relative error norm {:.3e}", c.far, c.elements, c.norm));
    errors.push_back(std::move(error));
  }
  if (!errors.empty()) return Error(std::move(errors));
  return Ok{};
}

Result<void> run_tool(const Tool& tool, const Options& options) {
  if (options.list_devices) return list_devices(tool, options);
  if (options.package.empty())
    return make_error(ErrorKind::usage, "E001", "no package given").with_help("see rtx-run --help");

  RTX_ASSIGN(package::Package package, package::open_package(options.package, {.verify_weights = false}));
  RTX_TRY(check_determinism(options, package.manifest));
  RTX_ASSIGN(const package::Program* found, runtime::find_program(package.manifest, options.program));
  RTX_ASSIGN(const runtime::SymbolValues dims, parse_dims(options.inputs.dims));
  // The inputs before the weights: a wrong file name should not cost the loading of a large model.
  RTX_ASSIGN(auto inputs, make_inputs(options.inputs, package.manifest, *found));
  RTX_ASSIGN(const package::Program* chosen, runtime::choose_program(package.manifest, options.program, inputs, dims));
  if (chosen != found && chosen->when != found->when) {
    // Inputs that are made up have the sizes of the program they are for.
    RTX_ASSIGN(inputs, make_inputs(options.inputs, package.manifest, *chosen));
  }
  RTX_ASSIGN(const auto expected, read_expected(options, *chosen));
  const std::string program_name = chosen->name;
  RTX_ASSIGN(const auto device, open_device(options.device, package.manifest.archs));
  RTX_ASSIGN(const auto model, runtime::Model::load(std::move(package), *device, {.verify = !options.no_verify}));
  if (!options.quiet) fmt::print(stderr, "rtx-run: running on {} ({})\n", device->info().id, device->info().name);
  if (!options.quiet && model->manifest().programs.size() > 1)
    fmt::print(stderr, "rtx-run: program {}\n", escape_text(program_name));

  RTX_ASSIGN(const auto session,
             runtime::Session::create(*model, program_name,
                                      {.synchronize_steps = options.sync_steps, .poison = options.poison}));
  RTX_ASSIGN(Run result, run(options, *device, *session, inputs));

  RTX_TRY(write_outputs(options, session->program(), result.outputs));
  if (!result.total.empty()) {
    fmt::print("{}", timing_header());
    fmt::print("{}", timing_row("total (copies included)", result.total));
    fmt::print("{}", timing_row("device", result.device));
  }
  if (options.expected.empty() && options.expected_npz.empty()) return Ok{};
  return compare_outputs(options, session->program(), expected, result.outputs);
}

int run(int argc, char** argv) {
  Tool tool("rtx-run", "Runs a compiled package on a GPU or on the CPU device.");
  Options options;
  add_options(tool.app, options);
  return tool.run(argc, argv, [&] { return run_tool(tool, options); });
}

}  // namespace
}  // namespace rtx::cli

int main(int argc, char** argv) { return rtx::cli::run(argc, argv); }
