#include "codegen/emit/kernel_writer.h"

#include <algorithm>
#include <cctype>
#include <sstream>

#include "base/text.h"
#include "codegen/emit/c_types.h"
#include "codegen/emit/prelude.h"
#include "ir/text.h"

namespace rtx::codegen {
namespace {

// A name, a literal, or one of them in parentheses.
bool is_atom(std::string_view text) {
  if (text.size() > 3 && text.starts_with("(-") && text.ends_with(")")) text = text.substr(2, text.size() - 3);
  for (char c : text) {
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_' && c != '.') return false;
  }
  return !text.empty();
}

std::string atom(const std::string& text) { return is_atom(text) ? text : rtx::concat("(", text, ")"); }

constexpr int64_t narrow_limit = (int64_t{1} << 31) - (int64_t{1} << 20);

bool count_fits(const Type& type, const SymbolRanges& symbols) {
  return type.element_count().upper_bound(symbols) < narrow_limit;
}

}  // namespace

std::string KernelWriter::dim_local(const Dim& value, bool wide) {
  if (value.is_constant()) {
    const bool long_literal = wide && (value.constant() > INT32_MAX || value.constant() < -INT32_MAX);
    const std::string text = long_literal ? rtx::concat(value.constant(), "LL") : rtx::concat(value.constant());
    return value.constant() < 0 ? rtx::concat("(", text, ")") : text;
  }
  auto found = std::find(scalars_.begin(), scalars_.end(), value);
  const size_t index = static_cast<size_t>(found - scalars_.begin());
  if (found == scalars_.end()) scalars_.push_back(value);
  dim_locals_.emplace(index, wide);
  return rtx::concat(wide ? "p" : "n", index);
}

std::string KernelWriter::dim(const Dim& value) { return dim_local(value, wide_); }

std::string KernelWriter::dim64(const Dim& value) { return dim_local(value, true); }

void KernelWriter::line(const std::string& text) {
  lines_.push_back(text.empty() ? text : std::string(static_cast<size_t>(depth_) * 2, ' ') + text);
}

void KernelWriter::lines(std::string_view text) {
  for (size_t end; (end = text.find('\n')) != std::string_view::npos; text.remove_prefix(end + 1)) {
    const std::string one(text.substr(0, end));
    one.starts_with('#') ? lines_.push_back(one) : line(one);
  }
}

void KernelWriter::open(std::string header) {
  line(std::move(header));
  ++depth_;
  scopes_.emplace_back();
}

void KernelWriter::between(std::string header) {
  --depth_;
  scopes_.pop_back();
  open(std::move(header));
}

void KernelWriter::close() {
  --depth_;
  scopes_.pop_back();
  line("}");
}

void KernelWriter::close_statement() {
  close();
  lines_.back() += ";";
}

std::string KernelWriter::temporary(std::string_view type, std::string_view stem, const std::string& expression) {
  if (is_atom(expression)) return expression;
  const std::string key = rtx::concat(type, " ", expression);
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    if (auto found = scope->find(key); found != scope->end()) return found->second;
  }
  std::string name = fresh(stem);
  line(rtx::concat("const ", type, " ", name, " = ", expression, ";"));
  scopes_.back().emplace(key, name);
  return name;
}

void KernelWriter::alias(std::string_view type, const std::string& expression, std::string name) {
  scopes_.back().emplace(rtx::concat(type, " ", expression), std::move(name));
}

std::string KernelWriter::fresh(std::string_view stem) {
  auto [entry, inserted] = next_.try_emplace(std::string(stem), 0);
  return rtx::concat(stem, entry->second++);
}

std::string KernelWriter::call(std::string_view prelude_function) {
  if (!prelude_.contains(prelude_function)) {
    for (const PreludeFunction& function : prelude_functions()) {
      if (function.name != prelude_function) continue;
      prelude_.emplace(prelude_function);
      std::istringstream uses{std::string(function.uses)};
      for (std::string name; uses >> name;) call(name);
    }
  }
  assert(prelude_.contains(prelude_function));
  return std::string(prelude_function);
}

void KernelWriter::declare(std::string text) {
  if (std::find(declarations_.begin(), declarations_.end(), text) == declarations_.end()) {
    declarations_.push_back(std::move(text));
  }
}

std::string KernelWriter::add(const std::string& a, const std::string& b) {
  if (a == "0") return b;
  if (b == "0") return a;
  return rtx::concat(a, " + ", b);
}

std::string KernelWriter::multiply(const std::string& a, const std::string& b) {
  if (a == "0" || b == "0") return "0";
  if (a == "1") return b;
  if (b == "1") return a;
  return rtx::concat(atom(a), " * ", atom(b));
}

std::string KernelWriter::divide(const std::string& a, const std::string& b) {
  if (a == "0" || b == "1") return a;
  return rtx::concat(atom(a), " / ", atom(b));
}

std::string KernelWriter::remainder(const std::string& a, const std::string& b) {
  if (a == "0" || b == "1") return "0";
  return rtx::concat(atom(a), " % ", atom(b));
}

std::string KernelWriter::finish(const std::string& function, const Block& body,
                                 const std::array<int, 3>& block) const {
  std::string text;
  std::istringstream body_lines(print_body(body));
  for (std::string body_line; std::getline(body_lines, body_line);) text += rtx::concat("// ", body_line, "\n");
  text += "\n";
  for (const PreludeFunction& prelude : prelude_functions()) {
    if (prelude_.contains(prelude.name)) text += rtx::concat(prelude.text, "\n");
  }
  for (const std::string& declaration : declarations_) text += declaration + "\n";
  if (!declarations_.empty() || !prelude_.empty()) text += "\n";

  std::vector<std::string> parameters;
  for (size_t i = 0; i < body.argument_count(); ++i) {
    parameters.push_back(rtx::concat("const ", memory_type(body.argument(i)->type.dtype), "* __restrict__ a", i));
  }
  const auto& results = body.terminator()->operands();
  for (size_t i = 0; i < results.size(); ++i) {
    parameters.push_back(rtx::concat(memory_type(results[i]->type.dtype), "* __restrict__ r", i));
  }
  if (has_workspace_) parameters.push_back("unsigned char* __restrict__ workspace");
  if (has_counters_) parameters.push_back("unsigned int* __restrict__ counters");
  for (size_t i = 0; i < scalars_.size(); ++i) parameters.push_back(rtx::concat("long long p", i));
  text += rtx::concat("extern \"C\" __global__ void __launch_bounds__(", block[0] * block[1] * block[2],
                      blocks_per_sm_ ? rtx::concat(", ", blocks_per_sm_) : std::string(), ") ", function, "(\n    ",
                      join(parameters, ",\n    "), ") {\n");
  for (size_t i = 0; i < scalars_.size(); ++i) {
    const bool narrow = dim_locals_.contains({i, false});
    text += narrow ? rtx::concat("  const int n", i, " = (int)p", i, ";  // ", scalars_[i].str(), "\n")
                   : rtx::concat("  // p", i, ": ", scalars_[i].str(), "\n");
  }
  for (const std::string& body_line : lines_) text += body_line + "\n";
  text += "}\n";
  return text;
}

bool fits_narrow_index(const Block& body, const SymbolRanges& symbols) {
  for (size_t i = 0; i < body.argument_count(); ++i) {
    if (!count_fits(body.argument(i)->type, symbols)) return false;
  }
  for (const auto& operation : body.operations()) {
    for (const Type& type : operation->result_types()) {
      if (!count_fits(type, symbols)) return false;
    }
  }
  return true;
}

}  // namespace rtx::codegen
