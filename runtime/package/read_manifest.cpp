// The tree of a manifest's YAML, decoded into the Manifest. Strict: what is unknown, missing, of another type or out of
// range is refused with its place.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <set>

#include "base/sha256.h"
#include "base/text.h"
#include "runtime/package/manifest.h"
#include "runtime/package/yaml.h"

namespace rtx::package {
namespace {

constexpr int64_t int64_max = std::numeric_limits<int64_t>::max();
constexpr int64_t int32_max = std::numeric_limits<int32_t>::max();

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

// Decodes values; keeps the first error and then gives defaults, so that decoding code reads as a list of fields.
// A null node stands for a value that is missing, for which there is an error already.
class Decoder {
 public:
  explicit Decoder(std::string_view file) : file_(file) {}

  std::vector<std::string> symbols;
  std::optional<Diagnostic> error;

  void fail(const YamlNode& node, Diagnostic diagnostic) {
    if (error) return;
    diagnostic.with_where(concat(file_, ":", node.line, ":", node.column));
    error = std::move(diagnostic);
  }
  void fail(const YamlNode& node, std::string message) {
    fail(node, make_error(ErrorKind::integrity, "E601", concat("not a manifest: ", message)));
  }

  std::string string(const YamlNode* node) {
    if (node == nullptr) return {};
    if (node->kind != YamlNode::Kind::scalar || !node->quoted)
      fail(*node, concat(name(*node), " is not a quoted string"));
    return node->text;
  }
  // A string for which `is_valid` holds.
  std::string string(const YamlNode* node, bool (*is_valid)(std::string_view), std::string_view what) {
    std::string text = string(node);
    if (node != nullptr && !is_valid(text))
      fail(*node, concat(name(*node), " is ", quote_text(text, 80), ", not ", what));
    return text;
  }

  // A bare word.
  std::string_view word(const YamlNode* node) {
    if (node == nullptr) return {};
    if (node->kind != YamlNode::Kind::scalar || node->quoted) {
      fail(*node, concat(name(*node), " is not a bare word or number"));
      return {};
    }
    return node->text;
  }

  int64_t integer(const YamlNode* node, int64_t min, int64_t max) {
    const std::string_view text = word(node);
    int64_t value = 0;
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool is_canonical = code == std::errc() && end == text.data() + text.size() && std::to_string(value) == text;
    if (node != nullptr && (!is_canonical || value < min || value > max)) {
      fail(*node, max < min ? concat(name(*node), " is ", escape_text(text, 40), ", but there is nothing to refer to")
                            : concat(name(*node), " is ", escape_text(text, 40), ", expected an integer from ", min,
                                     " to ", max));
      return 0;
    }
    return value;
  }

  double fraction(const YamlNode* node) {
    const std::string_view text = word(node);
    double value = 0;
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (node != nullptr && (code != std::errc() || end != text.data() + text.size() || !(value >= 0 && value <= 1))) {
      fail(*node, concat(name(*node), " is not a number from 0 to 1"));
      return 0;
    }
    return value;
  }

  bool boolean(const YamlNode* node) {
    const std::string_view text = word(node);
    if (node != nullptr && text != "true" && text != "false") fail(*node, concat(name(*node), " is not true or false"));
    return text == "true";
  }

  // One of the words that `parse` knows.
  template <typename T>
  T keyword(const YamlNode* node, std::optional<T> (*parse)(std::string_view)) {
    const std::string_view text = word(node);
    const std::optional<T> value = parse(text);
    if (node != nullptr && !value) fail(*node, concat(name(*node), " has the unknown value ", quote_text(text, 80)));
    return value.value_or(T{});
  }

  Formula formula(const YamlNode* node) {
    if (node == nullptr) return {};
    if (!node->quoted) return Formula(integer(node, 0, int64_max));
    auto parsed = Formula::parse(node->text, symbols);
    if (parsed) return std::move(parsed).value();
    fail(*node, parsed.error().first());
    return {};
  }

