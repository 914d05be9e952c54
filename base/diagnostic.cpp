#include "base/diagnostic.h"

#include <cstdio>

#include "base/result.h"
#include "base/utf8.h"

namespace rtx {
namespace {

std::string_view kind_name(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::usage:
      return "usage";
    case ErrorKind::invalid:
      return "invalid";
    case ErrorKind::unsupported:
      return "unsupported";
    case ErrorKind::limit:
      return "limit";
    case ErrorKind::integrity:
      return "integrity";
    case ErrorKind::device:
      return "device";
    case ErrorKind::out_of_memory:
      return "out_of_memory";
    case ErrorKind::io:
      return "io";
    case ErrorKind::mismatch:
      return "mismatch";
    case ErrorKind::internal:
      return "internal";
  }
  return "internal";
}

std::string_view severity_name(Severity severity) {
  switch (severity) {
    case Severity::error:
      return "error";
    case Severity::warning:
      return "warning";
    case Severity::note:
      return "note";
  }
  return "error";
}

// "E203" is printed as RTX-E203; the numbered rule of an op, "matmul_c1", as it is.
std::string printed_id(const std::string& id) {
  const bool numbered = id.size() > 1 && id[0] >= 'A' && id[0] <= 'Z';
  return numbered ? "RTX-" + id : id;
}

// Characters that a terminal or a reader would not see as they are: control codes, invisible and bidirectional marks.
bool is_unsafe(char32_t c) {
  return c < 0x20 || (c >= 0x7F && c <= 0x9F) || (c >= 0x200B && c <= 0x200F) || (c >= 0x2028 && c <= 0x202E) ||
         (c >= 0x2060 && c <= 0x206F) || c == 0xFEFF || (c >= 0xE0000 && c <= 0xE007F);
}

void append_hex(std::string& out, const char* format, unsigned value) {
  char buffer[16];
  std::snprintf(buffer, sizeof buffer, format, value);
  out += buffer;
}

std::string json_string(std::string_view text) {
  std::string out = "\"";
  for (size_t i = 0; i < text.size();) {
    const auto character = decode_utf8(text, i);
    if (!character) {
      out += "\\ufffd";
      ++i;
      continue;
    }
    const char32_t c = character->code_point;
    if (c == '"' || c == '\\') {
      out += '\\';
      out += static_cast<char>(c);
    } else if (c == '\n') {
      out += "\\n";
    } else if (c < 0x20 || c == 0x7F) {
      append_hex(out, "\\u%04x", c);
    } else {
      out += text.substr(i, character->bytes);
    }
    i += character->bytes;
  }
  return out + "\"";
}

// A line of the human form; further lines of `text` stand under its first.
void append_field(std::string& out, std::string_view label, std::string_view text) {
  out += label;
  for (char c : text) {
    out += c;
    if (c == '\n') out.append(label.size(), ' ');
  }
  out += '\n';
}

}  // namespace

Diagnostic make_error(ErrorKind kind, std::string_view id, std::string message) {
  Diagnostic diagnostic;
  diagnostic.kind = kind;
  diagnostic.id = id;
  diagnostic.message = std::move(message);
  return diagnostic;
}

Error Error::within(std::string_view place) && {
  for (Diagnostic& diagnostic : diagnostics) {
    std::string where(place);
    if (!diagnostic.where.empty()) where += ": " + diagnostic.where;
    diagnostic.where = std::move(where);
  }
  return std::move(*this);
}

std::string escape_text(std::string_view text, size_t max_bytes) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    std::string piece;
    size_t consumed = 1;
    if (const auto character = decode_utf8(text, i); !character) {
      append_hex(piece, "\\x%02x", static_cast<unsigned char>(text[i]));
    } else {
      consumed = character->bytes;
      const char32_t c = character->code_point;
      if (c == '\'' || c == '"' || c == '\\') {
        piece = {'\\', static_cast<char>(c)};
      } else if (c == '\n') {
        piece = "\\n";
      } else if (c == '\t') {
        piece = "\\t";
      } else if (is_unsafe(c)) {
        append_hex(piece, c < 0x80 ? "\\x%02x" : "\\u{%x}", c);
      } else {
        piece = text.substr(i, consumed);
      }
    }
    if (out.size() + piece.size() > max_bytes) return out + "...";
    out += piece;
    i += consumed;
  }
  return out;
}

std::string quote_text(std::string_view text, size_t max_bytes) { return "'" + escape_text(text, max_bytes) + "'"; }

std::string to_string(const Diagnostic& diagnostic) {
  std::string out;
  if (!diagnostic.where.empty()) out += diagnostic.where + ": ";
  out += severity_name(diagnostic.severity);
  out += ": " + diagnostic.message;
  if (!diagnostic.id.empty()) out += " [" + printed_id(diagnostic.id) + "]";
  out += '\n';
  if (!diagnostic.expected.empty()) append_field(out, "  expected: ", diagnostic.expected);
  if (!diagnostic.got.empty()) append_field(out, "       got: ", diagnostic.got);
  for (const std::string& note : diagnostic.notes) append_field(out, "      note: ", note);
  if (!diagnostic.help.empty()) append_field(out, "      help: ", diagnostic.help);
  return out;
}

std::string to_json(const Diagnostic& diagnostic) {
  std::string out = "{\"severity\":" + json_string(severity_name(diagnostic.severity));
  out += ",\"kind\":" + json_string(kind_name(diagnostic.kind));
  out += ",\"id\":" + json_string(printed_id(diagnostic.id));
  out += ",\"where\":" + json_string(diagnostic.where);
  out += ",\"message\":" + json_string(diagnostic.message);
  out += ",\"expected\":" + json_string(diagnostic.expected);
  out += ",\"got\":" + json_string(diagnostic.got);
  out += ",\"notes\":[";
  for (size_t i = 0; i < diagnostic.notes.size(); ++i) {
    if (i > 0) out += ',';
    out += json_string(diagnostic.notes[i]);
  }
  return out + "],\"help\":" + json_string(diagnostic.help) + "}";
}

}  // namespace rtx
