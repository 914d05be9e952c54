// Runs the files of tests/golden/<pass>/*.rtxir: input, `# expect:`, output; and those of tests/golden/{text,ops},
// whose errors stand as `# error: MESSAGE [ID]` on the lines that cause them.

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>

#include "base/file.h"
#include "base/text.h"
#include "ir/text.h"
#include "passes/pipeline.h"
#include "tests/equivalence.h"

namespace rtx::testing {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view expect_line = "# expect:";

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

bool blessing() {
  const char* value = std::getenv("RTX_BLESS");
  return value && std::strcmp(value, "1") == 0;
}

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    size_t end = text.find('\n');
    lines.emplace_back(text.substr(0, end));
    text = end == std::string_view::npos ? std::string_view{} : text.substr(end + 1);
  }
  return lines;
}

// A line diff by longest common subsequence; the texts are short.
std::string diff(const std::string& expected, const std::string& got) {
  std::vector<std::string> a = lines_of(expected), b = lines_of(got);
  std::vector<std::vector<int>> longest(a.size() + 1, std::vector<int>(b.size() + 1, 0));
  for (size_t i = a.size(); i-- > 0;) {
    for (size_t j = b.size(); j-- > 0;) {
      longest[i][j] = a[i] == b[j] ? longest[i + 1][j + 1] + 1 : std::max(longest[i + 1][j], longest[i][j + 1]);
    }
  }
  std::string text;
  for (size_t i = 0, j = 0; i < a.size() || j < b.size();) {
    if (i < a.size() && j < b.size() && a[i] == b[j]) {
      text += concat("  ", a[i], "\n");
      ++i, ++j;
    } else if (j == b.size() || (i < a.size() && longest[i + 1][j] >= longest[i][j + 1])) {
      text += concat("- ", a[i++], "\n");
    } else {
      text += concat("+ ", b[j++], "\n");
    }
  }
  return text;
}

// The first line says why the case exists.
bool has_reason(const std::string& text) { return text.starts_with("# ") && text.find('\n') > 12; }

// "# half: bf16" and "# keep-fp32: GLOB" before the module are options of convert_precision.
PassContext context_of(std::string_view text) {
  PassContext context;
  for (const std::string& line : lines_of(text)) {
    if (line.starts_with("# half: ")) context.half = *parse_dtype(line.substr(8));
    if (line.starts_with("# keep-fp32: ")) context.keep_f32.push_back(line.substr(13));
  }
  return context;
}

void check_pass_file(const std::string& path, const std::string& pass, double tolerance) {
  std::string text = read(path);
  size_t split = text.find(expect_line);
  std::string input = text.substr(0, split);
  CHECK_MESSAGE(has_reason(text), path, ": the first line must say why the case exists");

  auto module = parse_module(input, path);
  REQUIRE_MESSAGE(module, to_string(module.error().first()));
  fill_weights(**module);
  std::unique_ptr<Module> before = (*module)->clone();
  Result<std::vector<std::string>> passes = parse_pass_list(pass);
  PipelineOptions options;
  options.round_trip = true;
  options.context = context_of(input);
  auto report = run_pipeline(**module, *passes, options);
  REQUIRE_MESSAGE(report, to_string(report.error().first()));

  std::string output = print(**module);
  std::string result =
      output == print(*before) ? concat(input, expect_line, " unchanged\n") : concat(input, expect_line, "\n", output);
  // Before blessing: what computes something else is never an expected output.
  const bool narrow = input.find("f16>") != std::string::npos;  // one rounding in place of several
  std::optional<std::string> difference =
      find_difference(*before, **module, 1, narrow && tolerance < 1e-3 ? 500 * tolerance : tolerance);
  REQUIRE_MESSAGE(!difference, path, ": the pass changes what is computed: ", difference.value_or(""));
  if (result == text) return;
  if (blessing()) {
    REQUIRE(write_file(path, result));
    return;
  }
  FAIL_CHECK(path, " differs:\n", diff(text, result), "to accept: RTX_BLESS=1 ctest --preset dev -L golden");
}

void check_pass_folder(const std::string& pass, double tolerance = 0) {
  std::vector<std::string> paths = files_in(golden_folder(pass));
  CHECK(!paths.empty());
  for (const std::string& path : paths) {
    CAPTURE(path);
    check_pass_file(path, pass, tolerance);
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
