#include "base/diagnostic.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "base/result.h"
#include "base/text.h"
#include "base/utf8.h"

namespace rtx {
namespace {

Result<int> half(int value) {
  if (value % 2 != 0) return make_error(ErrorKind::invalid, "E999", concat(value, " is odd"));
  return value / 2;
}

Result<int> quarter(int value) {
  RTX_ASSIGN(const int first, half(value));
  RTX_ASSIGN(const int second, half(first));
  return second;
}

TEST_CASE("a diagnostic prints place, message, id and its fields in a fixed form") {
  Diagnostic diagnostic = make_error(ErrorKind::invalid, "matmul_c1", "inner dimensions differ");
  diagnostic.with_where("model.onnx: node 'layer.3/attn/MatMul_12' (MatMul-13)")
      .with_expected("lhs.shape[-1] == rhs.shape[-2]")
      .with_got("lhs f16[8,128,768], rhs f16[8,512,768]")
      .with_note("rhs comes from node 'Reshape_9'")
      .with_note("two\nlines")
      .with_help("the exporter may have dropped a Transpose");
  CHECK(to_string(diagnostic) ==
        "model.onnx: node 'layer.3/attn/MatMul_12' (MatMul-13): error: inner dimensions differ [matmul_c1]\n"
        "  expected: lhs.shape[-1] == rhs.shape[-2]\n"
        "       got: lhs f16[8,128,768], rhs f16[8,512,768]\n"
        "      note: rhs comes from node 'Reshape_9'\n"
        "      note: two\n"
        "            lines\n"
        "      help: the exporter may have dropped a Transpose\n");
  CHECK(to_string(make_error(ErrorKind::io, "E901", "cannot open")) == "error: cannot open [RTX-E901]\n");
}

TEST_CASE("the JSON form is one line of valid JSON whatever the text holds") {
  Diagnostic diagnostic = make_error(ErrorKind::limit, "E501", "a\"b\\c\n\x01\xff\xc3\xa9");
  diagnostic.with_note("n1").with_note("n2");
  const std::string text = to_json(diagnostic);
  CHECK(text.find('\n') == std::string::npos);
  const auto json = nlohmann::json::parse(text);
  CHECK(json["id"] == "RTX-E501");
  CHECK(json["kind"] == "limit");
  CHECK(json["severity"] == "error");
  CHECK(json["message"] == "a\"b\\c\n\x01\xef\xbf\xbd\xc3\xa9");
  CHECK(json["notes"].size() == 2);
}

TEST_CASE("untrusted text is escaped for a terminal and cut") {
  CHECK(escape_text("plain/name.0 \xc3\xa9") == "plain/name.0 \xc3\xa9");
  CHECK(escape_text(std::string_view("\0\x1b[31m\n\t'\"\\", 11)) == "\\x00\\x1b[31m\\n\\t\\'\\\"\\\\");
  CHECK(escape_text("\xff\xc3") == "\\xff\\xc3");
  CHECK(escape_text("\xe2\x80\xae"
                    "abc") == "\\u{202e}abc");  // right-to-left override
  CHECK(escape_text("\xc2\x9b") == "\\u{9b}");  // C1 control sequence introducer
  CHECK(escape_text(std::string(300, 'a')) == std::string(200, 'a') + "...");
  CHECK(escape_text("abc\n", 4) == "abc...");  // never cut inside an escape
  CHECK(quote_text("it's") == "'it\\'s'");
}

TEST_CASE("UTF-8 is decoded strictly") {
  CHECK(is_utf8("a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"));
  for (const char* bad : {"\x80", "\xc0\xaf", "\xc1\xbf", "\xe0\x80\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80",
                          "\xf5\x80\x80\x80", "\xe2\x82", "\xf0\x9f\x98"}) {
    CAPTURE(escape_text(bad));
    CHECK(!is_utf8(bad));
  }
  CHECK(decode_utf8("\xe2\x82\xac", 0)->code_point == 0x20AC);
}

TEST_CASE("results carry values or errors through RTX_ASSIGN, and layers add their place") {
  CHECK(*quarter(12) == 3);
  auto failed = quarter(6);
  REQUIRE(!failed.ok());
  CHECK(failed.error().first().message == "3 is odd");
  const Error outer = std::move(failed).error().within("step 2").within("run");
  CHECK(outer.first().where == "run: step 2");
}

}  // namespace
}  // namespace rtx
