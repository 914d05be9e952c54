// Runs the files of tests/golden/<pass>/*.rtxir: input, `# expect:`, output; and those of tests/golden/{text,ops},
// whose errors stand as `# error: MESSAGE [ID]` on the lines that cause them.

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

#include "base/file.h"
#include "base/text.h"
#include "ir/text.h"
#include "passes/pipeline.h"
#include "tests/equivalence.h"
#include "tests/golden/golden_check.h"

namespace rtx::testing {
namespace {

namespace fs = std::filesystem;

std::string golden_folder(std::string_view name) { return concat(RTX_TEST_DIR, "/golden/", name); }

std::vector<std::string> files_in(const std::string& folder) {
  std::vector<std::string> paths;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".rtxir") paths.push_back(entry.path().string());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

std::string read(const std::string& path) { return read_text_file(path, int64_t{1} << 24).value(); }

void check_pass_folder(const std::string& pass, double tolerance = 0) {
  std::vector<std::string> paths = files_in(golden_folder(pass));
  CHECK(!paths.empty());
  for (const std::string& path : paths) {
    CAPTURE(path);
    const std::string failure = check_pass_file(path, run_passes(pass), tolerance, blessing()).value_or("");
    CHECK_MESSAGE(failure == "", failure);
  }
}

// "line: message [id]" of every `# error:` comment; a line may have several.
std::vector<std::string> expected_errors(const std::string& text) {
  constexpr std::string_view mark = "# error: ";
  std::vector<std::string> expected;
  std::vector<std::string> lines = lines_of(text);
  for (size_t i = 0; i < lines.size(); ++i) {
    std::string_view line = lines[i];
    for (size_t at = line.find(mark); at != std::string_view::npos; at = line.find(mark)) {
      line = line.substr(at + mark.size());
      std::string_view message = line.substr(0, line.find(mark));
      while (message.ends_with(' ')) message.remove_suffix(1);
      expected.push_back(concat(i + 1, ": ", message));
    }
  }
  return expected;
}

// The same form from the diagnostics; `where` is "file:line:column".
std::vector<std::string> found_errors(const Error& error, const std::string& path) {
  std::vector<std::string> found;
  for (const Diagnostic& diagnostic : error.diagnostics) {
    std::string_view where = diagnostic.where;
    where = where.starts_with(path) ? where.substr(path.size() + 1) : "0";
    found.push_back(concat(where.substr(0, where.find(':')), ": ", diagnostic.message, " [", diagnostic.id, "]"));
  }
  return found;
}

void check_error_file(const std::string& path) {
  std::string text = read(path);
  CHECK_MESSAGE(has_reason(text), path, ": the first line must say why the case exists");
  auto module = parse_module(text, path);
  std::vector<std::string> expected = expected_errors(text);
  CHECK_MESSAGE(!expected.empty(), path, " expects no error");
  REQUIRE_MESSAGE(!module, path, " is accepted");
  CHECK(join(expected, "\n") == join(found_errors(module.error(), path), "\n"));
}

TEST_CASE("canonicalize gives the expected modules") { check_pass_folder("canonicalize"); }
TEST_CASE("fold_constants gives the expected modules") { check_pass_folder("fold_constants"); }
TEST_CASE("eliminate_common_subexpressions gives the expected modules") {
  check_pass_folder("eliminate_common_subexpressions");
}
TEST_CASE("eliminate_dead_values gives the expected modules") { check_pass_folder("eliminate_dead_values"); }
TEST_CASE("infer_and_check gives the expected modules") { check_pass_folder("infer_and_check"); }
TEST_CASE("recover_composites gives the expected modules") { check_pass_folder("recover_composites", 2e-6); }
TEST_CASE("merge_products gives the expected modules") { check_pass_folder("merge_products"); }
TEST_CASE("convert_precision gives the expected modules") { check_pass_folder("convert_precision", 2e-2); }
TEST_CASE("normalize_layouts gives the expected modules") { check_pass_folder("normalize_layouts", 2e-6); }
TEST_CASE("expand_composites gives the expected modules") { check_pass_folder("expand_composites", 2e-6); }
TEST_CASE("the canonical pipeline gives the expected modules") { check_pass_folder("canonical"); }

TEST_CASE("modules that break a rule are refused on the right line with the right error") {
  for (const char* folder : {"text", "ops"}) {
    for (const std::string& path : files_in(golden_folder(folder))) {
      CAPTURE(path);
      check_error_file(path);
    }
  }
}

// "matmul_c1" and the like: a name, "_c", a number.
bool is_rule_id(std::string_view text) {
  size_t number = text.find_last_not_of("0123456789") + 1;
  std::string_view name = text.substr(0, number);
  return number < text.size() && name.size() > 2 && name.ends_with("_c") &&
         name.find_first_not_of("abcdefghijklmnopqrstuvwxyz_") == std::string_view::npos;
}

// The rule ids that the records use as string literals.
std::set<std::string> rule_ids() {
  std::set<std::string> ids;
  for (const auto& entry : fs::directory_iterator(concat(RTX_TEST_DIR, "/../ir/ops"))) {
    if (entry.path().extension() != ".cpp") continue;
    std::string text = read(entry.path().string());
    for (size_t at = text.find('"'); at != std::string::npos; at = text.find('"', at + 1)) {
      std::string_view literal = std::string_view(text).substr(at + 1, text.find('"', at + 1) - at - 1);
      if (is_rule_id(literal)) ids.emplace(literal);
    }
  }
  return ids;
}

TEST_CASE("each numbered rule of an op has a golden file of its name") {
  std::set<std::string> ids = rule_ids();
  CHECK(ids.size() > 30);
  for (const std::string& id : ids) {
    std::string path = golden_folder(concat("ops/", id, ".rtxir"));
    CHECK_MESSAGE(fs::exists(path), id, " has no ", path);
    if (fs::exists(path))
      CHECK_MESSAGE(read(path).find(concat("[", id, "]")) != std::string::npos, path, " does not expect ", id);
  }
}

TEST_CASE("every folder of rtxir files is run by a test") {
  std::set<std::string> known = {"text", "ops", "canonical"};
  for (const PassEntry& pass : all_passes()) known.emplace(pass.name);
  for (const auto& entry : fs::directory_iterator(golden_folder(""))) {
    if (!entry.is_directory() || files_in(entry.path().string()).empty()) continue;
    CHECK_MESSAGE(known.contains(entry.path().filename().string()), entry.path().string(), " belongs to no test");
  }
}

// Negative control: the comparison that guards the blessing sees a wrong rewrite.
TEST_CASE("a rewrite that is wrong only for some values is found by evaluating") {
  constexpr std::string_view before =
      "rtxir 1\nstage imported\nsymbol n 1..8\nfunc @main(%0 \"x\": tensor<[n, 4], f32>) {\n"
      "  %1 = constant() {value = dense<[], f32, [0]>} : tensor<[], f32>\n"
      "  %2 = OP(%0, %1) : tensor<[n, 4], f32>\n  yield(%2)\n} outputs \"y\"\n";
  auto with = [&](std::string_view op) {
    std::string text(before);
    text.replace(text.find("OP"), 2, op);
    return std::move(parse_module(text, "planted").value());
  };
  std::unique_ptr<Module> mul = with("mul"), add = with("add"), sub = with("sub");
  CHECK(!find_difference(*mul, *mul, 1));
  // x - 0 is x, but x + 0 is not: only -0 tells them apart.
  CHECK(find_difference(*sub, *add, 1));
  // x * 0 against 0 * 0: only nan, infinities and -0 tell them apart.
  std::unique_ptr<Module> zero = with("mul");
  Operation* product = zero->functions[0]->block.terminator()->operand(0)->def();
  product->set_operand(0, product->operand(1));
  product->result()->type.shape.clear();
  std::optional<std::string> difference = find_difference(*mul, *zero, 1);
  REQUIRE(difference);
  CHECK(difference->find("output \"y\"") != std::string::npos);
}

}  // namespace
}  // namespace rtx::testing
