#include "passes/pipeline.h"

#include <chrono>
#include <cstdlib>
#include <cstring>

#include "base/file.h"
#include "base/text.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "passes/canonicalize.h"
#include "passes/convert_precision.h"
#include "passes/eliminate_common_subexpressions.h"
#include "passes/eliminate_dead_values.h"
#include "passes/expand_composites.h"
#include "passes/fold_constants.h"
#include "passes/infer_and_check.h"
#include "passes/mark_canonical.h"
#include "passes/merge_products.h"
#include "passes/normalize_layouts.h"
#include "passes/recover_composites.h"

namespace rtx {

namespace {

constexpr PassEntry passes[] = {
    {"infer_and_check", infer_and_check, "infer all types again and verify", Stage::canonical},
    {"canonicalize", canonicalize, "rewrite operations into simpler equal ones", Stage::canonical},
    {"fold_constants", fold_constants, "evaluate operations on constants and weights, within budgets",
     Stage::canonical},
    {"eliminate_common_subexpressions", eliminate_common_subexpressions, "merge operations that compute the same",
     Stage::canonical},
    {"eliminate_dead_values", eliminate_dead_values, "erase operations without uses", Stage::planned},
    {"recover_composites", recover_composites, "recognise norms, activations, rope and attention", Stage::canonical},
    {"merge_products", merge_products, "one product for those that share their left operand", Stage::canonical},
    {"convert_precision", convert_precision, "f16 or bf16 for products, attention and what stands between them",
     Stage::canonical},
    {"normalize_layouts", normalize_layouts, "move transposes to where they cost nothing", Stage::canonical},
    {"expand_composites", expand_composites, "write composite operations as the core operations they stand for",
     Stage::canonical},
    {"expand_simple_composites", expand_simple_composites, "the same, but for those that have kernels",
     Stage::canonical},
    {"mark_canonical", mark_canonical, "move the module to stage canonical", Stage::canonical},
};

constexpr std::string_view canonical[] = {
    "infer_and_check",  // nothing below works on wrong types
    "canonicalize",     // before folding: x * 1 and casts back and forth vanish instead of being computed
    "fold_constants",   //
    "eliminate_common_subexpressions",  // after folding: equal constants make more operations equal
    "canonicalize",                     // what folding and merging brought together
    "eliminate_dead_values",            // the weights that folding replaced
    "mark_canonical",
};

constexpr std::string_view optimize[] = {
    "recover_composites",
    "canonicalize",                     // moves around what was recovered: k no longer stands transposed
    "eliminate_common_subexpressions",  // the tables of rope, recovered once a use
    "normalize_layouts",                // of the parts that were recovered
    "merge_products",                   // q, k and v are known by the attention that they reach
    "fold_constants",                   // the joined weights
    "eliminate_dead_values",            // and those that were joined
    "expand_simple_composites",         // those that no planner takes whole
    "canonicalize",
    "eliminate_common_subexpressions",
    "eliminate_dead_values",
};

constexpr std::string_view precision[] = {
    "convert_precision",
    "fold_constants",  // casts of what is taken out of weights
    "canonicalize",    // casts that undo each other, where parts were in half already
    "eliminate_common_subexpressions",
    "eliminate_dead_values",
};

const PassEntry* find_pass(std::string_view name) {
  for (const PassEntry& pass : passes) {
    if (pass.name == name) return &pass;
  }
  return nullptr;
}

size_t count_operations(const Module& module) {
  size_t count = 0;
  for (const auto& function : module.functions) count += function->block.size();
  return count;
}

Result<void> check_round_trip(const Module& module, std::string_view pass) {
  std::string text = print(module);
  Result<std::unique_ptr<Module>> parsed = parse_module(text, concat("<after ", pass, ">"));
  if (!parsed) return std::move(parsed).error().within("the printed module does not parse");
  if (print(**parsed) == text) return Ok{};
  return make_error(ErrorKind::internal, "E992", concat("printing and parsing changes the module after ", pass));
}

// One pass with its checks.
Result<PassTiming> run_pass(Module& module, const PassEntry& pass, PipelineOptions& options) {
  if (module.stage > pass.stage) {
    return make_error(ErrorKind::usage, "E011",
                      concat("pass '", pass.name, "' cannot run on a module of stage ", to_string(module.stage)))
        .with_expected(concat("stage ", to_string(pass.stage), " or earlier"));
  }
  PassTiming timing{std::string(pass.name)};
  timing.operations_before = count_operations(module);
  auto start = std::chrono::steady_clock::now();
  RTX_ASSIGN(timing.changed, pass.function(module, options.context));
  auto elapsed = std::chrono::steady_clock::now() - start;
  timing.elapsed_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(elapsed).count();
  timing.operations_after = count_operations(module);
  if (options.verify_each) {
    if (Result<void> verified = verify(module); !verified) {
      return std::move(verified).error().within(concat("after pass '", pass.name, "'"));
    }
  }
  if (options.round_trip) RTX_TRY(check_round_trip(module, pass.name));
  return timing;
}

// The error, with a note where the module of before the pass was written.
Error with_reproducer(Error error, const Module& before, std::span<const std::string> names, const std::string& path) {
  std::string text = concat(reproducer_line(names), "\n", print(before));
  Result<void> written = write_file(path, text);
  error.diagnostics.front().notes.push_back(written ? concat("reproducer: rtx-opt --reproduce ", path)
                                                    : concat("no reproducer could be written to ", path));
  return error;
}

bool round_trip_requested() {
  const char* value = std::getenv("RTX_ROUND_TRIP");
  return value && std::strcmp(value, "1") == 0;
}

}  // namespace

std::span<const PassEntry> all_passes() { return passes; }
std::span<const std::string_view> canonical_pipeline() { return canonical; }
std::span<const std::string_view> optimize_pipeline() { return optimize; }
std::span<const std::string_view> precision_pipeline() { return precision; }

Result<std::vector<std::string>> parse_pass_list(std::string_view text) {
  std::vector<std::string> names;
  while (!text.empty()) {
    size_t comma = text.find(',');
    std::string_view name = text.substr(0, comma);
    text = comma == std::string_view::npos ? std::string_view{} : text.substr(comma + 1);
    if (name == "canonical") {
      names.insert(names.end(), std::begin(canonical), std::end(canonical));
    } else if (name == "optimize") {
      names.insert(names.end(), std::begin(optimize), std::end(optimize));
    } else if (name == "precision") {
      names.insert(names.end(), std::begin(precision), std::end(precision));
    } else if (find_pass(name)) {
      names.emplace_back(name);
    } else {
      return make_error(ErrorKind::usage, "E010", concat("there is no pass '", escape_text(name), "'"))
          .with_help("rtx-opt --list-passes prints their names");
    }
  }
  return names;
}

Result<PipelineReport> run_pipeline(Module& module, std::span<const std::string> names, PipelineOptions options) {
  options.round_trip = options.round_trip || round_trip_requested();
  PipelineReport report;
  for (size_t i = 0; i < names.size(); ++i) {
    const PassEntry* pass = find_pass(names[i]);
    if (!pass) return make_error(ErrorKind::internal, "E010", concat("there is no pass '", escape_text(names[i]), "'"));
    std::unique_ptr<Module> before = options.reproducer_path.empty() ? nullptr : module.clone();
    Result<PassTiming> timing = run_pass(module, *pass, options);
    if (!timing) {
      Error error = std::move(timing).error();
      if (!before || error.first().kind == ErrorKind::usage) return error;
      return with_reproducer(std::move(error), *before, names.subspan(i), options.reproducer_path);
    }
    bool changed = timing->changed;
    report.timings.push_back(std::move(*timing));
    if (options.print_after_all) options.print_after_all(pass->name, module);
    if (changed && options.print_after_change) options.print_after_change(pass->name, module);
  }
  report.remarks = std::move(options.context.remarks);
  report.near_matches = std::move(options.context.near_matches);
  return report;
}

Result<PipelineReport> run_pipeline(Module& module, std::span<const std::string_view> names, PipelineOptions options) {
  return run_pipeline(module, std::vector<std::string>(names.begin(), names.end()), std::move(options));
}

Result<PipelineReport> run_canonical_pipeline(Module& module, PipelineOptions options) {
  return run_pipeline(module, canonical_pipeline(), std::move(options));
}

Result<PipelineReport> run_optimize_pipeline(Module& module, PipelineOptions options) {
  return run_pipeline(module, optimize_pipeline(), std::move(options));
}

namespace {
constexpr std::string_view reproducer_prefix = "# reproducer for passes: ";
}

std::string reproducer_line(std::span<const std::string> names) {
  return concat(reproducer_prefix, join(std::vector<std::string>(names.begin(), names.end()), ","));
}

std::string_view reproducer_passes(std::string_view text) {
  if (!text.starts_with(reproducer_prefix)) return {};
  return text.substr(reproducer_prefix.size(), text.find('\n') - reproducer_prefix.size());
}

}  // namespace rtx
