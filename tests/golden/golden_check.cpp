#include "tests/golden/golden_check.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "base/file.h"
#include "base/text.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "tests/equivalence.h"

namespace rtx::testing {

namespace {

constexpr std::string_view expect_line = "# expect:";

PassContext context_of(std::string_view text) {
  PassContext context;
  for (const std::string& line : lines_of(text)) {
    if (line.starts_with("# half: ")) context.half = *parse_dtype(line.substr(8));
    if (line.starts_with("# keep-fp32: ")) context.keep_f32.push_back(line.substr(13));
  }
  return context;
}

}  // namespace

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    size_t end = text.find('\n');
    lines.emplace_back(text.substr(0, end));
    text = end == std::string_view::npos ? std::string_view{} : text.substr(end + 1);
  }
  return lines;
}

// By longest common subsequence; the texts are short.
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

bool has_reason(const std::string& text) { return text.starts_with("# ") && text.find('\n') > 12; }

bool blessing() {
  const char* value = std::getenv("RTX_BLESS");
  return value && std::strcmp(value, "1") == 0;
}

RunPasses run_passes(std::string pass_list) {
  return [pass_list = std::move(pass_list)](Module& module, const PassContext& context) -> Result<void> {
    RTX_ASSIGN(const std::vector<std::string> names, parse_pass_list(pass_list));
    PipelineOptions options;
    options.round_trip = true;
    options.context = context;
    RTX_ASSIGN(const PipelineReport report, run_pipeline(module, names, options));
    (void)report;
    return Ok{};
  };
}

std::optional<std::string> check_pass_file(const std::string& path, const RunPasses& run, double tolerance,
                                           bool bless) {
  const Result<std::string> text = read_text_file(path, int64_t{1} << 24);
  if (!text) return to_string(text.error().first());
  if (!has_reason(*text)) return concat(path, ": the first line must say why the case exists");
  const std::string input = text->substr(0, text->find(expect_line));
  auto module = parse_module(input, path);
  if (!module) return to_string(module.error().first());
  fill_weights(**module);
  const std::unique_ptr<Module> before = (*module)->clone();
  if (Result<void> ran = run(**module, context_of(input)); !ran) return to_string(ran.error().first());
  if (Result<void> verified = verify(**module); !verified)
    return concat(path, ": the verifier refuses the output: ", to_string(verified.error().first()));

  // Before blessing: what computes something else is never an expected output.
  const bool narrow = input.find("f16>") != std::string::npos;  // one rounding in place of several
  if (const auto difference =
          find_difference(*before, **module, 1, narrow && tolerance < 1e-3 ? 500 * tolerance : tolerance)) {
    return concat(path, ": the pass changes what is computed: ", *difference);
  }
  const std::string output = print(**module);
  const std::string result =
      output == print(*before) ? concat(input, expect_line, " unchanged\n") : concat(input, expect_line, "\n", output);
  if (result == *text) return std::nullopt;
  if (!bless) {
    return concat(path, " differs:\n", diff(*text, result), "to accept: RTX_BLESS=1 ctest --preset dev -L golden");
  }
  if (Result<void> written = write_file(path, result); !written) return to_string(written.error().first());
  return std::nullopt;
}

}  // namespace rtx::testing
