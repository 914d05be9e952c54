#include "runtime/model.h"

#include <algorithm>

#include "base/text.h"

namespace rtx::runtime {

Result<const package::Program*> find_program(const package::Manifest& manifest, const std::string& name) {
  const auto& programs = manifest.programs;
  if (name.empty() && !programs.empty()) return &programs.front();
  if (const package::Program* program = manifest.find_program(name)) return program;
  return make_error(ErrorKind::usage, "E005", concat("the package has no program '", escape_text(name), "'"))
      .with_expected(join(programs, ", ", [](const package::Program& program) { return program.name; }));
}

bool is_selected(const package::Program& program, std::span<const HostTensor> inputs) {
  if (!program.when || program.when->input >= inputs.size()) return true;
  const HostTensor& input = inputs[program.when->input];
  if (input.dtype != DType::boolean || input.bytes.size() != 1) return true;  // bind_symbols says what is wrong with it
  return (input.bytes[0] != std::byte{0}) == program.when->value;
}

namespace {

const package::Program& choose_variant(const package::Manifest& manifest, const package::Program& general,
                                       std::span<const HostTensor> inputs, const SymbolValues& given) {
  const auto is_variant = [&](const package::Program& program) {
    return program.variant && &manifest.programs[program.variant->of] == &general;
  };
  if (std::none_of(manifest.programs.begin(), manifest.programs.end(), is_variant)) return general;
  std::vector<TensorType> types;
  for (const HostTensor& input : inputs) types.push_back({input.dtype, input.shape});
  const auto symbols = bind_symbols(manifest, general, types, given);
  if (!symbols) return general;  // its session says what is wrong
  const package::Program* best = &general;
  for (const package::Program& program : manifest.programs) {
    if (!is_variant(program)) continue;
    const auto& dims = program.variant->dims;
    const bool fits =
        std::all_of(dims.begin(), dims.end(), [&](const auto& dim) { return (*symbols)[dim.symbol] == dim.size; });
    if (fits && (!best->variant || dims.size() > best->variant->dims.size())) best = &program;
  }
  return *best;
}

}  // namespace

Result<const package::Program*> choose_program(const package::Manifest& manifest, const std::string& name,
                                               std::span<const HostTensor> inputs, const SymbolValues& given) {
  if (!name.empty()) return find_program(manifest, name);
  for (const package::Program& program : manifest.programs)
    if (!program.variant && is_selected(program, inputs)) return &choose_variant(manifest, program, inputs, given);
  return make_error(ErrorKind::invalid, "E005", "no program of the package is for these inputs");
}

Result<std::unique_ptr<Model>> Model::load(const std::string& path, Device& device, const WeightOptions& options) {
  RTX_ASSIGN(package::Package package, package::open_package(path, {.verify_weights = false}));
  return load(std::move(package), device, options);
}

Result<std::unique_ptr<Model>> Model::load(package::Package package, Device& device, const WeightOptions& options) {
  std::unique_ptr<Model> model(new Model(std::move(package), device));
  auto module = device.load(model->package_);
  if (!module) return std::move(module).error().within(model->package_.path);
  model->module_ = std::move(module).value();
  auto weights = load_weights(model->package_, device, options);
  if (!weights) return std::move(weights).error();
  model->weights_ = std::move(weights).value();
  return model;
}

}  // namespace rtx::runtime
