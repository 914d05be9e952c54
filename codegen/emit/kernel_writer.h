// The text of one CUDA kernel while it is being written: scopes, temporaries, dims as parameters, prelude functions.
#pragma once

#include <array>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "ir/dim.h"
#include "ir/module.h"

namespace rtx::codegen {

class KernelWriter {
 public:
  // `wide`: indices are 64-bit; otherwise the caller has proved that every index fits an int. `symbols` must outlive
  // the writer.
  KernelWriter(bool wide, const SymbolRanges& symbols) : wide_(wide), symbols_(symbols) { scopes_.emplace_back(); }

  const SymbolRanges& symbols() const { return symbols_; }

  std::string_view index_type() const { return wide_ ? "long long" : "int"; }
  bool wide() const { return wide_; }
  // A dim as a C expression of index type: a literal, or the local that holds the parameter.
  std::string dim(const Dim& value);
  // The same as a long long that is never narrowed: for dims that are data.
  std::string dim64(const Dim& value);

  void line(const std::string& text);
  // Several, each ended by a newline; those that start with '#' are not indented.
  void lines(std::string_view text);
  // "if (...) {", "} else {", "}": every temporary belongs to the scope it is made in.
  void open(std::string header);
  void between(std::string header);
  void close();
  void close_statement();  // "};", after a lambda
  // The name of a constant local with this value. The same expression, asked for again in this or an inner scope, gives
  // the same name; an expression that is a name or a literal already is returned as it is.
  std::string temporary(std::string_view type, std::string_view stem, const std::string& expression);
  // From now on in this scope, temporary() of this expression is `name`, which stands for the same value.
  void alias(std::string_view type, const std::string& expression, std::string name);
  // A name not used before.
  std::string fresh(std::string_view stem);
  // Marks a prelude function as used and returns its name.
  std::string call(std::string_view prelude_function);
  // Puts a declaration (a vector type, a function that uses the prelude) before the kernel, once.
  void declare(std::string text);

  // The compiler is to use so many registers that this many blocks fit on a multiprocessor, and no fewer.
  void set_blocks_per_sm(int blocks) { blocks_per_sm_ = blocks; }

  const std::vector<Dim>& scalars() const { return scalars_; }

  // Integer arithmetic on C expressions, with zeros and ones left out. Operands that are not names or literals are
  // put in parentheses where needed.
  static std::string add(const std::string& a, const std::string& b);
  static std::string multiply(const std::string& a, const std::string& b);
  static std::string divide(const std::string& a, const std::string& b);
  static std::string remainder(const std::string& a, const std::string& b);

  // From now on the kernel has a parameter `workspace` (unsigned char*) or `counters` (unsigned int*).
  void add_workspace() { has_workspace_ = true; }
  void add_counters() { has_counters_ = true; }

  // The whole text: the body as a comment, prelude, declarations, then `extern "C"` kernel `function` with parameters
  // a0.. (of `operands`), r0.. (of `results`), workspace and counters where there are any, p0.. .
  std::string finish(const std::string& function, const Block& body, const std::array<int, 3>& block) const;

 private:
  std::string dim_local(const Dim& value, bool wide);

  bool wide_;
  const SymbolRanges& symbols_;
  int depth_ = 1;
  int blocks_per_sm_ = 0;  // 0: as the compiler sees fit
  std::vector<std::string> lines_;
  std::vector<std::map<std::string, std::string>> scopes_;  // expression -> name
  std::map<std::string, int, std::less<>> next_;            // stem -> number
  std::vector<Dim> scalars_;
  std::set<std::pair<size_t, bool>> dim_locals_;  // (scalar, is 64-bit)
  std::set<std::string, std::less<>> prelude_;
  std::vector<std::string> declarations_;
  bool has_workspace_ = false, has_counters_ = false;
};

// True if every index into any value of the block, and a rounded-up thread count, provably fits 31 bits.
bool fits_narrow_index(const Block& body, const SymbolRanges& symbols);

}  // namespace rtx::codegen