  // Every item of a sequence through `decode(node)`.
  template <typename Decode>
  auto list(const YamlNode* node, Decode decode) -> std::vector<decltype(decode(node))> {
    std::vector<decltype(decode(node))> items;
    if (node == nullptr) return items;
    if (node->kind != YamlNode::Kind::sequence) {
      fail(*node, concat(name(*node), " is not a list"));
      return items;
    }
    items.reserve(node->children.size());
    for (const YamlNode& child : node->children) items.push_back(decode(&child));
    return items;
  }

  // The names in a list must differ.
  template <typename T, typename ToName>
  void check_unique(const YamlNode* node, const std::vector<T>& items, ToName to_name) {
    std::set<std::string_view> seen;
    for (size_t i = 0; node != nullptr && i < items.size() && i < node->children.size(); ++i) {
      if (!seen.insert(to_name(items[i])).second) {
        fail(node->children[i], concat("the name ", quote_text(to_name(items[i])), " stands twice in ", name(*node)));
      }
    }
  }

  static std::string name(const YamlNode& node) {
    return node.key.empty() ? std::string("an item of the list") : concat("'", node.key, "'");
  }

 private:
  std::string_view file_;
};

// The entries of one mapping, each of which must be asked for.
class Fields {
 public:
  Fields(Decoder& decoder, const YamlNode& node) : decoder_(decoder), node_(node), taken_(node.children.size(), false) {
    if (node.kind != YamlNode::Kind::mapping) decoder.fail(node, concat(Decoder::name(node), " is not a mapping"));
  }
  // Null and an error if there is no such entry.
  const YamlNode* operator[](std::string_view key) {
    const YamlNode* const found = find(key);
    if (found == nullptr && node_.kind == YamlNode::Kind::mapping)
      decoder_.fail(node_, concat("the key '", key, "' is missing"));
    return found;
  }
  // Null if there is no such entry.
  const YamlNode* find(std::string_view key) {
    for (size_t i = 0; node_.kind == YamlNode::Kind::mapping && i < node_.children.size(); ++i) {
      if (node_.children[i].key != key) continue;
      taken_[i] = true;
      return &node_.children[i];
    }
    return nullptr;
  }
  // After the last entry was asked for.
  void finish() {
    for (size_t i = 0; node_.kind == YamlNode::Kind::mapping && i < node_.children.size(); ++i) {
      if (!taken_[i]) decoder_.fail(node_.children[i], concat("unknown key '", node_.children[i].key, "'"));
    }
  }

 private:
  Decoder& decoder_;
  const YamlNode& node_;
  std::vector<bool> taken_;
};

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
  launch.scalars = d.list(fields["scalars"], [&](const YamlNode* n) { return d.formula(n); });
  launch.code_offset = d.integer(fields["code_offset"], 0, int64_max);
  launch.code_bytes = d.integer(fields["code_bytes"], 0, int64_max - launch.code_offset);
  fields.finish();
  return launch;
}

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
  fields.finish();
  return matmul;
}

