#include "passes/pipeline.h"

#include <chrono>

#include "base/file.h"
#include "base/text.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "passes/canonicalize.h"
#include "passes/eliminate_common_subexpressions.h"
#include "passes/eliminate_dead_values.h"
#include "passes/fold_constants.h"
#include "passes/infer_and_check.h"

namespace rtx {

namespace {

constexpr PassInfo passes[] = {
    {"canonicalize", canonicalize, "Rewrite every operation into its shortest exact form."},
    {"eliminate_common_subexpressions", eliminate_common_subexpressions, "Keep one of equal operations."},
    {"eliminate_dead_values", eliminate_dead_values, "Drop operations and symbols that nothing uses."},
    {"fold_constants", fold_constants, "Evaluate operations on constants and weights, within a budget."},
    {"infer_and_check", infer_and_check, "Infer all types again and verify."},
};

constexpr std::string_view canonical[] = {
    "eliminate_dead_values",            // first: nothing below should spend time on what nobody reads
    "canonicalize",                     // exposes constants behind identities
    "fold_constants",                   // wants canonical operands
    "canonicalize",                     // folded operands open rules (x * 1)
    "eliminate_common_subexpressions",  // after folding: equal constants make equal users
    "eliminate_dead_values",            // what folding and merging left behind
    "infer_and_check",
};

Result<void> check_round_trip(const Module& module, std::string_view pass) {
  std::string text = print(module);
  Result<std::unique_ptr<Module>> parsed = parse_module(text, concat("<after ", pass, ">"));
  if (!parsed) return std::move(parsed).error().within("round trip");
  if (print(**parsed) != text)
    return make_error(ErrorKind::internal, "E990", concat("the text after '", pass, "' does not read back to itself"));
  return Ok{};
}

Result<void> run_one(const PassInfo& pass, Module& module, PassContext& context, const PipelineOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  Result<bool> changed = pass.run(module, context);
  const std::chrono::duration<double, std::milli> elapsed = std::chrono::steady_clock::now() - start;
  if (!changed) return std::move(changed).error();
  if (options.verify_each) {
    if (Result<void> verified = verify(module); !verified) {
      Error error = std::move(verified).error();
      for (Diagnostic& diagnostic : error.diagnostics) diagnostic.kind = ErrorKind::internal;
      return error;
    }
  }
  if (options.round_trip) RTX_TRY(check_round_trip(module, pass.name));
  if (options.after_pass) options.after_pass(module, {std::string(pass.name), elapsed.count(), *changed});
  return Ok{};
}

}  // namespace

std::span<const PassInfo> all_passes() { return passes; }
std::span<const std::string_view> canonical_pipeline() { return canonical; }

const PassInfo* find_pass(std::string_view name) {
  for (const PassInfo& pass : passes)
    if (pass.name == name) return &pass;
  return nullptr;
}

Result<void> run_passes(Module& module, std::span<const std::string_view> names, PassContext& context,
                        const PipelineOptions& options) {
  for (std::string_view name : names) {
    if (!find_pass(name))
      return make_error(ErrorKind::usage, "E010", concat("there is no pass '", escape_text(name), "'"))
          .with_expected(join(all_passes(), ", ", [](const PassInfo& pass) { return pass.name; }));
  }
  for (size_t i = 0; i < names.size(); ++i) {
    std::unique_ptr<Module> before = options.reproducer.empty() ? nullptr : module.clone();
    Result<void> result = run_one(*find_pass(names[i]), module, context, options);
    if (result) continue;
    Error error = std::move(result).error().within(concat("pass '", names[i], "'"));
    if (before) {
      const std::string left = join(names.subspan(i), ",", [](std::string_view name) { return name; });
      if (write_file(options.reproducer, concat("# rtx-opt --passes=", left, "\n", print(*before))).ok())
        error.diagnostics.front().with_help(concat("run again with: rtx-opt --passes=", left, " ", options.reproducer));
    }
    return error;
  }
  return Ok{};
}

Result<void> run_canonical_pipeline(Module& module, PassContext& context, const PipelineOptions& options) {
  RTX_TRY(run_passes(module, canonical_pipeline(), context, options));
  module.stage = Stage::canonical;
  return Ok{};
}

}  // namespace rtx
