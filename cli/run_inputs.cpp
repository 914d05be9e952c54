#include "cli/run_inputs.h"

#include <algorithm>
#include <charconv>

#include "base/text.h"

namespace rtx::cli {

using package::TensorSpec;
using runtime::HostTensor;

namespace {

template <typename Number>
std::optional<Number> parse(std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

template <typename Number>
Result<std::pair<Number, Number>> parse_range(std::string_view text, std::string_view flag) {
  const size_t colon = text.find(':');
  if (colon != std::string_view::npos) {
    const auto low = parse<Number>(text.substr(0, colon)), high = parse<Number>(text.substr(colon + 1));
    if (low && high && *low < *high) return std::pair(*low, *high);
  }
  return make_error(ErrorKind::usage, "E009", concat(flag, "=", escape_text(text), " is no range"))
      .with_expected("LOW:HIGH with LOW < HIGH; HIGH is not included");
}

// TYPE=VALUES or TYPE=@FILE or @FILE.
Result<HostTensor> parse_value(const std::string& text, const TensorSpec& spec) {
  if (text.starts_with('@')) return read_tensor_file(text.substr(1), spec);
  const size_t equals = text.find('=');
  const auto type = runtime::parse_tensor_type(std::string_view(text).substr(0, equals));
  if (equals == std::string::npos || !type)
    return make_error(ErrorKind::usage, "E009", concat("cannot read the value '", escape_text(text), "'"))
        .with_where(concat("--input for '", escape_text(spec.name), "'"))
        .with_expected("@file.npy, 2x3xf32=1,2,3,4,5,6 or 2x3xf32=@file.bin");
  const std::string rest = text.substr(equals + 1);
  if (!rest.starts_with('@')) return runtime::parse_elements(*type, rest);

  RTX_ASSIGN(const auto file, File::open(rest.substr(1)));
  RTX_ASSIGN(const int64_t bytes, runtime::tensor_bytes(type->dtype, type->shape));
  if (file->size() != bytes)
    return make_error(ErrorKind::invalid, "E379", "the file does not fit the type")
        .with_where(file->path())
        .with_expected(concat(bytes, " bytes for ", runtime::type_text(type->dtype, type->shape)))
        .with_got(concat(file->size(), " bytes"));
  HostTensor tensor{
      .dtype = type->dtype, .shape = type->shape, .bytes = std::vector<std::byte>(static_cast<size_t>(bytes))};
  RTX_TRY(file->read(0, tensor.bytes));
  return tensor;
}

// The values of the symbols for random inputs: by name, else from the inputs that are given, else the package's.
Result<std::vector<int64_t>> choose_dims(const InputOptions& options, const package::Manifest& manifest,
                                         const package::Program& program,
                                         const std::vector<std::optional<HostTensor>>& given) {
  RTX_ASSIGN(runtime::SymbolValues dims, parse_dims(options.dims));
  for (size_t i = 0; i < given.size(); ++i) {
    const auto& shape = program.inputs[i].shape;
    if (!given[i] || given[i]->shape.size() != shape.size()) continue;
    for (size_t axis = 0; axis < shape.size(); ++axis)
      for (const package::Symbol& symbol : manifest.symbols)
        if (shape[axis].text() == symbol.name) dims.try_emplace(symbol.name, given[i]->shape[axis]);
  }
  return runtime::choose_symbols(manifest, dims);
}

Result<void> fill_random(const InputOptions& options, const package::Manifest& manifest,
                         const package::Program& program, std::vector<std::optional<HostTensor>>& inputs) {
  runtime::RandomRange common;
  if (!options.value_range.empty()) {
    RTX_ASSIGN(const auto range, parse_range<double>(options.value_range, "--val-range"));
    std::tie(common.float_low, common.float_high) = range;
  }
  std::vector<runtime::RandomRange> ranges(inputs.size(), common);
  for (const std::string& text : options.int_ranges) {
    const size_t equals = text.rfind('=');
    const std::string name = equals == std::string::npos ? "" : text.substr(0, equals);
    RTX_ASSIGN(const auto range, parse_range<int64_t>(text.substr(equals + 1), "--int-range"));
    bool known = name.empty();
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!name.empty() && program.inputs[i].name != name) continue;
      std::tie(ranges[i].int_low, ranges[i].int_high) = range;
      known = true;
    }
    if (!known)
      return make_error(ErrorKind::usage, "E372", concat("the program has no input '", escape_text(name), "'"))
          .with_where("--int-range");
  }
  RTX_ASSIGN(const std::vector<int64_t> symbols, choose_dims(options, manifest, program, inputs));
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i]) continue;
    const TensorSpec& spec = program.inputs[i];
    RTX_ASSIGN(std::vector<int64_t> shape, runtime::evaluate_shape(spec, symbols));
    RTX_ASSIGN(inputs[i], runtime::random_tensor(spec.dtype, std::move(shape), options.seed, i, ranges[i]));
  }
  return Ok{};
}

}  // namespace