Kernel decode_kernel(Decoder& d, const YamlNode& node, const std::vector<std::string>& archs) {
  Fields fields(d, node);
  Kernel kernel;
  kernel.name = d.string(fields["name"]);
  kernel.kind = d.string(fields["kind"]);
  kernel.cache_key = d.string(fields["cache_key"]);
  kernel.determinism = d.keyword(fields["determinism"], parse_determinism);
  kernel.flops = d.formula(fields["flops"]);
  kernel.bytes = d.formula(fields["bytes"]);
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

TensorSpec decode_tensor(Decoder& d, const YamlNode& node) {
  Fields fields(d, node);
  TensorSpec tensor;
  tensor.name = d.string(fields["name"]);
  tensor.dtype = d.keyword(fields["dtype"], parse_dtype);
  tensor.shape = d.list(fields["shape"], [&](const YamlNode* n) { return d.formula(n); });
  fields.finish();
  return tensor;
}

Buffer decode_buffer(Decoder& d, const YamlNode& node, const Manifest& manifest, const Program& program) {
  Fields fields(d, node);
  Buffer buffer;
  buffer.kind = d.keyword(fields["kind"], parse_buffer_kind);
  size_t count = 0;
  switch (buffer.kind) {
    case BufferKind::input:
      count = program.inputs.size();
      break;
    case BufferKind::output:
      count = program.outputs.size();
      break;
    case BufferKind::weight:
      count = manifest.weights.size();
      break;
    case BufferKind::arena:
      count = program.slots.size();
      break;
  }
  buffer.index = static_cast<uint32_t>(d.integer(fields["index"], 0, static_cast<int64_t>(count) - 1));
  buffer.bytes = d.formula(fields["bytes"]);
  fields.finish();
  return buffer;
}

Step decode_step(Decoder& d, const YamlNode& node, const Manifest& manifest, const Program& program) {
  auto buffer = [&](const YamlNode* n) {
    return static_cast<uint32_t>(d.integer(n, 0, static_cast<int64_t>(program.buffers.size()) - 1));
  };
  Fields fields(d, node);
  Step step;
  step.kernel =
      static_cast<uint32_t>(d.integer(fields["kernel"], 0, static_cast<int64_t>(manifest.kernels.size()) - 1));
  step.operands = d.list(fields["operands"], buffer);
  step.results = d.list(fields["results"], [&](const YamlNode* n) {
    const uint32_t index = buffer(n);
    if (!d.error && program.buffers[index].kind != BufferKind::output &&
        program.buffers[index].kind != BufferKind::arena) {
      d.fail(*n, concat("a step writes to buffer ", index, ", an input or a weight"));
    }
    return index;
  });
  step.origins = d.list(fields["origins"], [&](const YamlNode* n) { return d.string(n); });
  fields.finish();
  return step;
}

Selector decode_selector(Decoder& d, const YamlNode& node) {
  Fields fields(d, node);
  Selector selector;
  selector.input = static_cast<uint32_t>(d.integer(fields["input"], 0, int32_max));
  selector.value = d.boolean(fields["value"]);
  fields.finish();
  return selector;
}

// An input that is one bool, whatever the dims are.
bool can_select(const Selector& selector, const Program& program) {
  if (selector.input >= program.inputs.size()) return false;
  const TensorSpec& spec = program.inputs[selector.input];
  for (const Formula& size : spec.shape)
    if (!size.is_constant() || size.text() != "1") return false;
  return spec.dtype == DType::boolean;
}

Program decode_program(Decoder& d, const YamlNode& node, const Manifest& manifest) {
  auto tensors = [&](const YamlNode* list) {
    auto specs = d.list(list, [&](const YamlNode* n) { return decode_tensor(d, *n); });
    d.check_unique(list, specs, [](const TensorSpec& spec) -> std::string_view { return spec.name; });
    return specs;
  };
  Fields fields(d, node);
  Program program;
  program.name = d.string(fields["name"]);
  const YamlNode* const when = fields.find("when");
  if (when) program.when = decode_selector(d, *when);
  program.inputs = tensors(fields["inputs"]);
  if (when && !d.error && !can_select(*program.when, program)) d.fail(*when, "'when' names no input that is one bool");
  program.outputs = tensors(fields["outputs"]);
  program.slots = d.list(fields["slots"], [&](const YamlNode* n) { return d.formula(n); });
  program.arena_lower_bound = d.formula(fields["arena_lower_bound"]);
  program.buffers =
      d.list(fields["buffers"], [&](const YamlNode* n) { return decode_buffer(d, *n, manifest, program); });
  program.steps = d.list(fields["steps"], [&](const YamlNode* n) { return decode_step(d, *n, manifest, program); });
  fields.finish();
  return program;
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

  const YamlNode* const kernels = fields["kernels"];
  manifest.kernels = d.list(kernels, [&](const YamlNode* n) { return decode_kernel(d, *n, manifest.archs); });
  d.check_unique(kernels, manifest.kernels, [](const Kernel& kernel) -> std::string_view { return kernel.name; });

  const YamlNode* const programs = fields["programs"];
  manifest.programs = d.list(programs, [&](const YamlNode* n) { return decode_program(d, *n, manifest); });
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
