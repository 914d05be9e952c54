#include "cli/reduce_options.h"

#include <stdlib.h>
#include <sys/wait.h>

#include <cstdio>
#include <filesystem>

#include "base/text.h"
#include "ir/module_file.h"
#include "passes/reduce_module.h"

namespace rtx::cli {

namespace {

namespace fs = std::filesystem;

// A temporary folder that goes with the object.
class Folder {
 public:
  static Result<std::unique_ptr<Folder>> create() {
    std::string name = (fs::temp_directory_path() / "rtx-opt-XXXXXX").string();
    if (!mkdtemp(name.data()))
      return make_error(ErrorKind::io, "E901", concat("cannot make a folder like '", escape_text(name), "'"));
    return std::make_unique<Folder>(std::move(name));
  }
  explicit Folder(std::string path) : path(std::move(path)) {}
  ~Folder() {
    std::error_code error;
    fs::remove_all(path, error);
  }
  const std::string path;
};

std::string quoted(const std::string& text) {
  std::string result = "'";
  for (char c : text) result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return result + "'";
}

// Whether `command FILE` fails, FILE being the module as text with its weights beside it.
Result<std::optional<Failure>> failure_of_command(const std::string& command, const Module& module) {
  RTX_ASSIGN(const std::unique_ptr<Folder> folder, Folder::create());
  const std::string path = folder->path + "/module.rtxir";
  RTX_TRY(save_module(module, path));
  std::fflush(stderr);
  const int status = std::system(concat(command, " ", quoted(path), " >/dev/null 2>&1").c_str());
  if (status == 0) return std::optional<Failure>();
  const bool exited = status != -1 && WIFEXITED(status);
  const int code = exited ? WEXITSTATUS(status) : 0;
  if (status == -1 || code == 126 || code == 127) {
    return make_error(ErrorKind::usage, "E017", "the command of --check cannot be run")
        .with_got(command)
        .with_help("'COMMAND FILE' must work in a shell");
  }
  const std::string kind = exited ? concat("exit code ", code) : concat("signal ", WTERMSIG(status));
  return std::optional(Failure{kind, concat("the command ends with ", kind)});
}

}  // namespace

void add_reduce_options(CLI::App& app, ReduceOptions& options) {
  app.add_flag("--reduce", options.reduce,
               "Shrink the module to a small one with which the passes still fail in the same way: an error, a module "
               "that the verifier refuses, or other outputs on random inputs. Weights without data get random ones");
  app.add_option("--check", options.check,
                 "What is a failure for --reduce: 'evaluate' (as above), or a command that gets the path of a module "
                 "and ends with the same exit code as for the whole module")
      ->capture_default_str();
  app.add_option("--seed", options.seed, "Of the random inputs of --reduce")->capture_default_str();
  app.add_option("--tolerance", options.tolerance,
                 "Relative norm by which outputs may differ for --reduce; 0: bit by bit, also on infinities and NaN")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
}

Result<std::unique_ptr<Module>> reduce(const Module& module, const std::vector<std::string>& passes,
                                       const PipelineOptions& pipeline, const ReduceOptions& options) {
  const auto run_passes = [&](Module& changed) -> Result<void> {
    RTX_ASSIGN(const PipelineReport report, run_pipeline(changed, passes, pipeline));
    (void)report;
    return Ok{};
  };
  FailureCheck check;
  if (options.check == "evaluate") {
    check = failure_of_passes({run_passes, options.seed, options.tolerance});
  } else {
    check = [&](const Module& trial) -> Result<std::optional<Failure>> {
      const std::unique_ptr<Module> changed = trial.clone();
      changed->weights = std::make_shared<WeightStore>(*trial.weights);
      if (!run_passes(*changed)) return std::optional<Failure>();
      return failure_of_command(options.check, *changed);
    };
  }
  size_t operations = 0;
  for (const auto& function : module.functions) operations += function->block.size() - 1;
  std::fprintf(stderr, "%8zu operations\n", operations);
  return reduce_module(module, check, [](const ReduceStep& step) {
    std::fprintf(stderr, "%8zu operations: %s\n", step.operations, step.what.c_str());
  });
}

}  // namespace rtx::cli
