#include "codegen/tuning_table.h"

#include <algorithm>
#include <charconv>

#include "base/sha256.h"
#include "base/text.h"
#include "codegen/arch.h"
#include "codegen/plan_gemm.h"
#include "codegen/representative_values.h"
#include "runtime/package/yaml.h"

namespace rtx::codegen {
namespace {

using package::YamlNode;

class TableReader {
 public:
  explicit TableReader(std::string_view file) : file_(file) {}

  Result<std::vector<TuningEntry>> read(const YamlNode& root) const {
    RTX_TRY(check_keys(root, {"rtx_tuning", "products"}));
    if (root.children[0].text != "1") return error(root.children[0], "'rtx_tuning' is not 1, the version that is read");
    const YamlNode& products = root.children[1];
    if (products.kind != YamlNode::Kind::sequence) return error(products, "'products' is not a list");
    std::vector<TuningEntry> entries;
    for (const YamlNode& node : products.children) {
      RTX_ASSIGN(TuningEntry entry, read_entry(node));
      entries.push_back(std::move(entry));
    }
    return entries;
  }

 private:
  Diagnostic error(const YamlNode& node, std::string message) const {
    return make_error(ErrorKind::invalid, "E443", std::move(message))
        .with_where(concat(file_, ":", node.line, ":", node.column))
        .with_help("docs/tuning_table.md describes the file");
  }

  Result<void> check_keys(const YamlNode& node, const std::vector<std::string_view>& keys) const {
    const auto has_key = [](const YamlNode& child, std::string_view key) { return child.key == key; };
    if (node.kind != YamlNode::Kind::mapping || node.children.size() != keys.size() ||
        !std::equal(node.children.begin(), node.children.end(), keys.begin(), has_key))
      return error(node, concat("expected the keys ", join(keys, ", ", [](std::string_view key) { return key; }),
                                " in this order"));
    return Ok{};
  }

  Result<TuningEntry> read_entry(const YamlNode& node) const {
    RTX_TRY(check_keys(node, {"arch", "dtype", "batch", "m", "n", "k", "plan"}));
    TuningEntry entry;
    entry.place = concat(file_, ":", node.line);
    entry.arch = node.children[0].text;
    if (Result<Arch> arch = find_arch(entry.arch); !arch) return std::move(arch).error().within(entry.place);
    const std::optional<DType> dtype = parse_dtype(node.children[1].text);
    if (!dtype || own_product_plans(*dtype).empty())
      return error(node.children[1], concat("no products of ", quote_text(node.children[1].text, 40), " are planned"));
    entry.dtype = *dtype;
    Dim* const sizes[] = {&entry.batch, &entry.m, &entry.n, &entry.k};
    for (size_t i = 0; i < 4; ++i) {
      const YamlNode& size = node.children[2 + i];
      Result<Dim> dim = size.kind == YamlNode::Kind::scalar ? parse_dim(size.text) : Dim();
      if (!dim || size.kind != YamlNode::Kind::scalar || dim->overflowed())
        return error(size, concat("'", size.key, "' is not a size, a number or a formula in quotes"));
      *sizes[i] = *dim;
    }
    entry.plan = node.children[6].text;
    std::vector<std::string> known = own_product_plans(*dtype);
    known.insert(known.begin(), "cublaslt");
    if (std::find(known.begin(), known.end(), entry.plan) == known.end())
      return error(node.children[6], concat("no planner makes the plan ", quote_text(entry.plan, 40),
                                            " for products of ", to_string(*dtype)))
          .with_expected(join(known, ", "));
    return entry;
  }

  std::string_view file_;
};

// A number in the table also stands for the size that is planned for.
bool is_size(const Dim& wanted, const Dim& size, const SymbolValues& planned) {
  if (wanted == size) return true;
  if (!wanted.is_constant()) return false;
  const Result<int64_t> value = size.evaluate(planned);
  return value && *value == wanted.constant();
}

}  // namespace

Result<TuningTable> TuningTable::parse(std::string_view text, std::string_view file) {
  Result<YamlNode> root = package::parse_yaml(text);
  if (!root) {
    const Diagnostic& first = root.error().first();
    return make_error(ErrorKind::invalid, "E443", "the tuning table is not in the YAML of docs/tuning_table.md")
        .with_where(concat(file, first.where.empty() ? "" : ":", first.where))
        .with_got(first.message);
  }
  TuningTable table;
  RTX_ASSIGN(table.entries_, TableReader(file).read(*root));
  table.used_.resize(table.entries_.size());
  table.sha256_ = sha256_hex(text);
  return table;
}

Result<const TuningEntry*> TuningTable::find(const Product& product, const SymbolRanges& symbols) {
  const SymbolValues planned = representative_values(symbols);
  const TuningEntry* found = nullptr;
  for (size_t i = 0; i < entries_.size(); ++i) {
    const TuningEntry& entry = entries_[i];
    if (entry.dtype != product.dtype || !is_size(entry.batch, product.batch, planned) ||
        !is_size(entry.m, product.m, planned) || !is_size(entry.n, product.n, planned) ||
        !is_size(entry.k, product.k, planned))
      continue;
    used_[i] = true;
    if (found && found->plan != entry.plan) {
      return make_error(ErrorKind::invalid, "E444",
                        concat("two entries of the tuning table want different plans for one product, ",
                               product.m.str(), " x ", product.n.str(), " x ", product.k.str()))
          .with_expected(concat("one plan: it serves all architectures of the package"))
          .with_got(concat(found->plan, " at ", found->place, " and ", entry.plan, " at ", entry.place));
    }
    if (!found) found = &entry;
  }
  return found;
}

void TuningTable::restrict_to(const std::vector<std::string>& archs) {
  std::erase_if(entries_, [&](const TuningEntry& entry) {
    return std::find(archs.begin(), archs.end(), entry.arch) == archs.end();
  });
  used_.assign(entries_.size(), false);
}

std::vector<Diagnostic> TuningTable::unused() const {
  std::vector<Diagnostic> warnings;
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (used_[i]) continue;
    const TuningEntry& entry = entries_[i];
    Diagnostic warning =
        make_error(ErrorKind::invalid, "W443",
                   concat("the model has no product of ", to_string(entry.dtype), ", batch ", entry.batch.str(), ", m ",
                          entry.m.str(), ", n ", entry.n.str(), ", k ", entry.k.str()))
            .with_where(entry.place);
    warning.severity = Severity::warning;
    warnings.push_back(std::move(warning));
  }
  return warnings;
}

}  // namespace rtx::codegen