std::optional<DType> type_for_numpy(DType dtype) {
  switch (dtype) {
    case DType::bf16:
    case DType::f8e4m3:
    case DType::f8e5m2:
    case DType::u4:
    case DType::i4:
      return dtype;
    default:
      return std::nullopt;
  }
}

Result<HostTensor> read_tensor_file(const std::string& path, const TensorSpec& spec) {
  RTX_ASSIGN(const auto file, File::open(path));
  return read_npy(*file, type_for_numpy(spec.dtype));
}

Result<Named> split_name(const std::string& argument, const std::vector<TensorSpec>& specs,
                         const std::vector<bool>& taken, const std::string& what) {
  std::optional<size_t> best;
  for (size_t i = 0; i < specs.size(); ++i)
    if (argument.starts_with(specs[i].name + "=") && (!best || specs[i].name.size() > specs[*best].name.size()))
      best = i;
  if (best) return Named{*best, argument.substr(specs[*best].name.size() + 1)};

  const size_t equals = argument.find('=');
  const bool has_name = !argument.starts_with('@') && equals != std::string::npos &&
                        !runtime::parse_tensor_type(std::string_view(argument).substr(0, equals));
  if (has_name)
    return make_error(ErrorKind::usage, "E372",
                      concat("the program has no ", what, " '", escape_text(argument.substr(0, equals)), "'"))
        .with_expected(
            concat("one of: ", join(specs, ", ", [](const TensorSpec& spec) { return escape_text(spec.name); })));
  for (size_t i = 0; i < specs.size(); ++i)
    if (i >= taken.size() || !taken[i]) return Named{i, argument};
  return make_error(ErrorKind::usage, "E372", concat("more values than the program has ", what, "s"))
      .with_expected(concat(specs.size()));
}

Result<runtime::SymbolValues> parse_dims(const std::vector<std::string>& dims) {
  runtime::SymbolValues values;
  for (const std::string& text : dims) {
    const size_t equals = text.rfind('=');
    const auto value =
        equals == std::string::npos ? std::nullopt : parse<int64_t>(std::string_view(text).substr(equals + 1));
    if (!value)
      return make_error(ErrorKind::usage, "E009", concat("--dim ", escape_text(text), " is no dim"))
          .with_expected("NAME=SIZE");
    values[text.substr(0, equals)] = *value;
  }
  return values;
}

Result<std::vector<HostTensor>> make_inputs(const InputOptions& options, const package::Manifest& manifest,
                                            const package::Program& program) {
  const std::vector<TensorSpec>& specs = program.inputs;
  std::vector<std::optional<HostTensor>> inputs(specs.size());
  std::vector<bool> taken(specs.size());
  if (!options.npz.empty()) {
    RTX_ASSIGN(auto file, File::open(options.npz));
    RTX_ASSIGN(const auto npz, NpzFile::open(std::move(file)));
    for (const std::string& name : npz->names()) {
      const auto spec = std::find_if(specs.begin(), specs.end(), [&](const TensorSpec& s) { return s.name == name; });
      if (spec == specs.end())
        return make_error(ErrorKind::invalid, "E372", concat("the program has no input '", escape_text(name), "'"))
            .with_where(options.npz)
            .with_expected(
                concat("one of: ", join(specs, ", ", [](const TensorSpec& s) { return escape_text(s.name); })));
      const auto i = static_cast<size_t>(spec - specs.begin());
      RTX_ASSIGN(inputs[i], npz->read(name, type_for_numpy(spec->dtype)));
      taken[i] = true;
    }
  }
  for (const std::string& argument : options.inputs) {
    RTX_ASSIGN(const Named named, split_name(argument, specs, taken, "input"));
    RTX_ASSIGN(inputs[named.index], parse_value(named.rest, specs[named.index]));
    taken[named.index] = true;
  }
  if (options.random) RTX_TRY(fill_random(options, manifest, program, inputs));

  std::vector<HostTensor> result;
  std::vector<std::string> missing;
  for (size_t i = 0; i < specs.size(); ++i) {
    if (inputs[i])
      result.push_back(std::move(*inputs[i]));
    else
      missing.push_back(escape_text(specs[i].name));
  }
  if (!missing.empty())
    return make_error(ErrorKind::usage, "E371",
                      concat("no value for the input", missing.size() > 1 ? "s " : " ", join(missing, ", ")))
        .with_help("give --input NAME=@FILE.npy, --inputs FILE.npz or --random-inputs");
  return result;
}

}  // namespace rtx::cli
