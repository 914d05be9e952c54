// The tree of a manifest's YAML, decoded into the Manifest. Strict: what is unknown, missing, of another type or out of
// range is refused with its place.
#include <algorithm>
#include <cmath>

#include "base/sha256.h"
#include "base/text.h"
#include "runtime/package/manifest_decoder.h"

namespace rtx::package {
namespace {

bool is_all_of(std::string_view text, std::string_view allowed) {
  return !text.empty() && text.find_first_not_of(allowed) == std::string_view::npos;
}

bool is_sha256(std::string_view text) { return text.size() == 64 && is_all_of(text, "0123456789abcdef"); }

// "sm_90a"
bool is_arch(std::string_view text) {
  if (!text.starts_with("sm_")) return false;
  text.remove_prefix(3);
  if (text.ends_with('a') || text.ends_with('f')) text.remove_suffix(1);
  return text.size() <= 4 && is_all_of(text, "0123456789") && text[0] != '0';
}

// The extern "C" name of a kernel.
bool is_function(std::string_view text) {
  return text.size() <= 256 && !(text.size() > 0 && text[0] >= '0' && text[0] <= '9') &&
         is_all_of(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
}

Symbol decode_symbol(Decoder& d, const YamlNode& node) {
  Fields fields(d, node);
  Symbol symbol;
  symbol.name = d.string(fields["name"], is_symbol_name, "a symbol");
  symbol.min = d.integer(fields["min"], 0, int64_max);
  symbol.max = d.integer(fields["max"], symbol.min, int64_max);
  symbol.opt = d.integer(fields["opt"], 0, symbol.max);
  fields.finish();
  return symbol;
}

FileEntry decode_file(Decoder& d, const YamlNode& node) {
  Fields fields(d, node);
  FileEntry file;
  file.name = d.string(fields["name"]);
  file.bytes = d.integer(fields["bytes"], 0, int64_max);
  file.sha256 = d.string(fields["sha256"], is_sha256, "64 lower-case hex digits");
  fields.finish();
  return file;
}

Resources decode_resources(Decoder& d, const YamlNode& node) {
  Fields fields(d, node);
  Resources r;
  r.arch = d.word(fields["arch"]);
  r.registers = static_cast<int>(d.integer(fields["registers"], 0, int32_max));
  r.shared_bytes = static_cast<int>(d.integer(fields["shared_bytes"], 0, int32_max));
  r.spill_bytes = static_cast<int>(d.integer(fields["spill_bytes"], 0, int32_max));
  r.stack_bytes = static_cast<int>(d.integer(fields["stack_bytes"], 0, int32_max));
  r.blocks_per_sm = static_cast<int>(d.integer(fields["blocks_per_sm"], 0, int32_max));
  r.occupancy = d.fraction(fields["occupancy"]);
  fields.finish();
  return r;
}

Launch decode_launch(Decoder& d, const YamlNode& node) {
  constexpr int largest_block = 1024;  // threads, for every architecture (CUDA programming guide, compute capabilities)
  Fields fields(d, node);
  Launch launch;
  launch.function = d.string(fields["function"], is_function, "a C identifier");
  const YamlNode* const grid = fields["grid"];
  const auto grid_formulas = d.list(grid, [&](const YamlNode* n) { return d.formula(n); });
  const YamlNode* const block = fields["block"];
  const auto block_sizes =
      d.list(block, [&](const YamlNode* n) { return static_cast<int>(d.integer(n, 1, largest_block)); });
  if (grid_formulas.size() == 3 && block_sizes.size() == 3) {
    std::copy(grid_formulas.begin(), grid_formulas.end(), launch.grid.begin());
    std::copy(block_sizes.begin(), block_sizes.end(), launch.block.begin());
    if (int64_t{launch.block[0]} * launch.block[1] * launch.block[2] > largest_block) {
      d.fail(*block, concat("'block' has more than ", largest_block, " threads"));
    }
  } else {
    d.fail(node, "'grid' and 'block' do not have three sizes each");
  }
  launch.shared_bytes = d.formula(fields["shared_bytes"]);
  launch.workspace_bytes = d.formula(fields["workspace_bytes"]);
  launch.counters = d.formula(fields["counters"]);
  launch.scalars = d.list(fields["scalars"], [&](const YamlNode* n) { return d.formula(n); });
  launch.code_offset = d.integer(fields["code_offset"], 0, int64_max);
  launch.code_bytes = d.integer(fields["code_bytes"], 0, int64_max - launch.code_offset);
  fields.finish();
  return launch;
}

constexpr int64_t most_matmul_operands = 4;  // lhs, rhs, bias, residual

MatmulCall decode_matmul(Decoder& d, const YamlNode& node) {
  Fields fields(d, node);
  MatmulCall matmul;
  matmul.batch = d.formula(fields["batch"]);
  matmul.m = d.formula(fields["m"]);
  matmul.n = d.formula(fields["n"]);
  matmul.k = d.formula(fields["k"]);
  matmul.transpose_lhs = d.boolean(fields["transpose_lhs"]);
  matmul.transpose_rhs = d.boolean(fields["transpose_rhs"]);
  matmul.lhs_batch_stride = d.formula(fields["lhs_batch_stride"]);
  matmul.rhs_batch_stride = d.formula(fields["rhs_batch_stride"]);
  matmul.dtype = d.keyword(fields["dtype"], parse_dtype);
  auto operand = [&](std::string_view name) -> std::optional<uint32_t> {
    const YamlNode* const number = fields.find(name);
    if (!number) return std::nullopt;
    return static_cast<uint32_t>(d.integer(number, 0, most_matmul_operands - 1));
  };
  matmul.bias = operand("bias");
  matmul.residual = operand("residual");
  fields.finish();
  return matmul;
}

Kernel decode_kernel(Decoder& d, const YamlNode& node, const Manifest& manifest) {
  const std::vector<std::string>& archs = manifest.archs;
  Fields fields(d, node);
  Kernel kernel;
  kernel.name = d.string(fields["name"]);
  kernel.kind = d.string(fields["kind"]);
  kernel.cache_key = d.string(fields["cache_key"]);
  kernel.determinism = d.keyword(fields["determinism"], parse_determinism);
  kernel.plan = d.string(fields["plan"]);
  kernel.flops = d.formula(fields["flops"]);
  kernel.bytes = d.formula(fields["bytes"]);
  kernel.unit = d.keyword(fields["unit"], parse_math_unit);
  kernel.percent = static_cast<int>(d.integer(fields["percent"], 1, 100));
  if (const YamlNode* const decisions = fields.find("decisions"))
    kernel.decisions = decode_decision_list(d, decisions, manifest.decisions.size());
  if (const YamlNode* const launch = fields.find("launch")) {
    kernel.launch = decode_launch(d, *launch);
    const YamlNode* const resources = fields["resources"];
    kernel.launch->resources = d.list(resources, [&](const YamlNode* n) { return decode_resources(d, *n); });
    const bool is_in_order =
        std::equal(kernel.launch->resources.begin(), kernel.launch->resources.end(), archs.begin(), archs.end(),
                   [](const Resources& r, const std::string& arch) { return r.arch == arch; });
    if (resources != nullptr && !is_in_order)
      d.fail(*resources, "'resources' does not have one entry for each of 'archs', in their order");
  }
  if (const YamlNode* const matmul = fields.find("matmul")) kernel.matmul = decode_matmul(d, *matmul);
  if ((kernel.launch ? 1 : 0) + (kernel.matmul ? 1 : 0) != (archs.empty() ? 0 : 1)) {
    d.fail(node, archs.empty() ? "a kernel has 'launch' or 'matmul', but the package names no 'archs'"
                               : "a kernel does not have exactly one of 'launch' and 'matmul'");
  }
  kernel.body = d.string(fields["body"]);
  fields.finish();
  return kernel;
}

Manifest decode_manifest(Decoder& d, const YamlNode& root) {
  Fields fields(d, root);
  Manifest manifest;
  fields["rtx_package"];  // the version was checked first of all
  manifest.producer = d.string(fields["producer"]);
  manifest.determinism = d.keyword(fields["determinism"], parse_determinism);

  const YamlNode* const archs = fields["archs"];
  manifest.archs = d.list(archs, [&](const YamlNode* n) {
    std::string arch(d.word(n));
    if (!is_arch(arch)) d.fail(*n, concat("an architecture is ", quote_text(arch, 40), ", not of the form sm_90a"));
    return arch;
  });
  d.check_unique(archs, manifest.archs, [](const std::string& arch) -> std::string_view { return arch; });

  const YamlNode* const symbols = fields["symbols"];
  manifest.symbols = d.list(symbols, [&](const YamlNode* n) { return decode_symbol(d, *n); });
  d.check_unique(symbols, manifest.symbols, [](const Symbol& symbol) -> std::string_view { return symbol.name; });
  d.symbols = manifest.symbol_names();

  const YamlNode* const weights = fields["weights"];
  manifest.weights = d.list(weights, [&](const YamlNode* n) { return d.string(n); });
  d.check_unique(weights, manifest.weights, [](const std::string& name) -> std::string_view { return name; });

  const YamlNode* const files = fields["files"];
  manifest.files = d.list(files, [&](const YamlNode* n) { return decode_file(d, *n); });
  d.check_unique(files, manifest.files, [](const FileEntry& file) -> std::string_view { return file.name; });

  if (const YamlNode* const table = fields.find("tuning_table"))
    manifest.tuning_table = d.string(table, is_sha256, "64 lower-case hex digits");
  manifest.decisions = d.list(fields["decisions"], [&](const YamlNode* n) { return decode_decision(d, *n); });

  const YamlNode* const kernels = fields["kernels"];
  manifest.kernels = d.list(kernels, [&](const YamlNode* n) { return decode_kernel(d, *n, manifest); });
  d.check_unique(kernels, manifest.kernels, [](const Kernel& kernel) -> std::string_view { return kernel.name; });

  const YamlNode* const programs = fields["programs"];
  manifest.programs = d.list(programs, [&](const YamlNode* n) { return decode_program(d, *n, manifest); });
  if (!d.error) check_variants(d, *programs, manifest.programs);
  d.check_unique(programs, manifest.programs, [](const Program& program) -> std::string_view { return program.name; });
  d.string(fields["checksum"]);
  fields.finish();
  return manifest;
}

// The version stands before everything else that a later format may change.
void check_version(Decoder& d, const YamlNode& root) {
  const YamlNode& first = root.children.front();  // parse_yaml refuses an empty mapping
  if (first.key != "rtx_package") return d.fail(first, "the first key is not 'rtx_package'");
  if (d.integer(&first, 1, int32_max) == format_version || d.error) return;
  d.fail(first,
         make_error(ErrorKind::integrity, "E602", "the package has a format that this version of rtx does not read")
             .with_expected(concat("format ", format_version))
             .with_got(concat("format ", first.text))
             .with_help("use the version of rtx that made the package, or compile the model again"));
}

// The last line holds the SHA-256 of all before it. It guards against damage, not against intent.
void check_checksum(Decoder& d, std::string_view yaml, const YamlNode& root) {
  const YamlNode& last = root.children.back();
  const size_t start = yaml.rfind('\n', yaml.size() - 2) + 1;
  if (last.key != "checksum" || !yaml.substr(start).starts_with("checksum: ")) {
    return d.fail(last, "the last line is not its checksum; the file may be cut");
  }
  const std::string expected = sha256_hex(yaml.substr(0, start));
  if (last.text == expected) return;
  d.fail(last, make_error(ErrorKind::integrity, "E611", "the manifest is not the one that was written")
                   .with_expected(concat("checksum ", expected))
                   .with_got(concat("checksum ", escape_text(last.text, 80)))
                   .with_help("copy or compile the package again"));
}

// A manifest has one text only: whatever else YAML lets one write for the same values is refused, and so is what two
// YAML parsers may read in two ways.
void check_canonical(Decoder& d, std::string_view yaml, const Manifest& manifest) {
  const std::string canonical = to_yaml(manifest);
  if (canonical == yaml) return;
  const auto difference = std::mismatch(yaml.begin(), yaml.end(), canonical.begin(), canonical.end()).first;
  YamlNode place;
  place.line = 1 + static_cast<int>(std::count(yaml.begin(), difference, '\n'));
  const std::string_view before = yaml.substr(0, static_cast<size_t>(difference - yaml.begin()));
  place.column = static_cast<int>(before.size() - (before.rfind('\n') + 1)) + 1;
  d.fail(place, "not the text that rtx writes for these values");
}

}  // namespace

Result<Manifest> parse_manifest(std::string_view yaml, std::string_view file) {
  auto root = parse_yaml(yaml);
  if (!root) {
    // "FILE:LINE:COLUMN", without the space that within() puts.
    Diagnostic diagnostic = root.error().first();
    diagnostic.with_where(diagnostic.where.empty() ? std::string(file) : concat(file, ":", diagnostic.where));
    return diagnostic;
  }
  Decoder decoder(file);
  check_version(decoder, *root);
  if (!decoder.error) check_checksum(decoder, yaml, *root);
  if (decoder.error) return *std::move(decoder.error);
  Manifest manifest = decode_manifest(decoder, *root);
  if (!decoder.error) check_canonical(decoder, yaml, manifest);
  if (decoder.error) return *std::move(decoder.error);
  return manifest;
}

}  // namespace rtx::package
