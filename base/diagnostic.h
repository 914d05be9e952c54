// Diagnostics: what every tool of rtx says when something is wrong.
//
// A diagnostic has a stable id ("E203"), a kind that fixes the exit code, the place in the input, what is wrong, what
// was expected and found, and what to do. docs/errors.md lists the ids.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace rtx {

// The value is the exit code of the process.
enum class ErrorKind : uint8_t {
  usage = 2,          // wrong command line
  invalid = 3,        // the input breaks its own format or specification
  unsupported = 4,    // the input is legal, rtx does not do it
  limit = 5,          // a limit (flag) was reached
  integrity = 6,      // a package or weights file does not match its hashes or version
  device = 7,         // no device, driver trouble, wrong architecture
  out_of_memory = 8,  // host or device
  io = 9,             // the operating system refused a file operation
  mismatch = 10,      // outputs differ from the expected ones
  internal = 70,      // a bug in rtx
};

enum class Severity : uint8_t { error, warning, note };

struct Diagnostic {
  Severity severity = Severity::error;
  ErrorKind kind = ErrorKind::internal;
  std::string id;       // "E203"; printed as RTX-E203
  std::string where;    // "model.onnx: node 'x' (MatMul-13)" or "m.rtxir:3:7"; may be empty
  std::string message;  // lower case, no full stop
  std::string expected;
  std::string got;
  std::vector<std::string> notes;
  std::string help;

  Diagnostic& with_where(std::string text) {
    where = std::move(text);
    return *this;
  }
  Diagnostic& with_expected(std::string text) {
    expected = std::move(text);
    return *this;
  }
  Diagnostic& with_got(std::string text) {
    got = std::move(text);
    return *this;
  }
  Diagnostic& with_note(std::string text) {
    notes.push_back(std::move(text));
    return *this;
  }
  Diagnostic& with_help(std::string text) {
    help = std::move(text);
    return *this;
  }
};

// An error diagnostic of the given kind: make_error(ErrorKind::invalid, "E203", "value 'x' is not defined").
Diagnostic make_error(ErrorKind kind, std::string_view id, std::string message);

// Text from an untrusted file, safe for a terminal: control bytes, quotes and invalid UTF-8 are escaped and the result
// is cut after `max_bytes` with "...".
std::string escape_text(std::string_view text, size_t max_bytes = 200);
// escape_text() in single quotes, as names stand in messages.
std::string quote_text(std::string_view text, size_t max_bytes = 200);

// The human form, several lines, ending in a newline:
//   WHERE: error: MESSAGE [RTX-E203]
//     expected: ...
//          got: ...
//         note: ...
//         help: ...
std::string to_string(const Diagnostic& diagnostic);

// One JSON object on one line, without the newline.
std::string to_json(const Diagnostic& diagnostic);

}  // namespace rtx
