// rtx-compile --report: one page, well formed, without anything from elsewhere, the same bytes every time.

#include <doctest/doctest.h>

#include <set>

#include "base/file.h"
#include "base/text.h"
#include "tests/command.h"
#include "tests/temp_folder.h"

namespace rtx {
namespace {

bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

std::string report_of(const std::string& model, std::vector<std::string> options = {}) {
  const TempFolder folder;
  options.insert(options.begin(), {RTX_COMPILE, model, "-o", folder / "p", "--report", folder / "report.html"});
  const CommandResult result = run_command(options);
  REQUIRE_MESSAGE(result.exit_code == 0, result.err);
  return read_text_file(folder / "report.html", 1 << 24).value();
}

std::string fixture(std::string_view name) { return concat(RTX_TEST_DIR, "/fixtures/models/", name, "/model.onnx"); }

// "" where every element is closed in order and every '<', '>' and '&' of the text is escaped; else what is wrong.
std::string fault_of(std::string_view page) {
  std::vector<std::string> open;
  for (size_t i = 0; i < page.size();) {
    if (page[i] == '>') return concat("a bare '>' at ", i);
    if (page[i] == '&') {
      bool known = false;
      for (std::string_view entity : {"&amp;", "&lt;", "&gt;", "&quot;", "&#39;", "&#183;"})
        known = known || page.substr(i).starts_with(entity);
      if (!known) return concat("a bare '&' at ", i);
    }
    if (page[i] != '<') {
      ++i;
      continue;
    }
    const size_t end = page.find('>', i);
    if (end == std::string_view::npos) return "a tag without end";
    const std::string_view tag = page.substr(i + 1, end - i - 1);
    i = end + 1;
    if (tag.starts_with('!') || tag.ends_with('/')) continue;
    if (tag.starts_with('/')) {
      if (open.empty() || open.back() != tag.substr(1)) return concat("</", tag.substr(1), "> closes nothing");
      open.pop_back();
      continue;
    }
    open.emplace_back(tag.substr(0, tag.find(' ')));
    if (open.back() == "style") i = page.find("</style>", i);
  }
  return open.empty() ? "" : concat("<", open.back(), "> is not closed");
}

// The values of an attribute in the page.
std::set<std::string> values_of(std::string_view page, std::string_view attribute) {
  std::set<std::string> values;
  const std::string start = concat(" ", attribute, "=\"");
  for (size_t at = page.find(start); at != std::string_view::npos; at = page.find(start, at + 1))
    values.insert(std::string(page.substr(at + start.size(), page.find('"', at + start.size()) - at - start.size())));
  return values;
}

TEST_CASE("the report is one well-formed page with the same bytes every time") {
  for (const char* name : {"bert.dyn20", "llama_step.ts17"}) {
    CAPTURE(name);
    const std::string page = report_of(fixture(name));
    CHECK(page == report_of(fixture(name)));
    CHECK(fault_of(page) == "");
    for (const char* part : {"http", "<script", "url(", "@import", " src=", "<link", "<iframe"})
      CHECK_MESSAGE(!contains(page, part), part);
    for (const char* part : {"<h2>One layer, before and after</h2>", "<h2>Kernels</h2>", "<h2>Roofline</h2>",
                             "<h2>Arena over time</h2>", "<h2>Steps, and why</h2>", "a layer that is repeated 2 times",
                             "prefers-color-scheme: dark", "@media print", "lower bound"})
      CHECK_MESSAGE(contains(page, part), part);
    const std::set<std::string> ids = values_of(page, "id");
    const std::set<std::string> links = values_of(page, "href");
    CHECK(links.size() > 5);
    for (const std::string& link : links) CHECK_MESSAGE(ids.count(link.substr(1)) == 1, link);
  }
}

TEST_CASE("names in the report are text, whatever they hold") {
  const TempFolder folder;
  REQUIRE(write_file(folder / "m.rtxir",
                     "rtxir 1\nstage imported\nsymbol n 1..64\n"
                     "func @main(%0 \"<script>a</script>\": tensor<[n, 8], f32>) {\n"
                     "  %1 = exp(%0) : tensor<[n, 8], f32> from \"node '</details><script>b' & \\\"x\\\"\\x07\"\n"
                     "  %2 = softmax(%1) {axis = 1} : tensor<[n, 8], f32> from \"--> ]]>\"\n"
                     "  yield(%2)\n} outputs \"<b>\"\n"));
  const std::string page = report_of(folder / "m.rtxir");
  CHECK(fault_of(page) == "");
  CHECK(!contains(page, "<script"));
  CHECK(contains(page, "&lt;/details&gt;&lt;script&gt;b&#39; &amp; &quot;x&quot;\\x07"));
}

TEST_CASE("programs of one package have ids of their own") {
  const TempFolder folder;
  const auto function = [](std::string_view name, std::string_view op, std::string_view value) {
    return concat("func @", name, "(%0 \"x\": tensor<[n, 8], f32>, %1 \"c\": tensor<[], bool>) {\n  %2 = ", op,
                  "(%0) : tensor<[n, 8], f32> from \"node '", op, "'\"\n  yield(%2)\n} outputs \"y\" when \"c\" ",
                  value, "\n");
  };
  REQUIRE(write_file(folder / "m.rtxir", concat("rtxir 1\nstage imported\nsymbol n 1..64\n",
                                                function("a", "exp", "true"), function("b", "neg", "false"))));
  const std::string page = report_of(folder / "m.rtxir");
  CHECK(fault_of(page) == "");
  CHECK(values_of(page, "id") == std::set<std::string>{"step-0", "program-1-step-0"});
  CHECK(contains(page, "href=\"#step-0\""));
  CHECK(contains(page, "href=\"#program-1-step-0\""));
}

TEST_CASE("a report that cannot be written is an error, and the package stands") {
  const TempFolder folder;
  const CommandResult result =
      run_command({RTX_COMPILE, fixture("bert.dyn20"), "-o", folder / "p", "--report", folder / "absent/report.html"});
  CHECK(result.exit_code == 9);
}

}  // namespace
}  // namespace rtx
