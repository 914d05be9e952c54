#include <doctest/doctest.h>

#include "base/file.h"
#include "base/text.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "passes/fold_constants.h"
#include "passes/pipeline.h"
#include "tests/temp_folder.h"

namespace rtx {
namespace {

std::unique_ptr<Module> parse(std::string_view text) {
  auto module = parse_module(text, "test");
  REQUIRE_MESSAGE(module, to_string(module.error().first()));
  return std::move(*module);
}

std::unique_ptr<Module> module_of(std::string_view body) {
  return parse(concat("rtxir 1\nstage imported\nsymbol n 1..8\nfunc @main(%0 \"x\": tensor<[n, 4], f32>) {\n", body,
                      "} outputs \"y\"\n"));
}

const std::vector<std::string> fold = {"fold_constants"};

TEST_CASE("the pass list expands the pipeline and refuses unknown names") {
  CHECK(parse_pass_list("").value().empty());
  CHECK(parse_pass_list("canonicalize,fold_constants").value() ==
        std::vector<std::string>{"canonicalize", "fold_constants"});
  CHECK(parse_pass_list("canonical").value().size() == canonical_pipeline().size());
  CHECK(parse_pass_list("canonicalize,,fold_constants").error().first().id == "E010");
  CHECK(parse_pass_list("canonicalise").error().first().kind == ErrorKind::usage);
  for (const PassEntry& pass : all_passes()) CHECK(parse_pass_list(pass.name));
}

TEST_CASE("the report says what each pass did") {
  std::unique_ptr<Module> module =
      module_of("  %1 = neg(%0) : tensor<[n, 4], f32>\n  %2 = neg(%1) : tensor<[n, 4], f32>\n  yield(%2)\n");
  PipelineReport report = run_canonical_pipeline(*module).value();
  REQUIRE(report.timings.size() == canonical_pipeline().size());
  CHECK(report.timings[1].name == "canonicalize");
  CHECK(report.timings[1].changed);
  CHECK(report.timings[1].operations_before == 3);
  CHECK(report.timings[1].operations_after == 1);
  CHECK_FALSE(report.timings[2].changed);
  CHECK(module->stage == Stage::canonical);
}

TEST_CASE("a module that the verifier refuses stops the pipeline and leaves a reproducer") {
  TempFolder folder;
  std::unique_ptr<Module> module = module_of("  %1 = exp(%0) : tensor<[n, 4], f32>\n  yield(%1)\n");
  module->symbols.clear();  // what a wrong pass might do
  PipelineOptions options;
  options.reproducer_path = folder / "bad.rtxir";
  std::vector<std::string> names = {"canonicalize", "eliminate_dead_values"};
  auto report = run_pipeline(*module, names, options);
  REQUIRE_FALSE(report);
  CHECK(report.error().first().id == "E154");
  CHECK(report.error().first().where.find("after pass 'canonicalize'") != std::string::npos);
  REQUIRE(report.error().first().notes.size() == 1);
  CHECK(report.error().first().notes[0].find("rtx-opt --reproduce") != std::string::npos);
  std::string text = read_text_file(folder / "bad.rtxir", 1 << 20).value();
  CHECK(reproducer_passes(text) == "canonicalize,eliminate_dead_values");
  CHECK(text.find("exp(%0)") != std::string::npos);
  CHECK(reproducer_passes("rtxir 1\n") == "");
}

TEST_CASE("a pass refuses a module of a later stage") {
  std::unique_ptr<Module> module =
      parse("rtxir 1\nstage fused\nfunc @main(%0 \"x\": tensor<[4], f32>) {\n  yield(%0)\n} outputs \"y\"\n");
  CHECK(run_pipeline(*module, fold).error().first().id == "E011");
  std::vector<std::string> dead = {"eliminate_dead_values"};
  CHECK(run_pipeline(*module, dead));
}

TEST_CASE("inference makes a type sharper after a symbol was replaced") {
  std::unique_ptr<Module> module = module_of("  %1 = reshape(%0) {shape = [4*n]} : tensor<[4*n], f32>\n  yield(%1)\n");
  module->functions[0]->block.argument(0)->type.shape[0] = 3;
  module->functions[0]->block.operations().front()->attributes.set("shape", std::vector<Dim>{12});
  std::vector<std::string> names = {"infer_and_check"};
  CHECK(run_pipeline(*module, names).value().timings[0].changed);
  CHECK(module->functions[0]->block.terminator()->operand(0)->type.str() == "tensor<[12], f32>");
}

// 64 KiB f32 from a weight of as much.
std::unique_ptr<Module> with_weight(std::string_view ops) {
  std::unique_ptr<Module> module = module_of(
      concat("  %1 = weight() {name = \"w\", dtype = f32, shape = [4, 8192]} : tensor<[4, 8192], f32>\n", ops));
  module->weights->add("w", Tensor(DType::f32, {4, 8192}));
  return module;
}

constexpr std::string_view two_steps =
    "  %2 = neg(%1) : tensor<[4, 8192], f32>\n  %3 = exp(%2) : tensor<[4, 8192], f32>\n"
    "  %4 = matmul(%0, %3) : tensor<[n, 8192], f32>\n  yield(%4)\n";

TEST_CASE("only the end of a folded chain is stored") {
  std::unique_ptr<Module> module = with_weight(two_steps);
  CHECK(run_pipeline(*module, fold).value().timings[0].changed);
  CHECK(module->weights->find("w.neg") == nullptr);
  REQUIRE(module->weights->find("w.neg.exp"));
  CHECK(module->weights->load("w.neg.exp").value().f64(5) == 1);
}

TEST_CASE("the budgets of folding hold") {
  auto changed = [](std::string_view ops, auto limit) {
    std::unique_ptr<Module> module = with_weight(ops);
    PipelineOptions options;
    limit(options.context);
    return run_pipeline(*module, fold, options).value().timings[0].changed;
  };
  constexpr int64_t bytes = int64_t{4} * 8192 * 4;
  CHECK_FALSE(changed(two_steps, [](PassContext& context) { context.max_folded_value_bytes = bytes - 1; }));
  CHECK_FALSE(changed(two_steps, [](PassContext& context) { context.max_folded_total_bytes = bytes - 1; }));
  CHECK(changed(two_steps, [](PassContext& context) { context.max_folded_total_bytes = bytes; }));
  constexpr std::string_view product =
      "  %2 = matmul(%1, %1) {transpose_rhs = true} : tensor<[4, 4], f32>\n  %3 = matmul(%0, %2) : tensor<[n, 4], "
      "f32>\n"
      "  yield(%3)\n";
  CHECK(changed(product, [](PassContext& context) { context.max_folded_multiplies = int64_t{4} * 4 * 8192; }));
  CHECK_FALSE(changed(product, [](PassContext& context) { context.max_folded_multiplies = int64_t{4} * 4 * 8192 - 1; }));
  // The result is 64 bytes, but the weight would have to be read.
  CHECK_FALSE(changed(product, [](PassContext& context) { context.max_folded_value_bytes = bytes - 1; }));
}

TEST_CASE("folded weights get names that are free") {
  std::unique_ptr<Module> module = with_weight(two_steps);
  module->weights->add("w.neg.exp", Tensor(DType::f32, {1}));
  REQUIRE(run_pipeline(*module, fold));
  CHECK(module->weights->find("w.neg.exp.1"));
}

TEST_CASE("a weight without data is not folded") {
  std::unique_ptr<Module> module = with_weight(two_steps);
  module->weights = std::make_shared<WeightStore>();
  CHECK_FALSE(run_pipeline(*module, fold).value().timings[0].changed);
}

TEST_CASE("what cannot be evaluated is left for run time") {
  std::unique_ptr<Module> module = module_of(
      "  %1 = constant() {value = dense<[], i64, [1]>} : tensor<[], i64>\n"
      "  %2 = broadcast(%1) {shape = [n]} : tensor<[n], i64>\n"
      "  %3 = gather(%0, %2) {axis = 1} : tensor<[n, n], f32>\n  yield(%3)\n");
  CHECK_FALSE(run_pipeline(*module, fold).value().timings[0].changed);
}

TEST_CASE("a hundred thousand operations are canonicalised in one walk") {
  // Each link is rewritten several times; a rescan of the whole list for each would take hours.
  std::string body;
  constexpr int links = 20000;
  std::string last = "%0";
  for (int i = 0; i < links; ++i) {
    std::string name = concat("%v", i);
    body += concat("  ", name, "a = reshape(", last, ") {shape = [4*n]} : tensor<[4*n], f32>\n");
    body += concat("  ", name, "b = neg(", name, "a) : tensor<[4*n], f32>\n");
    body += concat("  ", name, "c = neg(", name, "b) : tensor<[4*n], f32>\n");
    body += concat("  ", name, "d = reshape(", name, "c) {shape = [n, 4]} : tensor<[n, 4], f32>\n");
    body += concat("  ", name, " = transpose(", name, "d) {perm = [0, 1]} : tensor<[n, 4], f32>\n");
    last = name;
  }
  std::unique_ptr<Module> module =
      module_of(concat(body, "  %out = exp(", last, ") : tensor<[n, 4], f32>\n  yield(%out)\n"));
  std::vector<std::string> names = {"canonicalize"};
  CHECK(run_pipeline(*module, names));
  CHECK(module->functions[0]->block.size() == 2);
}

}  // namespace
}  // namespace rtx
