// A tuning table: which plan to take for a product, measured elsewhere; an input of the build. docs/tuning_table.md
// specifies the file.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "codegen/product.h"

namespace rtx::codegen {

struct TuningEntry {
  std::string arch;  // "sm_90a"
  DType dtype = DType::f32;
  Dim batch, m, n, k;
  std::string plan;   // "cublaslt" or one of own_product_plans()
  std::string place;  // "FILE:LINE"
};

class TuningTable {
 public:
  // Of the text of a file named `file`. Errors: E443, with line and column; E411 for an architecture.
  static Result<TuningTable> parse(std::string_view text, std::string_view file);

  // The entry for a product in a package for these architectures, null if there is none. A size that is a number in
  // the table stands for a dim of this size, or planned for it. E444 if two entries want different plans. Notes that
  // the entry was found.
  Result<const TuningEntry*> find(const Product& product, const SymbolRanges& symbols);

  // Entries for other architectures are left out from now on.
  void restrict_to(const std::vector<std::string>& archs);
  // One warning (W443) for each entry that no product was found for.
  std::vector<Diagnostic> unused() const;

  const std::vector<TuningEntry>& entries() const { return entries_; }
  // Of the text, in hex.
  const std::string& sha256() const { return sha256_; }

 private:
  std::vector<TuningEntry> entries_;
  std::vector<bool> used_;
  std::string sha256_;
};

}  // namespace rtx::codegen
